"""What the pages say holds: links, commands, files, and the example that readers will copy."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise, takewhile
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.cli import command_line
from harness.host.bare import BareHost, Registration
from harness.host.host import Host
from harness.host.python import PythonHost
from harness.host.record import Recording
from harness.host.scenario import find_scenarios
from harness.native.sessions import IoBinding, Session
from harness.report.scenario_page import scenario_page
from tests.source import TOP

PAGES = sorted([*TOP.glob("*.md"), *(TOP / "docs").glob("*.md")])
WORKFLOWS = sorted((TOP / ".github" / "workflows").glob("*.yml"))
WRITING = TOP / "docs" / "writing-a-scenario.md"
HOSTS = {"github.com", "keepachangelog.com", "onnxruntime.ai", "semver.org"}

page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def tokens(path: Path) -> list[Token]:
    parsed = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    return [inner for token in parsed for inner in (token, *(token.children or ()))]


def fences(path: Path, language: str) -> list[str]:
    return [t.content for t in tokens(path) if t.type == "fence" and t.info.strip() == language]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    found: set[str] = set()
    for opening, content in pairwise(tokens(path)):
        if opening.type == "heading_open":
            text = "".join(child.content for child in content.children or ())
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every `ort-ep-matrix` command in a text."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for found in re.finditer(r"ort-ep-matrix((?: +(?!&&|[|>])[^\s`]+)+)", joined):
        line = re.split(r" (?:&&|[|>])|\)$", found[1])[0]
        words = shlex.split(line.removesuffix(")"), comments=True)
        if words and words[0] in command_line.commands:
            yield words


def check_command(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command as the command line would, with the folders that it names at hand."""
    monkeypatch.chdir(folder)
    # A variable that stands for one of a few words stands for one of them here.
    name, *arguments = ("serialized" if word == "$MODE" else word for word in words)
    if name == "judge" or "--resume" in arguments:
        Path(arguments[-1]).mkdir(parents=True, exist_ok=True)
    if "--markdown" in arguments:
        Path(arguments[-1]).parent.mkdir(parents=True, exist_ok=True)
    try:
        # With its parent, as on the command line: click keeps what help is called there.
        whole = command_line.make_context("ort-ep-matrix", [name], resilient_parsing=True)
        command_line.commands[name].make_context(name, arguments, parent=whole)
    except click.exceptions.Exit:
        pass
    except click.ClickException as error:
        pytest.fail(f"{shlex.join(words)}: {error.format_message()}")


@page
def test_every_link_leads_somewhere(page: Path) -> None:
    for token in tokens(page):
        target = token.attrGet("href") or token.attrGet("src")
        if target is None:
            continue
        parts = urlsplit(str(target))
        if parts.scheme:
            assert parts.scheme == "https", target
            assert parts.hostname in HOSTS, target
            continue
        path = page if not parts.path else (page.parent / parts.path).resolve()
        assert path.exists(), f"{page.name}: {target}"
        assert path.is_relative_to(TOP), target
        if parts.fragment:
            assert parts.fragment in anchors(path), f"{page.name}: {target}"


def test_every_page_of_the_documentation_is_linked_from_another() -> None:
    linked = {
        (path.parent / urlsplit(str(href)).path).resolve()
        for path in PAGES
        for token in tokens(path)
        if (href := token.attrGet("href")) and not urlsplit(str(href)).scheme
    }

    assert {path for path in PAGES if path.parent.name == "docs"} <= linked


@page
def test_every_command_shown_is_one(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [t.content for t in tokens(page) if t.type in ("fence", "code_inline")]
    for words in [words for text in shown for words in commands(text)]:
        check_command(words, tmp_path, monkeypatch)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_command_of_a_workflow_is_one(
    workflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in commands(workflow.read_text(encoding="utf-8")):
        check_command(words, tmp_path, monkeypatch)


def test_the_matrix_workflow_plans_and_runs() -> None:
    found = list(commands((WORKFLOWS[0]).read_text(encoding="utf-8")))

    assert [words[0] for words in found] == ["plan", "run", "run"]
    assert found[0][-2:] == ["--format", "github"]


def test_a_wrong_command_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = commands("x=$(ort-ep-matrix run --cores 1.32.0) && echo")

    assert words == ["run", "--cores", "1.32.0"]
    with pytest.raises(pytest.fail.Exception, match="No such option"):
        check_command(words, tmp_path, monkeypatch)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_with_its_version_beside_it(workflow: Path) -> None:
    uses = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))

    assert uses
    for one in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_job_reads_the_repository_and_no_more(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))

    assert content["permissions"] == {}
    for job in content["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        assert job["timeout-minutes"] <= 30


@page
def test_every_file_named_in_a_page_exists(page: Path) -> None:
    for token in tokens(page):
        if token.type != "code_inline":
            continue
        if re.fullmatch(
            r"(?:harness|scenarios|tests|docs|benchmarks|\.github)/[\w./-]+", token.content
        ):
            assert (TOP / token.content).exists(), token.content
        module = re.fullmatch(r"python -m ([\w.]+)", token.content)
        if module:
            path = TOP.joinpath(*module[1].split("."))
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@page
def test_pages_hold_no_paths_of_one_machine_and_no_filler(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    places = [str(place) for place in (TOP.parent, Path.home()) if place != Path("/")]

    assert not [place for place in places if f"{place}/" in text]
    filler = r"\b(simply|easily|seamless(ly)?|powerful|robust|leverage|utili[sz]e|blazing)\b"
    assert not re.findall(filler, text, re.IGNORECASE)


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (Host, "| | |"),
        (Recording, "| | |"),
        (BareHost, "| `BareHost` | |"),
        (Registration, "| `BareHost` | |"),
        (PythonHost, "| `PythonHost` | |"),
        (Session, "| `Session` | |"),
        (IoBinding, "| `Session` | |"),
    ],
)
def test_the_page_on_scenarios_names_every_public_part(kind: type, row: str) -> None:
    (section,) = WRITING.read_text(encoding="utf-8").split("## The `Host`")[1:]
    lines = section.splitlines()
    table = list(takewhile(lambda line: line.startswith("|"), lines[lines.index(row) :]))
    named = set(re.findall(r"`(\w+)", "\n".join(table)))
    public = {name for name in {**vars(kind), **kind.__annotations__} if not name.startswith("_")}
    inner = {"api", "scope", "handle", "parts", "session", "provider_options", "profiled"}

    assert public - named <= (set() if kind in (Host, Recording, BareHost, PythonHost) else inner)


def test_the_example_of_configuration_names_the_real_entry_point() -> None:
    (example,) = fences(WRITING, "toml")
    ours = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert tomllib.loads(example)["project"]["entry-points"].keys() == ours[
        "entry-points"
    ].keys() - {"pytest11"}


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The example's package, installed as a distribution of its own, and the environment."""
    code = fences(WRITING, "python")[0]
    package = tmp_path / "my_scenarios"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "binding.py").write_text(code, encoding="utf-8")
    (toml,) = fences(WRITING, "toml")
    points = tomllib.loads(toml)["project"]["entry-points"]
    metadata = tmp_path / "my_scenarios-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-scenarios\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in points.items()
        )
    )
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(TOP)])}


def matrix_command(
    arguments: list[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_scenario_is_found_once_its_package_is_installed(
    installed: dict[str, str],
) -> None:
    listed = matrix_command(["scenarios"], installed)

    assert listed.returncode == 0, listed.stderr
    line = next(line for line in listed.stdout.splitlines() if line.startswith("binding/"))
    assert line == "binding/rebound-output" + line[len("binding/rebound-output") :]
    assert line.endswith("  A result goes to the tensor that was bound before.")
    assert "copy/cpu-io" in listed.stdout


@pytest.mark.cores
def test_the_example_scenario_passes_on_a_real_core(
    installed: dict[str, str], host_environment: dict[str, str], tmp_path: Path
) -> None:
    (listing, command) = (words for text in fences(WRITING, "sh") for words in commands(text))
    assert listing == ["scenarios"]
    folder = tmp_path / "run"
    ended = matrix_command([*command, "--output", str(folder)], {**host_environment, **installed})

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 cells: 2 passed; 2 expected" in ended.stdout
    # The reference plugin is driven in both modes there.
    assert [cell["id"] for cell in json.loads((folder / "results.json").read_text())["cells"]] == [
        "1.32.0/concurrent/binding/rebound-output",
        "1.32.0/serialized/binding/rebound-output",
    ]


@pytest.mark.cores
def test_the_example_scenario_notices_an_output_that_stays_bound(
    installed: dict[str, str], host_environment: dict[str, str], tmp_path: Path
) -> None:
    module = tmp_path / "my_scenarios" / "binding.py"
    right, wrong = 'bind_output("y", outputs[i % 2])', 'bind_output("y", outputs[0])'
    code = module.read_text(encoding="utf-8")
    assert code.count(right) == 1
    module.write_text(code.replace(right, wrong), encoding="utf-8")

    arguments = ["run", "--scenario", "binding", "--core", "1.32.0", "--iterations", "2"]
    folder = tmp_path / "run"
    ended = matrix_command([*arguments, "--output", str(folder)], {**host_environment, **installed})

    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "FAILED (wrong-result)" in ended.stdout
    assert "2 of 4 checks did not hold; first in iteration 1: y was" in " ".join(
        ended.stdout.split()
    )


def test_the_page_of_the_scenarios_is_as_the_command_makes_it() -> None:
    page = (TOP / "docs" / "scenarios.md").read_text(encoding="utf-8")

    assert page == scenario_page(find_scenarios(["scenarios"]).values())

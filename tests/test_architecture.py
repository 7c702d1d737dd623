"""The house is as docs/architecture.md says: its modules, its imports, its libraries."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

import pytest

from tests.source import TOP, Import, Module, modules

PAGE = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = modules("harness", "scenarios")
NAMES = {module.name for module in SOURCE}
ids = [module.name for module in SOURCE]

# The distribution that brings an import package of another name.
DISTRIBUTIONS = {"yaml": "PyYAML", "_cffi_backend": "cffi"}


def rows() -> dict[str, int]:
    """Unit to row, from the table of the page."""
    table = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    return {unit: int(row) for row, units in table for unit in re.findall(r"`(\w+)`", units)}


def unit(name: str) -> str:
    """What the table calls a module of the engine: its sub-package, or itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def target(one: Import) -> str | None:
    """The module of the project that an import means; none for what is not the project's."""
    return next((name for name in reversed(one.targets) if name in NAMES), None)


def house() -> set[str]:
    """The paths in the page's picture of the house."""
    (picture,) = re.findall(r"## The house\n+```\n(.*?)```", PAGE, re.DOTALL)
    folders: list[str] = []
    paths = set()
    for line in picture.splitlines():
        depth = (len(line) - len(line.lstrip())) // 4
        names = re.findall(
            r"[\w.]+(?:/|\.(?:py|h)\b)", re.split(r"\s{3,}(?![\w]+\.py)", line.strip())[0]
        )
        for name in names:
            paths.add("".join(folders[:depth]) + name)
            if name.endswith("/"):
                folders = [*folders[:depth], name]
    return paths


def test_the_table_of_rows_places_every_module_of_the_engine() -> None:
    units = {unit(module.name) for module in SOURCE if module.name.startswith("harness.")}

    assert units == set(rows())


@pytest.mark.parametrize(
    "module", [m for m in SOURCE if m.name.startswith("harness.")], ids=lambda m: m.name
)
def test_imports_point_down_the_rows(module: Module) -> None:
    places = rows()
    for one in module.imports():
        other = target(one)
        if other is None or other == "harness" or unit(other) == unit(module.name):
            continue
        assert other.startswith("harness."), f"{module.name} imports {other}"
        assert places[unit(other)] > places[unit(module.name)], f"{module.name} imports {other}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {
        module.name: {other for one in module.imports() if (other := target(one)) is not None}
        - {module.name}
        for module in SOURCE
    }
    while free := [name for name, others in edges.items() if not others & edges.keys()]:
        for name in free:
            del edges[name]

    assert not edges


@pytest.mark.parametrize(
    "module", [m for m in SOURCE if m.name.startswith("scenarios.")], ids=lambda m: m.name
)
def test_scenarios_import_only_the_host_interface_and_each_other(module: Module) -> None:
    allowed = {f"harness.host.{name}" for name in ("bare", "host", "model", "python", "scenario")}
    for one in module.imports():
        other = target(one)
        assert other is None or other in allowed or other.startswith("scenarios."), one


@pytest.mark.parametrize(
    "module",
    [m for m in SOURCE if m.name.startswith(("harness.host.", "harness.native."))],
    ids=lambda m: m.name,
)
def test_host_and_native_import_nothing_of_the_engine(module: Module) -> None:
    for one in module.imports():
        assert one.module.split(".")[0] not in {"pydantic", "yaml", "click", "rich"}, one
        other = target(one)
        assert other is None or other.startswith(("harness.host.", "harness.native.")), one


def test_a_host_loads_no_library_that_it_does_not_need() -> None:
    script = "import sys, harness.host.work; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=TOP
    ).stdout.split()

    assert "harness.host.work" in loaded
    heavy = {"click", "onnx", "pydantic", "psutil", "rich", "yaml", "harness.config"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize("module", SOURCE, ids=ids)
def test_no_private_name_of_another_module_is_imported(module: Module) -> None:
    package = module.name.rpartition(".")[0]
    for one in module.imports():
        if one.module == "__future__":
            continue
        private = [
            part
            for part in (*one.module.split("."), one.name or "")
            if part.startswith("_") and not part.startswith("__")
        ]
        # A private module is its own package's to use.
        mine = one.module.startswith(f"{package}._") and not (one.name or "").startswith("_")
        assert not private or mine or module.generated, one


@pytest.mark.parametrize("module", [m for m in SOURCE if not m.generated], ids=lambda m: m.name)
def test_every_module_has_a_docstring_and_says_its_public_names(module: Module) -> None:
    assert ast.get_docstring(module.tree)
    if module.path.name == "__main__.py":
        return
    lists = [
        ast.literal_eval(value)
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and (value := node.value) is not None
        and "__all__" in ast.unparse(node).split("=")[0]
    ]
    assert len(lists) == 1, "it has no __all__"
    assert all(isinstance(name, str) for name in lists[0])


def test_the_picture_of_the_house_names_every_module_and_nothing_else() -> None:
    written = {path for path in house() if path.endswith((".py", ".h"))}
    there = {
        path.relative_to(TOP).as_posix()
        for package in ("harness", "scenarios")
        for path in (TOP / package).rglob("*")
        if path.suffix in {".py", ".h"}
        and path.name != "__init__.py"
        # Its own README draws it.
        and "reference_ep" not in path.parts
    }

    assert written == there
    assert all((TOP / path).is_dir() for path in house() if path.endswith("/"))


def test_every_declared_library_is_used_and_has_its_reason() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {_distribution(text) for text in project["dependencies"]}
    imported = {
        DISTRIBUTIONS.get(root, root)
        for module in SOURCE
        for one in module.imports()
        if (root := one.module.split(".")[0]) not in sys.stdlib_module_names
        and root not in {"harness", "scenarios"}
    }
    # pydantic brings a core of its own; the plugin for pytest is an extra.
    assert imported - {"pydantic_core", "pytest"} == declared

    (section,) = re.findall(r"## Libraries\n(.*?)\n## ", PAGE, re.DOTALL)
    first_cells = re.findall(r"^\| ([\w, -]+) \|", section, re.MULTILINE)
    named = {name.strip() for cell in first_cells for name in cell.split(",")}
    assert declared <= named
    extras = {
        _distribution(text) for each in project["optional-dependencies"].values() for text in each
    }
    assert {name for name in extras if not name.startswith("types-")} <= named


def _distribution(requirement: str) -> str:
    return re.split(r"[<>=!~\[ ;]", requirement)[0]

"""The cells of a matrix as pytest items: `pytest -p harness.pytest_plugin`.

The matrix.yaml is the test file, each core in its mode a collector, each scenario an item. An
item runs in host processes of its own. Its setup observes and its call judges, so what the
harness could not try is an error, and what is not as expected a failure.

Where several pytest processes share the items (pytest-xdist), only the first one writes to the
run folder: what was seen reaches it with the reports of the items.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# The harness is imported when a matrix is to be collected: until then this module costs nothing.
if TYPE_CHECKING:
    from harness.errors import HarnessError
    from harness.plan import Cell, CorePlan
    from harness.results import CellResult, Observation
    from harness.store import RunRecord
    from harness.workflow import Planned

__all__ = ["CellItem", "CoreCells", "MatrixFile"]

_FOLDER, _OBSERVATIONS = "ort_ep_matrix_folder", "ort_ep_matrix_observations"
_LOG_LINES = 20
_LABEL = 10


@dataclass(frozen=True)
class _Run:
    """What the items of a session stand on."""

    matrix: Path
    planned: Planned
    record: RunRecord
    folder: Path


_RUN = pytest.StashKey[_Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all under `--ep-`."""
    group = parser.getgroup("ort-ep-matrix", "plugin EPs on ONNX Runtime cores")
    group.addoption(
        "--ep-plugin",
        metavar="NAME|PATH|REQUIREMENT",
        help="An entry of matrix.yaml, a plugin library, or a requirement such as name==1.0.",
    )
    group.addoption(
        "--ep-core",
        action="append",
        metavar="SPECIFIER",
        help='A version, a specifier such as ">=1.30", "installed", or a path. Repeatable; the '
        "installed core if left out.",
    )
    group.addoption(
        "--ep-matrix",
        metavar="FILE",
        help="The matrix.yaml; that of the current folder, or else the shipped one, if left out.",
    )
    group.addoption(
        "--ep-iterations", type=_count, metavar="N", help="Iterations of each scenario."
    )
    group.addoption(
        "--ep-env",
        action="append",
        type=_assignment,
        metavar="NAME=VALUE",
        help="Set an environment variable in every host process. Repeatable.",
    )
    group.addoption(
        "--ep-output",
        metavar="DIR",
        help="The run folder. If left out, a temporary one, which is kept if a cell was not as "
        "expected.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Without any argument that says what to collect, it is the matrix."""
    from harness.containment import await_children

    await_children()
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(_matrix(config))]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Resolve the plugin and the cores, if the matrix is to be collected.

    Raises:
        pytest.UsageError: the input is wrong, or something cannot be had.
    """
    config = session.config
    matrix = _matrix(config)
    if not any(_file_of(argument, config) == matrix for argument in config.args):
        return
    from harness.errors import HarnessError

    try:
        config.stash[_RUN] = run = _prepare(config, matrix)
    except HarnessError as error:
        raise pytest.UsageError(_in_options_of_ours(error)) from None
    if _is_worker(config):
        return
    config.pluginmanager.register(_Recorder(run, temporary=not config.option.ep_output))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which plugin and cores are driven, and in which mode."""
    run = config.stash.get(_RUN, None)
    if run is None:
        return []
    plugin, cores = run.planned.plugin, {core.id: core for core in run.planned.cores}
    return [
        f"plugin EP: {plugin.name} {plugin.version or '(version unknown)'}, {plugin.library}",
        *(
            f"core: {plan.core} ({cores[plan.core].source}), {plan.mode}: {plan.decision.why}"
            for plan in run.planned.plans
        ),
    ]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> MatrixFile | None:
    """The matrix, where it was named; a matrix.yaml that only lies in a folder is no test."""
    run = parent.config.stash.get(_RUN, None)
    if run is None or file_path.resolve() != run.matrix:
        return None
    outside = not file_path.is_relative_to(parent.config.rootpath)
    # pytest has no name for such a file; its path can be given back to pytest.
    nodeid = file_path.as_posix() if outside else None
    node: MatrixFile = MatrixFile.from_parent(parent, path=file_path, nodeid=nodeid)
    return node


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the run folder."""
    run = node.config.stash.get(_RUN, None)
    if run is not None:
        node.workerinput[_FOLDER] = str(run.folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Send what was seen of a cell along with the report of its setup."""
    report = yield
    if isinstance(item, CellItem) and call.when == "setup":
        vars(report)[_OBSERVATIONS] = [one.model_dump_json() for one in item.observations]
    return report


class MatrixFile(pytest.File):
    """A matrix.yaml."""

    def collect(self) -> Iterable[CoreCells]:
        """The selected cores."""
        for plan in self.config.stash[_RUN].planned.plans:
            yield CoreCells.from_parent(self, name=_name(plan), plan=plan)


class CoreCells(pytest.Collector):
    """A core, and the mode in which it drives the plugin."""

    def __init__(self, *, plan: CorePlan, **rest: Any) -> None:
        super().__init__(**rest)
        self._plan = plan

    def collect(self) -> Iterable[CellItem]:
        """A cell for every scenario."""
        for cell in self._plan.cells:
            name = cell.scenario
            # Given as a text, brackets mean the same to pytest as in the ids of last failures.
            nodeid = f"{self.nodeid}::{name}"
            yield CellItem.from_parent(self, name=name, nodeid=nodeid, cell=cell)


class CellItem(pytest.Item):
    """A cell: its setup observes, its call judges."""

    def __init__(self, *, cell: Cell, **rest: Any) -> None:
        super().__init__(**rest)
        self.observations: Sequence[Observation] = ()
        self._cell = cell
        self._result: CellResult | None = None

    def setup(self) -> None:
        """Execute the cell; an error if the harness could not."""
        from harness.outcome import INFRASTRUCTURE
        from harness.workflow import execute_cell

        run = self.config.stash[_RUN]
        result, self.observations = execute_cell(run.planned, run.record, self._cell, run.folder)
        self._result = result
        self.user_properties += _properties(result)
        if result.verdict != "expected" and result.outcome in INFRASTRUCTURE:
            pytest.fail(_explained(result, run.folder), pytrace=False)

    def runtest(self) -> None:
        """Fail unless the cell is as expected; what is expected and no pass is an xfail."""
        result = self._result
        assert result is not None  # noqa: S101 - setup comes first
        if result.verdict == "expected":
            if result.outcome == "passed":
                return
            self.add_marker(pytest.mark.xfail(reason=_why_not_passed(result)))
        pytest.fail(_explained(result, self.config.stash[_RUN].folder), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The file and the cell, for headings."""
        return self.path, None, self._cell.id


class _Recorder:
    """Writes the run folder of a session, in the one process that reports come together in."""

    def __init__(self, run: _Run, *, temporary: bool) -> None:
        self._run = run
        self._temporary = temporary
        self._written: RunRecord | None = None
        self._record: Callable[[Observation], None] | None = None
        self._failed = False
        self._held = contextlib.ExitStack()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record what is going to be run; the items are known here unless workers have them."""
        if not session.config.option.collectonly:
            self._begin(item.nodeid for item in session.items if isinstance(item, CellItem))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """The same where workers collect: each of them tells the same items."""
        self._begin(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record what was seen of a cell."""
        from harness.results import Observation

        self._failed = self._failed or report.failed
        if self._record is None:
            return
        for line in vars(report).get(_OBSERVATIONS, ()):
            with _giving_up():
                self._record(Observation.model_validate_json(line))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Judge the run as a whole and write its reports, or remove what nobody asked for."""
        from harness.store import write_record
        from harness.workflow import judge_run

        run = self._run
        # What the hosts had for themselves; each item has emptied its own part of it.
        with contextlib.suppress(OSError):
            (run.folder / "hosts").rmdir()
        if not self._kept or self._written is None:
            self._held.close()
            if self._temporary:
                shutil.rmtree(run.folder, ignore_errors=True)
            return
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        finished = self._written.run.model_copy(update={"finished": now})
        with _giving_up(), self._held:
            write_record(run.folder, self._written.model_copy(update={"run": finished}))
            judge_run(run.folder, run.planned.ground.loaded)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the run folder is, if it is still there."""
        if self._kept:
            terminalreporter.line(f"\nrun folder: {self._run.folder}")

    @property
    def _kept(self) -> bool:
        return self._record is not None and (self._failed or not self._temporary)

    def _begin(self, nodeids: Iterable[str]) -> None:
        from harness.store import hold, recorder, write_record

        chosen = {nodeid.partition("::")[2] for nodeid in nodeids}
        cells = [
            cell
            for plan in self._run.planned.plans
            for cell in plan.cells
            if _address(plan, cell) in chosen
        ]
        if not cells or self._record is not None:
            return
        self._written = self._run.record.model_copy(update={"cells": cells})
        with _giving_up():
            self._held.enter_context(hold(self._run.folder))
            write_record(self._run.folder, self._written)
            self._record = recorder(self._run.folder)


@contextlib.contextmanager
def _giving_up() -> Iterator[None]:
    """End the session with a message where the run folder cannot be written any more."""
    from harness.errors import HarnessError

    try:
        yield
    except HarnessError as error:
        pytest.exit(_in_options_of_ours(error), returncode=error.exit_code)


def _prepare(config: pytest.Config, matrix: Path) -> _Run:
    from harness.workflow import Selection, plan_run, record_of

    option = config.option
    planned = plan_run(
        Selection(
            matrix=matrix,
            plugin=option.ep_plugin,
            cores=tuple(option.ep_core or ["installed"]),
            iterations=option.ep_iterations,
            environment=dict(option.ep_env or ()),
        )
    )
    folder = _folder(config, planned.plugin.name)
    record = record_of(planned, folder, int(getattr(option, "numprocesses", None) or 1))
    run = record.run.model_copy(update={"command": ["pytest", *config.invocation_params.args]})
    repeat = {
        cell.id: _repeat(config, matrix, _address(plan, cell))
        for plan in planned.plans
        for cell in plan.cells
    }
    record = record.model_copy(update={"run": run, "repeat": repeat})
    return _Run(matrix, planned, record, folder)


def _folder(config: pytest.Config, plugin: str) -> Path:
    """The run folder: the one of the process that started this one, a new one, or a temporary."""
    from harness.store import create_folder

    if _is_worker(config):
        return Path(config.workerinput[_FOLDER])  # type: ignore[attr-defined]  # set by xdist
    if config.option.ep_output and not config.option.collectonly:
        output = _in_folder_of_call(config.option.ep_output, config)
        return create_folder(output, plugin, option="--ep-output")
    return Path(tempfile.mkdtemp(prefix="ort-ep-matrix-"))


def _is_worker(config: pytest.Config) -> bool:
    return _FOLDER in getattr(config, "workerinput", {})


def _matrix(config: pytest.Config) -> Path:
    from harness.matrix_file import find_matrix

    given = config.option.ep_matrix
    here = config.invocation_params.dir
    return (_in_folder_of_call(given, config) if given else find_matrix(here)).resolve()


def _file_of(argument: str, config: pytest.Config) -> Path:
    """The file that an argument such as `matrix.yaml::1.24.4-serialized` names."""
    return _in_folder_of_call(argument.partition("::")[0], config).resolve()


def _in_folder_of_call(path: str, config: pytest.Config) -> Path:
    return config.invocation_params.dir / Path(path).expanduser()


def _name(plan: CorePlan) -> str:
    return f"{plan.core}-{plan.mode}"


def _address(plan: CorePlan, cell: Cell) -> str:
    """A cell within its matrix, as in node ids."""
    return f"{_name(plan)}::{cell.scenario}"


def _repeat(config: pytest.Config, matrix: Path, address: str) -> str:
    """The command that repeats one cell: through tox where tox started this."""
    option = config.option
    tox = os.environ.get("TOX_ENV_NAME")
    command = ["tox", "-e", tox, "--"] if tox else ["pytest", "-p", "harness.pytest_plugin"]
    for name in ("plugin", "matrix", "iterations"):
        value = getattr(option, f"ep_{name}")
        if value is not None:
            command += [f"--ep-{name}", str(value)]
    for core in option.ep_core or ():
        command += ["--ep-core", core]
    for name, value in option.ep_env or ():
        command += ["--ep-env", f"{name}={value}"]
    here = config.invocation_params.dir.resolve()
    file = matrix.relative_to(here) if matrix.is_relative_to(here) else matrix
    join = subprocess.list2cmdline if sys.platform == "win32" else shlex.join
    return join([*command, f"{file.as_posix()}::{address}"])


def _in_options_of_ours(told: HarnessError | str) -> str:
    """A message with the options of the command called what they are called here."""
    names = "plugin|matrix|core|env|output|iterations"
    return re.sub(rf"(?<![\w-])--({names})\b", r"--ep-\1", str(told))


def _properties(result: CellResult) -> list[tuple[str, object]]:
    """What reports such as pytest's own JUnit file say of a cell."""
    from harness.report.grouping import shown_outcome, shown_reason
    from harness.report.text import one_line

    properties: list[tuple[str, object]] = [
        ("outcome", shown_outcome(result)),
        ("reason", one_line(shown_reason(result))),
        ("verdict", result.verdict),
    ]
    if result.capture is not None:
        properties += [
            (f"capture_{name}", count) for name, count in result.capture.model_dump().items()
        ]
    return properties


def _why_not_passed(result: CellResult) -> str:
    from harness.report.text import one_line

    return one_line(f"{result.outcome} ({result.reason}), expected {result.expected}")


def _explained(result: CellResult, folder: Path) -> str:
    """What happened, where, what to do, the log and the command that repeats it."""
    from harness.report.grouping import (
        Cause,
        death_of,
        shown_log,
        shown_outcome,
        shown_reason,
    )
    from harness.report.text import last_lines, one_line, visible
    from harness.report.wording import attempts_text, example_text, headline

    cause = Cause(result.verdict, shown_outcome(result), shown_reason(result), (result,))
    facts = [
        ("where", one_line(example_text(result))),
        ("expected", one_line(result.expected)),
        ("attempts", one_line(attempts_text(result)) if len(result.attempts) > 1 else ""),
        ("do", one_line(_in_options_of_ours(result.hint))),
    ]
    log, death = shown_log(result), death_of(result)
    if log is not None:
        facts.append(("log", visible(str(folder / log))))
    facts.append(("repeat", visible(result.repeat)))
    if death is not None:
        tail = last_lines(death.log_tail, _LOG_LINES)
        facts += [("" if number else "log end", f"| {line}") for number, line in enumerate(tail)]
    told = [f"{label:<{_LABEL}}{text}" for label, text in facts if text]
    return "\n".join([f"{one_line(headline(cause))}: {one_line(result.detail)}", *told])


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f'"{text}" is not a count such as 20')
    return int(text)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\0" in text:
        raise argparse.ArgumentTypeError(f'"{text}" is not of the form NAME=VALUE')
    return name, value

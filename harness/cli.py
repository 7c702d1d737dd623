"""Arguments and exit codes. What the commands do stands in `harness.workflow`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.core import ParameterSource

from harness import __version__
from harness.containment import await_children
from harness.errors import HarnessError, InputError

__all__ = ["main"]

INTERRUPTED = 3


def main() -> None:
    """Run a command and end the process with its exit code."""
    try:
        _prepare()
        code = command_line.main(prog_name="ort-ep-matrix", standalone_mode=False)
    except HarnessError as error:
        _complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(InputError.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(InputError.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _complain("Interrupted.", "")
        sys.exit(INTERRUPTED)
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has gone, of which click and rich make a SystemExit with the
        # code of something unexpected; nothing more can be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(HarnessError.exit_code)
    except OSError as error:
        _complain(f"{error.filename or 'The system'}: {error.strerror or error}.", "")
        sys.exit(HarnessError.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _prepare() -> None:
    """What holds for every command: how it is interrupted, and that its words are text.

    Raises:
        InputError: an argument is not text.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    await_children()
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), interrupt)
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"The argument {argument!a} is not UTF-8 text.",
                "Reports and their formats could not name it; rename the file or folder.",
            ) from None


def _complain(message: str, hint: str) -> None:
    click.echo(f"Error: {message}", err=True)
    if hint:
        click.echo(hint, err=True)


def _environment(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> Mapping[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or "\0" in text:
            raise click.BadParameter(f'"{text}" is not of the form NAME=VALUE', context, parameter)
        pairs[name] = value
    return pairs


def _not_empty(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> Path | None:
    # Of an empty text, Path makes the current folder.
    if path is not None and str(path) == "." and "." not in sys.argv:
        raise click.BadParameter("it is empty", context, parameter)
    return path


def _in_a_folder(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> Path | None:
    """A file that is to be made at the end is refused at the start if its folder is missing."""
    path = _not_empty(context, parameter, path)
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.absolute().parent}", context, parameter)
    return path


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_MATRIX = click.option(
    "--matrix",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The matrix.yaml; that of the current folder, or else the shipped one, if left out.",
)
_ENV = click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_environment,
    help="Set an environment variable in every host process.",
)
_PLUGIN = click.option(
    "--plugin",
    metavar="NAME|PATH|REQUIREMENT",
    help="An entry of matrix.yaml, a plugin library, or a requirement such as name==1.0.",
)
_CORES = click.option(
    "--core",
    "cores",
    multiple=True,
    metavar="SPECIFIER",
    help='A version, a specifier such as ">=1.30", `installed`, or a path. Repeatable.',
)
_SCENARIOS = click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="GLOB",
    help="A scenario, a family, or a glob over names. Repeatable.",
)
_ITERATIONS = click.option(
    "--iterations", type=click.IntRange(1, 1_000_000), help="Iterations of each scenario."
)
_SHUFFLE = click.option(
    "--shuffle",
    type=int,
    metavar="SEED",
    help="Run scenarios and iterations in a random order, the same for the same seed.",
)


def _repeat(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--repeat",
        type=click.IntRange(1, 10_000),
        default=default,
        show_default=True,
        help="How often each scenario is run as a whole.",
    )


_SELECTION = _options(
    _MATRIX,
    _PLUGIN,
    _CORES,
    _SCENARIOS,
    _ITERATIONS,
    click.option(
        "--mode",
        type=click.Choice(["serialized", "concurrent", "policy"]),
        default="policy",
        show_default=True,
        help="How the device is driven; the version policy decides it by default, and a core that "
        "it calls concurrent is driven in both modes if the plugin can be forced.",
    ),
    _repeat(1),
    _SHUFFLE,
    _ENV,
)
_EXECUTION = _options(
    click.option(
        "--jobs",
        type=click.IntRange(1, 256),
        help="Cores driven side by side; half as many again as processors if left out.",
    ),
    click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_not_empty,
        help="The run folder; reports/<time>-<plugin> if left out.",
    ),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ort-ep-matrix")
def command_line() -> None:
    """Try one plugin EP on every official ONNX Runtime core, and judge what happens.

    Exit codes: 0 all as expected, 1 something unexpected, 2 the user's input, 3 infrastructure
    or an incomplete run.
    """


@command_line.command()
@_SELECTION
@_EXECUTION
@click.option(
    "--resume",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Complete the killed or interrupted run of a run folder. Cells that are finished there "
    "are not repeated. Of the other options only --jobs can be given.",
)
@click.pass_context
def run(
    context: click.Context,
    /,
    jobs: int | None,
    output: Path | None,
    resume: Path | None,
    **selection: Any,
) -> int:
    """Run the matrix and judge every cell."""
    from harness import interface, workflow

    if resume is not None:
        _check_given_alone(context, "resume", besides="jobs")
        return _go_on(resume.resolve(), jobs)
    planned, folder = _execute(selection, jobs, output)
    judged = workflow.judge_run(folder, planned.ground.loaded)
    return interface.show(judged, interface.console(), folder)


def _go_on(folder: Path, jobs: int | None) -> int:
    """Complete the run in a folder and show it as what it was begun as."""
    from harness import interface, workflow

    console = interface.console()
    stop = threading.Event()
    with interface.stop_on_signal(stop):
        resumed = workflow.resume_run(
            folder,
            jobs=jobs or interface.side_by_side(),
            watch=lambda counts: interface.watch_rest(console, counts),
            stop=stop,
        )
    if not resumed.left:
        console.print("Nothing of the run was left to do.")
    return interface.show(workflow.judge_run(folder, resumed.loaded), console, folder)


def _execute(
    selection: Mapping[str, Any], jobs: int | None, output: Path | None, *, once_alone: bool = False
) -> tuple[Any, Path]:
    """Plan a selection and execute it; the plan and the run folder."""
    from harness import interface, workflow

    console = interface.console()
    with interface.downloads(console) as progress:
        planned = workflow.plan_run(_selection(selection), progress=progress)
    stop = threading.Event()
    with interface.stop_on_signal(stop):
        folder = workflow.execute_run(
            planned,
            output=output,
            jobs=jobs or interface.side_by_side(),
            watch=lambda counts: interface.watch(console, counts),
            stop=stop,
            once_alone=once_alone,
        )
    return planned, folder


@command_line.command(short_help="Hold the policy against what really happens.")
@_options(_MATRIX, _PLUGIN, _CORES, _SCENARIOS, _ITERATIONS, _repeat(5), _SHUFFLE, _ENV)
@_EXECUTION
def audit(jobs: int | None, output: Path | None, **selection: Any) -> int:
    """Drive every core concurrently, whatever the policy says, and lay what happens beside it.

    The concurrency scenarios run unless others are named, each cell in a process of its own, and
    once more serialized: what breaks in both modes says nothing of the policy.
    Nothing is changed: lines that would make the policy true are printed. Exit code 1 if a core
    that the policy calls concurrent was not clean.
    """
    from harness import interface, workflow

    asked = {**selection, "scenarios": selection["scenarios"] or ("concurrency",)}
    planned, folder = _execute({**asked, "mode": "both"}, jobs, output, once_alone=True)
    judged = workflow.judge_run(folder, planned.ground.loaded)
    return interface.show(judged, interface.console(), folder)


@command_line.command(short_help="Print the cells of a selection.")
@_SELECTION
@click.option(
    "--format", "form", type=click.Choice(["json", "github"]), default="json", show_default=True
)
def plan(form: str, **selection: Any) -> None:
    """Print the cells of a selection; no core is fetched and nothing is run."""
    from harness import workflow
    from harness.plan import github_matrix, plan_json

    plans = workflow.plan_cells(_selection(selection))
    click.echo(github_matrix(plans) if form == "github" else plan_json(plans))


@command_line.command(short_help="Write matrix.lock.json.")
@_MATRIX
def lock(matrix: Path | None) -> None:
    """Write matrix.lock.json: the versions, files and hashes that runs may use from now on."""
    from harness import interface, workflow

    with interface.downloads(interface.console()) as progress:
        path, written = workflow.lock_cores(matrix, progress)
    click.echo(f"{path}: {interface.describe_lock(written)}")


@command_line.command(short_help="Fetch cores and plugin anew; repair the cache.")
@_SELECTION
def fetch(**selection: Any) -> int:
    """Fetch the cores and the plugin of a selection anew, and repair what the cache holds."""
    from harness import interface, workflow

    console = interface.console()
    with interface.downloads(console) as progress:
        planned = workflow.plan_run(_selection(selection), refresh=True, progress=progress)
    return interface.show_fetched(planned.plugin, planned.cores, console)


@command_line.command(short_help="List the scenarios.")
@_MATRIX
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print a page of documentation.")
def scenarios(matrix: Path | None, as_json: bool, markdown: bool) -> None:
    """List the scenarios, each with the defect that it exists for."""
    from harness import workflow
    from harness.report.scenario_page import scenario_page

    found = workflow.prepare(matrix).scenarios.values()
    if markdown:
        click.echo(scenario_page(found), nl=False)
        return
    if as_json:
        click.echo(json.dumps([{"name": one.name, "why": one.why} for one in found], indent=2))
        return
    width = max(len(one.name) for one in found)
    for one in found:
        click.echo(f"{one.name:<{width}}  {one.why}")


@command_line.command(short_help="Say how a core may be driven.")
@_MATRIX
@click.option(
    "--plugin", metavar="NAME", help="An entry of matrix.yaml; its default plugin if left out."
)
@click.option(
    "--plugin-version",
    metavar="VERSION",
    help="That of the entry, where it pins or names one, if left out.",
)
@click.option("--core", required=True, metavar="VERSION", help="1.30 is 1.30.0.")
@_ENV
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def policy(
    matrix: Path | None,
    plugin: str | None,
    plugin_version: str | None,
    core: str,
    environment: Mapping[str, str],
    as_json: bool,
) -> None:
    """Say how a core may be driven with a plugin, and which rule decides it."""
    from harness import interface, workflow

    decision = workflow.ask_policy(matrix, plugin, plugin_version, core, environment)
    click.echo(interface.describe_decision(decision, as_json=as_json))


@command_line.command(short_help="Judge a run folder again.")
@click.option(
    "--matrix",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The matrix.yaml with the expectations; that of the run, as it is now, if left out.",
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def judge(matrix: Path | None, folder: Path) -> int:
    """Judge a run folder by the expectations as they are now; its reports are rewritten."""
    from harness import interface, workflow

    folder = folder.resolve()
    matrix = matrix or workflow.matrix_of_run(folder)
    judged = workflow.judge_run(folder, workflow.prepare(matrix).loaded)
    return interface.show(judged, interface.console(), folder)


@command_line.command(short_help="Plant faults in a plugin of our own, and see them found.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="GLOB",
    help="A fault, a family of faults, or a glob over names. Repeatable.",
)
@click.option(
    "--core",
    "cores",
    multiple=True,
    metavar="SPECIFIER",
    help='A version, or a specifier such as ">=1.30". Repeatable.',
)
@click.option(
    "--every-core",
    is_flag=True,
    help="Plant each fault on every core where it can occur, not on three.",
)
@click.option(
    "--rounds",
    type=click.IntRange(0, 1_000),
    help="Rounds of all cells without a fault; as many as --cells needs if left out.",
)
@click.option(
    "--cells",
    type=click.IntRange(0, 1_000_000),
    help="At least so many cells without a fault; 1000 if left out, none with --fault.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    help="Hosts at work side by side; half as many again as processors if left out.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    callback=_not_empty,
    help="Keeps every run; reports/<time>-selftest if left out.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_in_a_folder,
    help="Write the table of the faults to a file, too, unless it is interrupted.",
)
@click.option("--list", "listed", is_flag=True, help="List the faults, and do no more.")
@click.option("--matrix", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
@click.option(
    "--library", type=click.Path(exists=True, dir_okay=False, path_type=Path), hidden=True
)
def selftest(jobs: int | None, markdown: Path | None, listed: bool, **wanted: Any) -> int:
    """Plant every fault of the reference plugin, and see that the scenarios find it.

    Then runs the plugin without a fault, to see that nothing is alarmed about.
    """
    from harness import interface
    from harness.report.atomic import write_atomic
    from harness.selftest import faults, live, report, work

    if listed:
        click.echo(report.faults_text(faults.read_faults()))
        return 0
    console = interface.console()
    with interface.downloads(console) as progress:
        prepared = work.prepare_proof(work.Wanted(**wanted), progress=progress)
    stop = threading.Event()
    with interface.stop_on_signal(stop):
        proof = work.prove(
            prepared,
            jobs=jobs or interface.side_by_side(),
            watch=lambda groups: live.live_steps(console, groups),
            stop=stop,
        )
    report.show_proof(proof, console)
    if markdown is not None and not stop.is_set():
        write_atomic(markdown, report.render_page(proof).encode())
    return proof.exit_code


def _check_given_alone(context: click.Context, name: str, *, besides: str) -> None:
    """An option that says everything takes no others.

    Raises:
        click.UsageError: one was given besides.
    """
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT
        if given and parameter.name not in (name, besides):
            raise click.UsageError(
                f"{parameter.opts[0]} cannot be given with --{name}: everything but --{besides} "
                "is taken from the run folder.",
                context,
            )


def _selection(options: Mapping[str, Any]) -> Any:
    from harness.workflow import Selection

    return Selection(**options)

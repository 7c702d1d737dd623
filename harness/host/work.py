"""The work of a host, phase by phase: load, register, scenarios, unregister, end."""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import importlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from harness.host.bare import BareHost
from harness.host.blackbox import BlackBox
from harness.host.channel import Channel, log_to
from harness.host.host import Host, Options, Promises
from harness.host.lanes import Lanes
from harness.host.mapped import exporting, mapped_files
from harness.host.python import PythonHost, is_of_package
from harness.host.record import Recording, UnsupportedError, native_error, run_scenario
from harness.host.scenario import Scenario, find_scenarios, task_scenario
from harness.host.state import changes, process_state
from harness.native.api import Api, CoreLoadError, NativeCallError, load_core
from harness.native.environments import (
    EpDevice,
    create_environment,
    ep_devices,
    register_plugin,
)
from harness.native.handles import Handle, Scope
from harness.native.tensors import cpu_memory

__all__ = ["work"]

_CORE_DUMPS = "ORT_EP_MATRIX_CORE_DUMPS"
_CORE_ENTRY = "OrtGetApiBase"
_MOST_METADATA = 100
_LONGEST_METADATA = 1_000


@dataclass(frozen=True)
class _Loaded:
    """What a host has in it once the plugin was registered."""

    api: Api
    lanes: Lanes
    env: Handle
    device: EpDevice
    devices: list[EpDevice]
    cpu: Handle
    state: Mapping[str, str]
    """The state of the process then."""
    state_changes: list[str]
    """What loading the core and registering the plugin had done to it."""
    mapped: list[str]
    """The files that were mapped then."""


@dataclass(frozen=True)
class _LoadedPython:
    """What a host of the Python package has in it once the plugin was registered."""

    ort: Any
    lanes: Lanes
    device: Any
    state: Mapping[str, str]
    state_changes: list[str]
    mapped: list[str]


class _After(Enum):
    """What a host does after a scenario."""

    NEXT = "the next one"
    END = "releases everything and ends"
    EXIT = "ends with everything alive"


def work(channel: Channel) -> int:
    """Do one job; returns the status to end with, through the interpreter, with its handlers."""
    job = channel.receive_job()
    _work(job, channel)
    return int(job["farewell"])


def _work(job: dict[str, Any], channel: Channel) -> None:
    log_to(Path(job["log"]))
    _limit_core_dumps()
    # The engine stays where it is; a host must not keep the user's folder in use.
    os.chdir(os.sep)
    faulthandler.enable()
    if sys.platform != "win32":
        # The engine asks for the stacks when it has given a host up, never before.
        faulthandler.register(signal.SIGUSR1, file=2)
    box = BlackBox(Path(job["blackbox"]))
    scenarios = find_scenarios(job["scenario_packages"])
    core_scope, plugin_scope = Scope(), Scope()
    # Without its package a core is loaded all the same: its scenarios say what is lacking.
    in_python = job["kind"] == "python" and job["python_package"] is not None
    loaded = (
        _set_up_python(job, channel, box, plugin_scope)
        if in_python
        else _set_up(job, channel, box, core_scope, plugin_scope)
    )
    if loaded is None:
        box.at("teardown")
        plugin_scope.close()
        core_scope.close()
        box.at("exit")
        return
    failures: list[str] = []
    if job["kind"] == "bare":
        # It was registered to see which devices it offers; now that is the scenarios' work.
        failures += _closed(plugin_scope, loaded.state)
    after = _After.NEXT
    for task in job["tasks"]:
        after = _run_task(
            job, task, scenarios[task_scenario(task["scenario"])], loaded, channel, box
        )
        if after is not _After.NEXT:
            # The next scenario must not pay for it: the engine goes on in a fresh host.
            break
    log_to(Path(job["log"]))
    mapped = list(dict.fromkeys([*loaded.mapped, *mapped_files()]))
    box.at("teardown")
    cores = exporting(_CORE_ENTRY)
    if after is not _After.EXIT:
        # Where the last scenario ended it, what that changed has been told.
        failures += _closed(plugin_scope, loaded.state if after is _After.NEXT else process_state())
        failures += core_scope.close()
    digest = _sha256(job["plugin"])
    channel.send(
        "torn-down", failures=failures, mapped=mapped, cores=cores, plugin_sha256_after=digest
    )
    box.at("exit")


def _closed(plugin_scope: Scope, before: Mapping[str, str]) -> list[str]:
    """Unregister the plugin and release the environment; returns what went wrong with that.

    Args:
        plugin_scope: what is released.
        before: the state of the process that it is to leave as it was.
    """
    failures = plugin_scope.close()
    return failures + [
        f"unregistered, it left the process otherwise: {change}"
        for change in changes(before, process_state())
    ]


def _set_up(
    job: dict[str, Any], channel: Channel, box: BlackBox, core_scope: Scope, plugin_scope: Scope
) -> _Loaded | None:
    """Load the core and register the plugin; what fails is reported, and none returned."""
    before = _sha256(job["plugin"])
    state = process_state()
    box.at("load")
    lanes = Lanes(box, serialized=job["mode"] == "serialized")
    try:
        api = load_core(Path(job["core"]), lanes)
    except CoreLoadError as error:
        channel.send("core-unusable", message=str(error))
        return None
    box.at("register")
    try:
        env = create_environment(api, plugin_scope)
        known = {device.pointer for device in ep_devices(api, env)}
        register_plugin(api, plugin_scope, env, job["registration_name"], job["plugin"])
        appeared = [d for d in ep_devices(api, env) if d.pointer not in known]
    except NativeCallError as failure:
        channel.send(
            "setup-failed",
            core_version=api.core_version,
            plugin_sha256_before=before,
            error=native_error(failure),
        )
        return None
    device = _choose(job, appeared)
    channel.send(
        "ready",
        core_version=api.core_version,
        plugin_sha256_before=before,
        ep_devices=[_described(d) for d in appeared],
        ep_name=None if device is None else device.ep_name,
        plugin_version=None if device is None else _metadata(device.metadata).get("version"),
    )
    if device is None:
        return None
    now = process_state()
    changed = [f"at registration: {change}" for change in changes(state, now)]
    cpu = cpu_memory(api, core_scope)
    return _Loaded(api, lanes, env, device, appeared, cpu, now, changed, mapped_files())


def _set_up_python(
    job: dict[str, Any], channel: Channel, box: BlackBox, plugin_scope: Scope
) -> _LoadedPython | None:
    """Import the core's Python package and register the plugin in it; as `_set_up`."""
    before = _sha256(job["plugin"])
    state = process_state()
    box.at("load")
    lanes = Lanes(box, serialized=job["mode"] == "serialized")
    sys.path.insert(0, job["python_package"])
    try:
        ort = importlib.import_module("onnxruntime")
    except ImportError as error:
        channel.send("core-unusable", message=f"its Python package cannot be imported: {error}")
        return None
    box.at("register")
    name = job["registration_name"]
    # Kept alive: what stands for a device is the same object only as long as somebody has it.
    known = list(ort.get_ep_devices())
    lanes.enter("register_execution_provider_library")
    try:
        ort.register_execution_provider_library(name, job["plugin"])
    except Exception as error:
        if not is_of_package(error):
            raise
        failure = NativeCallError(
            "register_execution_provider_library", type(error).__name__, str(error)
        )
        channel.send(
            "setup-failed",
            core_version=ort.__version__,
            plugin_sha256_before=before,
            error=native_error(failure),
        )
        return None
    finally:
        lanes.leave()
    plugin_scope.own(Handle("plugin registration", name, ort.unregister_execution_provider_library))
    appeared = [
        device for device in ort.get_ep_devices() if not any(device is other for other in known)
    ]
    described = [_described_python(device) for device in appeared]
    device = next(iter(_fitting(job, list(zip(described, appeared, strict=True)))), None)
    channel.send(
        "ready",
        core_version=ort.__version__,
        plugin_sha256_before=before,
        ep_devices=described,
        ep_name=None if device is None else device.ep_name,
        plugin_version=None if device is None else _metadata(device.ep_metadata).get("version"),
    )
    if device is None:
        return None
    now = process_state()
    changed = [f"at registration: {change}" for change in changes(state, now)]
    return _LoadedPython(ort, lanes, device, now, changed, mapped_files())


def _choose(job: dict[str, Any], devices: Sequence[EpDevice]) -> EpDevice | None:
    """The EP device that a job drives, among those that a registration brought."""
    return next(iter(_fitting(job, [(_described(device), device) for device in devices])), None)


def _fitting(job: dict[str, Any], devices: Sequence[tuple[dict[str, Any], Any]]) -> list[Any]:
    """From the EP device that a job drives on; empty if none fits."""
    fitting = [
        device
        for described, device in devices
        if job["ep_name"] in (None, described["ep_name"])
        and job["device_type"] in (None, described["hardware_type"])
    ]
    return fitting[job["device_index"] :]


def _described(device: EpDevice) -> dict[str, Any]:
    return {
        "ep_name": device.ep_name,
        "ep_vendor": device.ep_vendor,
        "hardware_type": device.hardware_type,
        "hardware_vendor": device.hardware_vendor,
        "device_memory": device.memory is not None,
        "metadata": _metadata(device.metadata),
    }


def _described_python(device: Any) -> dict[str, Any]:
    memory = device.memory_info(sys.modules["onnxruntime"].OrtDeviceMemoryType.DEFAULT)
    return {
        "ep_name": device.ep_name,
        "ep_vendor": device.ep_vendor,
        "hardware_type": device.device.type.name.lower(),
        "hardware_vendor": device.device.vendor,
        "device_memory": memory is not None,
        "metadata": _metadata(device.ep_metadata),
    }


def _metadata(pairs: Mapping[str, str]) -> dict[str, str]:
    """What an EP device says of itself; the plugin decides how much that is, so it is cut."""
    first = itertools.islice(pairs.items(), _MOST_METADATA)
    return {key[:_LONGEST_METADATA]: value[:_LONGEST_METADATA] for key, value in first}


def _run_task(
    job: dict[str, Any],
    task: dict[str, Any],
    scenario: Scenario,
    loaded: _Loaded | _LoadedPython,
    channel: Channel,
    box: BlackBox,
) -> _After:
    """Run a scenario and report it; returns what follows."""
    log_to(Path(task["log"]))
    box.at("scenario", task["scenario"])
    channel.send("started", scenario=task["scenario"])
    scope = Scope()
    host = _given(job, task, loaded, box, scope)
    started = time.perf_counter()
    report = run_scenario(host, _function(job, scenario))
    if job["kind"] == "python":
        # What the scenario made goes now, while the black box still names it.
        gc.collect()
    box.at("release", task["scenario"])
    # One that did not come to its end has nothing to show by the end of the process.
    whole = report["error"] is None and report["unsupported"] is None
    end_alive = scenario.ends_alive and whole
    report["leaked"] = leaked = [] if end_alive else scope.close()
    report["duration_s"] = time.perf_counter() - started
    # Against what it was at first: what changes between two scenarios is seen in the next.
    changed = changes(loaded.state, process_state())
    report["state_changes"] = [*loaded.state_changes, *changed]
    channel.send("ended", report={"scenario": task["scenario"], **report})
    if end_alive:
        return _After.EXIT
    # What a bare scenario failed to give back may be the registration of the next one.
    spoilt = bool(changed) or (job["kind"] == "bare" and bool(leaked))
    return _After.END if spoilt else _After.NEXT


def _given(
    job: dict[str, Any],
    task: dict[str, Any],
    loaded: _Loaded | _LoadedPython,
    box: BlackBox,
    scope: Scope,
) -> Recording:
    """What a scenario is given, by the kind of its host."""
    options = job["options"]
    plugin: dict[str, Any] = {
        "plugin": Path(job["plugin"]),
        "registration_name": job["registration_name"],
    }
    common: dict[str, Any] = {
        "iteration_count": task["iterations"],
        "shuffle": None if job["shuffle"] is None else f"{job['shuffle']}/{task['scenario']}",
        "box": box,
        "lanes": loaded.lanes,
        "mode": job["mode"],
        "options": Options(
            always=options["always"],
            capture=options["capture"],
            cpu_nodes=None if options["cpu_nodes"] is None else tuple(options["cpu_nodes"]),
        ),
        "models": Path(job["models"]),
        "scratch": Path(job["scratch"]),
    }
    if isinstance(loaded, _LoadedPython):
        return PythonHost(ort=loaded.ort, device=loaded.device, **plugin, **common)
    common |= {
        "api": loaded.api,
        "scope": scope,
        "cpu": loaded.cpu,
        "promises": Promises(**job["promises"]),
    }
    if job["kind"] == "bare":
        return BareHost(choose=partial(_choose, job), **plugin, **common)
    ep = loaded.device.ep_name
    devices = [device for device in loaded.devices if device.ep_name == ep]
    return Host(env=loaded.env, device=loaded.device, devices=devices, **common)


def _function(job: dict[str, Any], scenario: Scenario) -> Callable[[Any], None]:
    """The function of a scenario, or, where the core has no Python package for it, its excuse."""
    if job["kind"] != "python" or job["python_package"] is not None:
        return scenario.function

    def lacking(_host: Any) -> None:
        asked = "the Python package of this core"
        raise UnsupportedError(asked, job["python_lack"], of_core=True)

    return lacking


def _sha256(path: str) -> str | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - what file_digest takes
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _limit_core_dumps() -> None:
    """A run may see hundreds of deaths, so a dump of each is for those who ask for it."""
    if sys.platform != "win32" and os.environ.get(_CORE_DUMPS) != "1":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

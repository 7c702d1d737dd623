"""The work of a host, phase by phase: load, register, scenarios, unregister, end."""

from __future__ import annotations

import faulthandler
import hashlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.host.bare import BareHost
from harness.host.blackbox import BlackBox
from harness.host.channel import Channel, log_to
from harness.host.host import Host, Options
from harness.host.lanes import Lanes
from harness.host.mapped import mapped_files
from harness.host.record import Recording, native_error, run_scenario
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


@dataclass(frozen=True)
class _Loaded:
    """What a host has in it once the plugin was registered."""

    api: Api
    lanes: Lanes
    env: Handle
    device: EpDevice
    devices: list[EpDevice]
    cpu: Handle
    state_changes: list[str]
    """What loading the core and registering the plugin did to the state of the process."""
    mapped: list[str]
    """The files that were mapped then."""


def work(channel: Channel) -> None:
    """Do one job. Ends the process through the interpreter, so that exit handlers run."""
    job = channel.receive_job()
    log_to(Path(job["log"]))
    _keep_no_core_dumps()
    faulthandler.enable()
    if sys.platform != "win32":
        # The engine asks for the stacks when it has given a host up, never before.
        faulthandler.register(signal.SIGUSR1, file=2)
    box = BlackBox(Path(job["blackbox"]))
    scenarios = find_scenarios(job["scenario_packages"])
    core_scope, plugin_scope = Scope(), Scope()
    loaded = _set_up(job, channel, box, core_scope, plugin_scope)
    if loaded is None:
        box.at("teardown")
        plugin_scope.close()
        core_scope.close()
        box.at("exit")
        return
    failures: list[str] = []
    if job["kind"] == "bare":
        # It was registered to see which devices it offers; now that is the scenarios' work.
        failures += plugin_scope.close()
    for task in job["tasks"]:
        changed = _run_task(
            job, task, scenarios[task_scenario(task["scenario"])], loaded, channel, box
        )
        if changed:
            # The next scenario must not pay for it: the engine goes on in a fresh host.
            break
    log_to(Path(job["log"]))
    mapped = list(dict.fromkeys([*loaded.mapped, *mapped_files()]))
    box.at("teardown")
    failures += plugin_scope.close()
    failures += core_scope.close()
    after = _sha256(job["plugin"])
    channel.send("torn-down", failures=failures, mapped=mapped, plugin_sha256_after=after)
    box.at("exit")


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
        plugin_version=None if device is None else device.metadata.get("version"),
    )
    if device is None:
        return None
    changed = [f"at registration: {change}" for change in changes(state, process_state())]
    cpu = cpu_memory(api, core_scope)
    return _Loaded(api, lanes, env, device, appeared, cpu, changed, mapped_files())


def _choose(job: dict[str, Any], devices: Sequence[EpDevice]) -> EpDevice | None:
    """The EP device that a job drives, among those that a registration brought."""
    index: int = job["device_index"]
    fitting = [
        device
        for device in devices
        if job["ep_name"] in (None, device.ep_name)
        and job["device_type"] in (None, device.hardware_type)
    ]
    return fitting[index] if index < len(fitting) else None


def _described(device: EpDevice) -> dict[str, Any]:
    return {
        "ep_name": device.ep_name,
        "ep_vendor": device.ep_vendor,
        "hardware_type": device.hardware_type,
        "hardware_vendor": device.hardware_vendor,
        "device_memory": device.memory is not None,
        "metadata": dict(device.metadata),
    }


def _run_task(
    job: dict[str, Any],
    task: dict[str, Any],
    scenario: Scenario,
    loaded: _Loaded,
    channel: Channel,
    box: BlackBox,
) -> bool:
    """Run a scenario and report it; returns whether the process is not as it was before."""
    log_to(Path(task["log"]))
    box.at("scenario", task["scenario"])
    channel.send("started", scenario=task["scenario"])
    scope = Scope()
    host = _given(job, task, loaded, box, scope)
    before = process_state()
    started = time.perf_counter()
    report = run_scenario(host, scenario.function)
    box.at("release", task["scenario"])
    report["leaked"] = leaked = scope.close()
    report["duration_s"] = time.perf_counter() - started
    changed = changes(before, process_state())
    report["state_changes"] = [*loaded.state_changes, *changed]
    channel.send("ended", report={"scenario": task["scenario"], **report})
    # What a bare scenario failed to give back may be the registration of the next one.
    return bool(changed) or (job["kind"] == "bare" and bool(leaked))


def _given(
    job: dict[str, Any], task: dict[str, Any], loaded: _Loaded, box: BlackBox, scope: Scope
) -> Recording:
    """What a scenario is given, by the kind of its host."""
    options = job["options"]
    common: dict[str, Any] = {
        "iteration_count": task["iterations"],
        "shuffle": None if job["shuffle"] is None else f"{job['shuffle']}/{task['scenario']}",
        "box": box,
        "lanes": loaded.lanes,
        "api": loaded.api,
        "mode": job["mode"],
        "options": Options(
            always=options["always"],
            capture=options["capture"],
            cpu_nodes=None if options["cpu_nodes"] is None else tuple(options["cpu_nodes"]),
        ),
        "models": Path(job["models"]),
        "scratch": Path(job["scratch"]),
        "scope": scope,
        "cpu": loaded.cpu,
    }
    if job["kind"] == "bare":
        return BareHost(
            plugin=Path(job["plugin"]),
            registration_name=job["registration_name"],
            choose=partial(_choose, job),
            **common,
        )
    ep = loaded.device.ep_name
    devices = [device for device in loaded.devices if device.ep_name == ep]
    return Host(env=loaded.env, device=loaded.device, devices=devices, **common)


def _sha256(path: str) -> str | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - what file_digest takes
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _keep_no_core_dumps() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # The engine stays where it is; a host must not keep the user's folder in use.
    os.chdir(os.sep)

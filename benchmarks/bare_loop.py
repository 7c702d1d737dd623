"""The bare work: scenarios on one core in one plain process, and nothing else.

    python benchmarks/bare_loop.py CORE_LIBRARY PLUGIN_LIBRARY MODELS_FOLDER SCENARIO...

No containment, no reports, no identity, no black box: what is left when everything that the
harness adds is taken away. It fails with a traceback if a check does not hold.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import cast

from harness.host.blackbox import BlackBox
from harness.host.host import Host, Options, Promises
from harness.host.lanes import Lanes
from harness.host.scenario import find_scenarios
from harness.native.api import NativeCallError, NoTrace, load_core
from harness.native.environments import create_environment, ep_devices, register_plugin
from harness.native.handles import Scope
from harness.native.tensors import cpu_memory


class _NoBox(NoTrace):
    def iteration(self, number: int | None) -> None:
        pass


def main(core: str, plugin: str, models: str, *names: str) -> None:
    """Run the scenarios twenty times each."""
    box = cast("BlackBox", _NoBox())
    api = load_core(Path(core), NoTrace())
    with Scope() as whole:
        env = create_environment(api, whole)
        before = {device.pointer for device in ep_devices(api, env)}
        register_plugin(api, whole, env, "webgpu", plugin)
        device = next(d for d in ep_devices(api, env) if d.pointer not in before)
        with tempfile.TemporaryDirectory() as scratch:
            known = find_scenarios(["scenarios"])
            for scenario in map(known.__getitem__, names):
                with Scope() as scope:
                    host = Host(
                        api=api,
                        env=env,
                        device=device,
                        devices=[device],
                        mode="serialized",
                        iteration_count=20,
                        promises=Promises(),
                        options=Options(
                            capture={"enableGraphCapture": "1"},
                            cpu_nodes=("forceCpuNodeNames", "\n"),
                        ),
                        models=Path(models),
                        scratch=Path(scratch),
                        scope=scope,
                        cpu=cpu_memory(api, scope),
                        box=box,
                        lanes=Lanes(box, serialized=True),
                    )
                    try:
                        scenario.function(host)
                    except NativeCallError as error:
                        if "ort_version_supported" not in error.message:
                            raise
                        continue
                    if host.record.iterations_passed != host.iteration_count:
                        raise SystemExit(f"{scenario.name}: {host.record}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs Python in a process that has a core in it, since a core is never loaded into the tests'."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.artifacts.cores import Core
from tests.conftest import TOP

__all__ = ["inside"]

_PRELUDE = """
import json, sys
from pathlib import Path
import numpy as np
from harness.native.api import *
from harness.native.environments import *
from harness.native.handles import *
from harness.native.sessions import *
from harness.native.tensors import *
core, plugin, scratch = (Path(argument) for argument in sys.argv[1:4])
scope = Scope()
def answer(**fields):
    print(json.dumps(fields))
"""
_END = """
failures = scope.close()
assert failures == [], failures
"""


def inside(
    core: Core,
    script: str,
    *,
    environment: Mapping[str, str] | None = None,
    plugin: Path = Path(),
    scratch: Path = Path(),
) -> dict[str, Any]:
    """What a script answers in a process of its own, which must then end well."""
    assert core.library is not None
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + script + _END, core.library, plugin, scratch],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=dict(environment if environment is not None else os.environ),
        cwd=TOP,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

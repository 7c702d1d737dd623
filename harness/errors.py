"""One exception for each kind of failure, each with the exit code that the command ends with.

Exit codes: 0 all as expected, 1 something unexpected, 2 the user's input,
3 infrastructure or an incomplete run.
"""

from __future__ import annotations

__all__ = [
    "ArtifactError",
    "ConfigError",
    "HarnessError",
    "InputError",
    "PluginError",
    "PolicyError",
    "RunFolderError",
    "SelectionError",
]


class HarnessError(Exception):
    """What happened, and what to do about it; shown to the user without a traceback.

    Args:
        message: what happened and where, in one or two sentences.
        hint: what the user can do; empty when there is nothing to add.
    """

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InputError(HarnessError):
    """Something that the user typed or wrote is wrong."""

    exit_code = 2


class ConfigError(InputError):
    """`matrix.yaml` or its lock is not what it should be."""


class SelectionError(InputError):
    """The selection names something that does not exist, or leaves no cell."""


class PluginError(InputError):
    """The plugin that was asked for is not a plugin library, or cannot be had."""


class PolicyError(InputError):
    """The environment asks the version policy for something that it does not know."""


class ArtifactError(HarnessError):
    """A core could not be had: network, index, archive, hash or cache."""


class RunFolderError(HarnessError):
    """A run folder cannot be written or read."""

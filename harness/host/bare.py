"""What a bare scenario is given: a core with nothing registered, and the plugin to register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.host.host import Host, Options, Promises
from harness.host.mapped import mapped_files
from harness.host.record import Recording
from harness.native.api import Api
from harness.native.environments import (
    EpDevice,
    create_environment,
    ep_devices,
    register_plugin,
    unregister_plugin,
)
from harness.native.handles import Handle, Scope

__all__ = ["BareHost", "EpDevice", "Registration", "Scope"]


@dataclass(frozen=True)
class Registration:
    """A plugin library registered in an environment."""

    api: Api
    env: Handle
    handle: Handle
    """Its release unregisters the library."""
    devices: Sequence[EpDevice]
    """The EP devices that appeared; valid until it is unregistered."""
    device: EpDevice | None
    """The one among them that the plugin's entry chooses."""

    def unregister(self) -> None:
        """Unregister the library; once more does nothing, unless it was refused.

        Raises:
            NativeCallError: ORT or the plugin refused.
        """
        if not self.handle.released:
            unregister_plugin(self.api, self.env, self.handle)

    def abandon(self) -> None:
        """Leave it to the environment, whose end takes it along."""
        self.handle.abandon()


@dataclass(frozen=True, kw_only=True)
class BareHost(Recording):
    """One core and no plugin yet, for one scenario about registration and what follows from it.

    Everything created through it is released when the scenario ends, last created first.
    """

    api: Api
    mode: Literal["serialized", "concurrent"]
    options: Options
    promises: Promises
    models: Path
    scratch: Path
    scope: Scope
    cpu: Handle
    plugin: Path
    """The plugin library."""
    registration_name: str
    choose: Callable[[Sequence[EpDevice]], EpDevice | None]
    """Which of the EP devices that appear is driven."""

    def environment(self) -> Handle:
        """A new reference to the environment of the process, which is created with the first.

        Raises:
            NativeCallError: ORT refused.
        """
        return create_environment(self.api, self.scope)

    def devices(self, env: Handle) -> list[EpDevice]:
        """All EP devices of an environment, those of ORT's own EPs included."""
        return ep_devices(self.api, env)

    def register(
        self, env: Handle, name: str | None = None, library: Path | None = None
    ) -> Registration:
        """Register a library.

        Args:
            env: the environment.
            name: the name of the registration; that of the run if none.
            library: a file; the plugin itself if none.

        Raises:
            NativeCallError: ORT or the plugin refused.
        """
        known = {device.pointer for device in self.devices(env)}
        handle = register_plugin(
            self.api,
            self.scope,
            env,
            name or self.registration_name,
            str(library or self.plugin),
        )
        devices = [d for d in self.devices(env) if d.pointer not in known]
        return Registration(self.api, env, handle, devices, self.choose(devices))

    def on(self, registration: Registration, scope: Scope | None = None) -> Host:
        """The host that drives the device of a registration, and records for this scenario.

        Args:
            registration: offers a device, which `truth` must have made sure of.
            scope: owns what is created through it; the scenario's own if none.
        """
        device = registration.device
        if device is None:
            raise ValueError("the registration offers no EP device to drive")
        return Host(
            iteration_count=self.iteration_count,
            shuffle=self.shuffle,
            box=self.box,
            lanes=self.lanes,
            record=self.record,
            api=self.api,
            env=registration.env,
            device=device,
            devices=[d for d in registration.devices if d.ep_name == device.ep_name],
            mode=self.mode,
            options=self.options,
            promises=self.promises,
            models=self.models,
            scratch=self.scratch,
            scope=scope or self.scope,
            cpu=self.cpu,
        )

    def mapped(self, library: Path | None = None) -> bool:
        """Whether a library is mapped into the process; the plugin itself if none is named."""
        asked = (library or self.plugin).resolve()
        return any(Path(path) == asked for path in mapped_files())

    def threads(self) -> frozenset[int]:
        """The ids of the threads that the process has now."""
        # Not for all hosts: few scenarios ask.
        import psutil

        return frozenset(thread.id for thread in psutil.Process().threads())

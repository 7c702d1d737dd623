"""From registration to the end: what a plugin leaves behind, and what it takes along."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from harness.host.bare import BareHost, EpDevice, Registration, Scope
from harness.host.host import Array, Host, Session, SessionOptions, Tensor, UnsupportedError
from harness.host.scenario import scenario
from scenarios.models import CHAIN, NEGATE, NOBODYS
from scenarios.runs import (
    chained,
    grown,
    negated,
    offered,
    rounds,
    where_chained,
    where_negated,
)
from scenarios.values import values

__all__ = [
    "closed_first",
    "descriptors",
    "environment_anew",
    "ep_name",
    "exit_alive",
    "failed_session",
    "register_again",
    "same_name",
    "second_user",
    "session_alive",
    "session_options",
    "shared_allocators",
    "tensor_alive",
    "threads",
    "two_names",
    "unmapped",
]

_NOBODYS_OPTION = {"ort-ep-matrix.an_option_that_nobody_knows": "1"}
_SELDOM = 5
"""Every so many iterations, what costs a device more than the rest of an iteration does."""
_COUNTED = 40
"""Rounds in which descriptors are counted."""
_OPENED_LATE = 2
"""How many a driver may open for good at any time: a cache on disk, or a library."""
_GRACE_S = 1.0
"""What a thread that was told to end may need for it."""


@scenario(
    "lifecycle/register-again",
    host="bare",
    why="A library that was unregistered once cannot be registered again, or offers no device.",
)
def register_again(host: BareHost) -> None:
    """Register, use and unregister, in one environment after another."""
    for _ in host.iterations():
        env = host.environment()
        registration = host.register(env)
        _used(host, registration)
        registration.unregister()
        env.release()


@scenario(
    "lifecycle/environment-anew",
    host="bare",
    why="A library that its environment took along is lost to the next environment.",
)
def environment_anew(host: BareHost) -> None:
    """Register and use, and release the environment without a word to the library."""
    for _ in host.iterations():
        env = host.environment()
        registration = host.register(env)
        _used(host, registration)
        registration.abandon()
        env.release()


@scenario(
    "lifecycle/unmapped",
    host="bare",
    why="The library stays mapped when it is unregistered: its file cannot be replaced.",
)
def unmapped(host: BareHost) -> None:
    """Look for the plugin's own file among the mapped ones; what it depends on may stay."""
    env = host.environment()
    for i in host.iterations():
        registration = host.register(env)
        host.truth("it is mapped while it is registered", host.mapped(), "it is not")
        if i % _SELDOM == 0:
            _used(host, registration)
        registration.unregister()
        host.truth("it is not mapped after that", not host.mapped(), "it is")


@scenario(
    "lifecycle/threads",
    host="bare",
    why="A thread of the library goes on when it is unregistered, in code that may be gone.",
)
def threads(host: BareHost) -> None:
    """Compare the threads of the process before a registration and after it."""
    env = host.environment()
    for i in host.iterations():
        before = host.threads()
        registration = host.register(env)
        if i % _SELDOM == 0:
            _used(host, registration)
        registration.unregister()
        given_up = time.monotonic() + _GRACE_S
        while (more := host.threads() - before) and time.monotonic() < given_up:
            time.sleep(0.01)
        host.truth("no thread is left of it", not more, f"{len(more)} threads")


@scenario(
    "lifecycle/descriptors",
    why="A Run or a copy opens a file, a socket or a fence that is never closed.",
)
def descriptors(host: Host) -> None:
    """Two sessions run, with copies there and back between, while descriptors are counted."""
    sessions = [host.session(NEGATE) for _ in range(2)]
    allocators = [host.device_allocator(session) for session in sessions]
    seen = []
    for i in host.iterations():
        for _ in rounds(host, _COUNTED):
            for n, (session, allocator) in enumerate(zip(sessions, allocators, strict=True)):
                negated(host, session, salt=n)
                tensor = host.device_tensor(allocator, values(i, salt=n))
                host.check("a copy there and back", values(i, salt=n), host.read(tensor))
                tensor.release()
            seen.append(host.open_descriptors())
    more = grown(seen, _COUNTED // 2)
    told = f"there were {more} more while they were counted in {len(seen)} rounds"
    host.truth("no more descriptors are open", more <= _OPENED_LATE, told)
    where_negated(host, sessions[0])


@scenario(
    "lifecycle/ep-name",
    host="bare",
    why="An EP goes by one name for its device and by another in its sessions.",
)
def ep_name(host: BareHost) -> None:
    """Register under a name that nobody can expect, and ask sessions who runs their nodes."""
    env = host.environment()
    registration = host.register(env, "a name of the application's own")
    driven = offered(host, registration)
    session = driven.session(NEGATE)
    for _ in host.iterations():
        names = {device.ep_name for device in registration.devices}
        host.truth("every EP device has a name", all(names), sorted(names))
        negated(driven, session)
    where_negated(driven, session)


@scenario(
    "lifecycle/two-names",
    host="bare",
    why="Two registrations of one library take each other's device, memory or work.",
)
def two_names(host: BareHost) -> None:
    """Register twice, under two names, and drive both devices in turn."""
    env = host.environment()
    both = [offered(host, host.register(env, name)) for name in ("one name", "another name")]
    sessions = [driven.session(NEGATE) for driven in both]
    for _ in host.iterations():
        for salt, (driven, session) in enumerate(zip(both, sessions, strict=True)):
            negated(driven, session, salt)
    for driven, session in zip(both, sessions, strict=True):
        where_negated(driven, session)


@scenario(
    "lifecycle/second-user",
    host="bare",
    why="The first who unregisters a library ends it for everyone who registered it.",
)
def second_user(host: BareHost) -> None:
    """Another user of the environment registers the same library, uses it, and leaves."""
    env = host.environment()
    registration = host.register(env)
    driven = offered(host, registration)
    session = driven.session(NEGATE)
    for _ in host.iterations():
        its_env = host.environment()
        its_own = host.register(its_env, "a name of the second user's")
        with Scope() as scope:
            offered(host, its_own, scope).session(NEGATE)
        its_own.unregister()
        its_env.release()
        _still_there(host, registration)
        negated(driven, session)
    where_negated(driven, session)
    negated(driven, driven.session(NEGATE))


@scenario(
    "lifecycle/same-name",
    host="bare",
    alone=True,
    why="A registration that is refused, since its name is taken, ends the one that has it.",
)
def same_name(host: BareHost) -> None:
    """Register the library again and again under the name that it has.

    Every core that was tried keeps the library loaded for good when it has refused a name.
    """
    env = host.environment()
    registration = host.register(env)
    driven = offered(host, registration)
    session = driven.session(NEGATE)
    for _ in host.iterations():
        host.refused("a name that is taken", lambda: host.register(env))
        _still_there(host, registration)
        negated(driven, session)
    where_negated(driven, session)
    negated(driven, driven.session(NEGATE))


@scenario(
    "lifecycle/session-alive",
    host="bare",
    alone=True,
    why="To unregister a library while a session lives is fatal, or makes it useless for good.",
)
def session_alive(host: BareHost) -> None:
    """Unregister with a session alive, which ORT forbids, and may refuse or let pass.

    Where it is let pass, the session is lost: nobody may touch it again, not even to release it.
    """
    for i in host.iterations():
        env = host.environment()
        registration = host.register(env)
        scope = Scope()
        driven = offered(host, registration, scope)
        session = driven.session(NEGATE)
        negated(driven, session)
        if i == 0:
            where_negated(driven, session)
        refused = host.tolerated("to unregister with a session alive", registration.unregister)
        if refused is not None:
            negated(driven, session)
            scope.close()
            registration.unregister()
        scope.abandon()
        env.release()


@scenario(
    "lifecycle/tensor-alive",
    host="bare",
    alone=True,
    why="To unregister a library while a tensor lives is fatal, or makes it useless for good.",
)
def tensor_alive(host: BareHost) -> None:
    """Unregister with a tensor of a shared allocator alive; as `session_alive`."""
    for i in host.iterations():
        env = host.environment()
        registration = host.register(env)
        if i % _SELDOM == 0:
            _used(host, registration)
        scope = Scope()
        driven = offered(host, registration, scope)
        x = values(i)
        tensor = driven.device_tensor(driven.shared_allocator(), x)
        host.check("the tensor", x, driven.read(tensor))
        refused = host.tolerated("to unregister with a tensor alive", registration.unregister)
        if refused is not None:
            host.check("the tensor that stayed", x, driven.read(tensor))
            scope.close()
            registration.unregister()
        scope.abandon()
        env.release()


@scenario(
    "lifecycle/exit-alive",
    cases={"registration": False, "everything": True},
    ends_alive=True,
    why="A process that ends without releasing what it has crashes or hangs when it exits.",
)
def exit_alive(host: Host, everything: bool) -> None:
    """Leave the registration behind, or sessions and tensors as well: the exit is what is tried."""
    session = host.session(NEGATE)
    for i in host.iterations():
        negated(host, session)
        if everything:
            host.device_tensor(host.device_allocator(session), values(i))
    where_negated(host, session)
    if not everything:
        session.release()


def _bad_model(bare: BareHost, host: Host) -> None:
    what = "a node that no EP has a kernel for"
    with Scope() as scope:
        passing = replace(host, scope=scope)
        if bare.tolerated(what, lambda: passing.session(NOBODYS)) is None:
            raise UnsupportedError(what, "this plugin takes an Acosh in double")


def _unknown_option(bare: BareHost, host: Host) -> None:
    bare.tolerated(
        "an option that nobody knows",
        lambda: host.session(NEGATE, options=_NOBODYS_OPTION).release(),
    )


def _bad_value(bare: BareHost, host: Host) -> None:
    if host.options.capture is None:
        raise UnsupportedError(
            "a provider option to give a bad value to",
            "none is known for this plugin: options.capture in its entry of matrix.yaml",
        )
    senseless = dict.fromkeys(host.options.capture, "a value that makes no sense")
    bare.tolerated(
        "an option with a value that makes no sense",
        lambda: host.session(NEGATE, options=senseless).release(),
    )


def _second_device(bare: BareHost, host: Host) -> None:
    of_another_ep = [d for d in bare.devices(host.env) if d.ep_name != host.ep_name]
    for second in (*host.devices, *of_another_ep[:1]):
        with Scope() as scope:
            passing = replace(host, scope=scope)
            bare.tolerated("a second EP device", partial(_on_two, passing, second))


def _on_two(host: Host, second: EpDevice) -> None:
    host.session_with(NEGATE, host.session_options(devices=[host.device, second]))


@scenario(
    "lifecycle/failed-session",
    host="bare",
    cases={
        "bad-model": _bad_model,
        "unknown-option": _unknown_option,
        "bad-value": _bad_value,
        "second-device": _second_device,
    },
    why="A session that failed spoils the one that lives, the next one, or the unregistering.",
)
def failed_session(host: BareHost, fail: Callable[[BareHost, Host], None]) -> None:
    """Fail again and again beside a session that lives, then make one, and unregister."""
    env = host.environment()
    without = len(host.devices(env))
    registration = host.register(env)
    with Scope() as scope:
        driven = offered(host, registration, scope)
        living = driven.session(NEGATE)
        for _ in host.iterations():
            fail(host, driven)
            negated(driven, living)
        where_negated(driven, living)
        negated(driven, driven.session(NEGATE))
    registration.unregister()
    left = len(host.devices(env)) - without
    host.truth("no EP device is left when it is unregistered", left == 0, f"{left} are")


@scenario(
    "lifecycle/session-options",
    why="A session needs its options when they are gone, or spoils them for the next one.",
)
def session_options(host: Host) -> None:
    """Make two sessions with the same options: they outlive the first, and not the second."""
    options: SessionOptions | None = None
    for i in host.iterations():
        used_before = options is not None
        options = options or host.session_options()
        session = host.session_with(NEGATE, options)
        if used_before:
            options.release()
            options = None
        negated(host, session)
        if i == 0:
            where_negated(host, session)
        session.release()


@scenario(
    "lifecycle/shared-allocators",
    host="bare",
    why="A shared allocator that was replaced, or released early, is missed at the unregistering.",
)
def shared_allocators(host: BareHost) -> None:
    """Put a shared allocator in the place of the registration's own, use it, and release it."""
    for i in host.iterations():
        env = host.environment()
        registration = host.register(env)
        with Scope() as scope:
            driven = offered(host, registration, scope)
            allocator = driven.new_shared_allocator()
            tensor = driven.device_tensor(allocator, values(i))
            host.check("a tensor of the new allocator", values(i), driven.read(tensor))
            tensor.release()
            allocator.release()
        if i == 0:
            # The environment has none now, and a session does without.
            _used(host, registration)
        registration.unregister()
        env.release()


@dataclass(frozen=True)
class _Open:
    """A session of one of two models, and a device tensor in memory of it."""

    which: int
    session: Session
    content: Array
    kept: Tensor

    def use(self, host: Host) -> None:
        run = (negated, chained)[self.which]
        run(host, self.session, salt=self.which)
        host.check("its device tensor", self.content, host.read(self.kept))

    def close(self) -> None:
        self.kept.release()
        self.session.release()


def _open(host: Host, which: int) -> _Open:
    session = host.session((NEGATE, CHAIN)[which])
    content = values(host.record.iteration or 0, salt=7)
    kept = host.device_tensor(host.device_allocator(session), content)
    return _Open(which, session, content, kept)


@scenario(
    "lifecycle/closed-first",
    why="Closing one of two models takes memory, work or the device from the one that stays.",
)
def closed_first(host: Host) -> None:
    """Two models at a time: now the older is closed first, now the newer."""
    stays = _open(host, 0)
    for i in host.iterations():
        newer = _open(host, 1 - stays.which)
        both = [stays, newer]
        for one in both:
            one.use(host)
            if i == 0:
                (where_negated, where_chained)[one.which](host, one.session)
        closed, stays = reversed(both) if i % 2 == 0 else both
        closed.close()
        stays.use(host)


def _used(host: BareHost, registration: Registration) -> None:
    """Use the device of a registration, with everything given back."""
    with Scope() as scope:
        driven = offered(host, registration, scope)
        session = driven.session(NEGATE)
        negated(driven, session)
        if host.record.iteration == 0:
            where_negated(driven, session)


def _still_there(host: BareHost, registration: Registration) -> None:
    """State that the EP devices of a registration are where they were."""
    now = {device.pointer for device in host.devices(registration.env)}
    mine = {device.pointer for device in registration.devices}
    host.truth("its EP devices are still there", mine <= now, f"{len(mine - now)} are gone")

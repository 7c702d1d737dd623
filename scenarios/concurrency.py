"""Several threads: at once where the mode allows that, and in turn where it does not.

In every scenario the same work is done by lanes (`together`): in concurrent mode they start
together and overlap, in serialized mode the same calls are made one at a time, from threads that
change with every call. Each lane checks its own results, of values that are nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.host.host import FLOAT32, Array, Handle, Host, Session, Tensor
from harness.host.scenario import scenario
from scenarios.models import DOUBLE, LARGE, NEGATE, NEGATE_AND_ADD, NEGATE_LARGE, SHAPE
from scenarios.runs import Bound, negated, where_negated
from scenarios.values import patterned, values, zeros

__all__ = [
    "allocator_session_feeds",
    "capture_at_once",
    "come_and_go",
    "copy_streams",
    "create_and_destroy",
    "create_sessions",
    "error_in_one_lane",
    "handed_over",
    "one_session_allocator",
    "run_cpu_io",
    "run_device_io",
    "run_wide",
    "runs_of_one_session",
    "session_allocators",
    "shared_allocator",
    "uploads_meet",
]

_LANES = 4
_ALL_LANES = 16
_ROUNDS = 4
"""How often a lane does its work in an iteration: once is over before the next lane is awake."""
_SHORT_S = 15.0
"""For scenarios whose failure is likely to be a wait without end."""


@scenario(
    "concurrency/create-sessions",
    why="Sessions that are created at the same time get each other's kernels, or die.",
)
def create_sessions(host: Host) -> None:
    """Each lane creates a session, half of them of another model, and runs it once."""
    created: dict[int, Session] = {}

    def create(lane: int) -> None:
        session = created[lane] = host.session(DOUBLE if lane % 2 else NEGATE)
        x = _input(host, lane)
        feed = host.cpu_tensor(x)
        fetched = session.run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", x + x if lane % 2 else -x, host.read(fetched))
        fetched.release()
        feed.release()

    for i in host.iterations():
        host.together(create, _LANES)
        if i == 0:
            where_negated(host, created[0])
            host.placed(DOUBLE, created[1], {"double": host.ep_name})
        for session in created.values():
            session.release()


@scenario(
    "concurrency/create-and-destroy",
    why="A session that is created or released beside another takes it along.",
)
def create_and_destroy(host: Host) -> None:
    """Each lane creates sessions and releases them; one that was there before must still work."""
    bystander = host.session(NEGATE)

    def come_and_go(_lane: int) -> None:
        for _ in range(2):
            host.session(NEGATE).release()

    for _ in host.iterations():
        host.together(come_and_go, _LANES)
        negated(host, bystander)
    where_negated(host, bystander)


@scenario(
    "concurrency/run-cpu-io",
    timeout_s=_SHORT_S,
    why="Independent sessions that run at the same time take each other's values, or die.",
)
def run_cpu_io(host: Host) -> None:
    """Each lane runs a session of its own, with CPU feeds and fetches."""
    sessions = [host.session(NEGATE) for _ in range(_LANES)]

    def run(lane: int) -> None:
        for salt in _salts(lane):
            negated(host, sessions[lane], salt)

    for _ in host.iterations():
        host.together(run, _LANES)
    where_negated(host, sessions[0])


@scenario(
    "concurrency/run-device-io",
    timeout_s=_SHORT_S,
    why="Sessions that run at the same time on device tensors mix up what is bound to each.",
)
def run_device_io(host: Host) -> None:
    """Each lane runs a session of its own, bound to device tensors of its own."""
    sessions = [host.session(NEGATE) for _ in range(_LANES)]
    bound = [Bound(host, session) for session in sessions]

    def run(lane: int) -> None:
        for x in _inputs(host, lane):
            host.check("y", -x, bound[lane].run(x))

    for _ in host.iterations():
        host.together(run, _LANES)
    where_negated(host, sessions[0])


@scenario(
    "concurrency/run-wide",
    why="Runs that take their time share a staging buffer, or a kernel's state.",
)
def run_wide(host: Host) -> None:
    """Each lane runs a session of its own over a megabyte, so that runs really overlap."""
    sessions = [host.session(NEGATE_LARGE) for _ in range(_LANES)]

    def run(lane: int) -> None:
        x = patterned(LARGE, host.record.iteration or 0, salt=lane)
        feed = host.cpu_tensor(x)
        fetched = sessions[lane].run({"x": feed}, {"y": FLOAT32})["y"]
        host.check("y", -x, host.read(fetched))
        fetched.release()
        feed.release()

    for _ in host.iterations():
        host.together(run, _LANES)
    host.placed(NEGATE_LARGE, sessions[0], {"negate": host.ep_name})


@scenario(
    "concurrency/runs-of-one-session",
    timeout_s=_SHORT_S,
    why="An EP says that runs of one session may meet, and they spoil each other.",
)
def runs_of_one_session(host: Host) -> None:
    """All lanes run the same session; ORT keeps them apart if the EP wants that."""
    session = host.session(NEGATE)

    def run(lane: int) -> None:
        for salt in _salts(lane):
            negated(host, session, salt)

    for _ in host.iterations():
        host.together(run, _LANES)
    where_negated(host, session)


@scenario(
    "concurrency/session-allocators",
    why="Allocations of several sessions at the same time are given the same memory.",
)
def session_allocators(host: Host) -> None:
    """Each lane takes device memory from the allocator of its own session."""
    sessions = [host.session(NEGATE) for _ in range(_LANES)]
    _allocate(host, [host.device_allocator(session) for session in sessions])
    for lane, session in enumerate(sessions):
        negated(host, session, lane)
    where_negated(host, sessions[0])


@scenario(
    "concurrency/shared-allocator",
    why="Allocations from the shared allocator at the same time are given the same memory.",
)
def shared_allocator(host: Host) -> None:
    """All lanes take device memory from the environment's allocator."""
    session = host.session(NEGATE)
    _allocate(host, [host.shared_allocator()] * _LANES)
    negated(host, session)
    where_negated(host, session)


@scenario(
    "concurrency/one-session-allocator",
    why="Allocations from one session at the same time are given the same memory.",
)
def one_session_allocator(host: Host) -> None:
    """All lanes take device memory from the allocator of the same session."""
    session = host.session(NEGATE)
    _allocate(host, [host.device_allocator(session)] * _LANES)
    negated(host, session)
    where_negated(host, session)


@scenario(
    "concurrency/allocator-session-feeds",
    why="Memory that a session only allocated for others is cleared while they use it.",
)
def allocator_session_feeds(host: Host) -> None:
    """A session that never runs allocates what the sessions of all lanes run on."""
    giver = host.device_allocator(host.session(NEGATE))
    sessions = [host.session(NEGATE) for _ in range(_LANES)]

    def run(lane: int) -> None:
        for x in _inputs(host, lane):
            feed = host.device_tensor(giver, x)
            fetch = host.device_tensor(giver, x)
            sessions[lane].run({"x": feed}, {"y": fetch})
            host.check("y", -x, host.read(fetch))
            host.check("x", x, host.read(feed))
            fetch.release()
            feed.release()

    for _ in host.iterations():
        host.together(run, _LANES)
    where_negated(host, sessions[0])


@scenario(
    "concurrency/uploads-meet",
    why="Of uploads that meet, one is lost.",
)
def uploads_meet(host: Host) -> None:
    """Each lane writes to device tensors of its own, and reads them back."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    tensors = [host.empty_device_tensor(allocator, SHAPE) for _ in range(_LANES)]

    def write(lane: int) -> None:
        for x in _inputs(host, lane):
            host.write(tensors[lane], x)
            host.check("what was written", x, host.read(tensors[lane]))

    for _ in host.iterations():
        host.together(write, _LANES)
    negated(host, session)
    where_negated(host, session)


@scenario(
    "concurrency/copy-streams",
    why="Streams that are used at the same time take each other's copies, or lose them.",
)
def copy_streams(host: Host) -> None:
    """Each lane copies to the device and on, in the order of a stream of its own."""
    session = host.session(NEGATE)
    allocator = host.device_allocator(session)
    streams = [host.stream() for _ in range(_LANES)]
    pairs = [[host.empty_device_tensor(allocator, SHAPE) for _ in range(2)] for _ in range(_LANES)]

    def copy(lane: int) -> None:
        stream, (first, last) = streams[lane], pairs[lane]
        for x in _inputs(host, lane):
            source = host.cpu_tensor(x)
            host.copy([source], [first], stream)
            host.copy([first], [last], stream)
            host.check("what was copied on", x, host.read(last))
            source.release()

    for _ in host.iterations():
        host.together(copy, _LANES)
    negated(host, session)
    where_negated(host, session)


@scenario(
    "concurrency/capture-at-once",
    why="Graphs that several sessions capture at the same time get each other's work, or none.",
)
def capture_at_once(host: Host) -> None:
    """In each iteration every lane captures a new graph of its own session, and replays it."""
    sessions = [host.session(NEGATE, capture=True) for _ in range(_LANES)]
    bound = [Bound(host, session) for session in sessions]

    def capture(lane: int) -> None:
        graph = 1 + (host.record.iteration or 0)
        for x in _inputs(host, lane):
            host.check(f"y of graph {graph}", -x, bound[lane].run(x, graph))

    for _ in host.iterations():
        host.together(capture, _LANES)
    where_negated(host, sessions[0])


@scenario(
    "concurrency/error-in-one-lane",
    cases={"copy": True, "run": False},
    timeout_s=_SHORT_S,
    why="An error in one thread makes the others wait for ever, or spoils what they do.",
)
def error_in_one_lane(host: Host, copy: bool) -> None:
    """One lane makes a mistake again and again, while the others run sessions of their own."""
    sessions = [host.session(NEGATE) for _ in range(_LANES)]
    mistake = _undersized_copy(host, sessions[0]) if copy else _impossible_run(host)

    def work(lane: int) -> None:
        for salt in _salts(lane):
            if lane == 0:
                host.refused("a copy that does not fit" if copy else "an impossible shape", mistake)
            else:
                negated(host, sessions[lane], salt)

    for _ in host.iterations():
        host.together(work, _LANES)
        negated(host, sessions[0])
    where_negated(host, sessions[0])


@scenario(
    "concurrency/handed-over",
    why="What one thread has made does not work in another.",
)
def handed_over(host: Host) -> None:
    """Sessions and tensors are made in one thread, used in another, and released in a third."""
    sessions: dict[int, Session] = {}
    made: dict[int, tuple[Tensor, Tensor, Handle]] = {}

    def create(lane: int) -> None:
        sessions[lane] = host.session(NEGATE)

    def make(lane: int) -> None:
        allocator = host.device_allocator(sessions[lane])
        feed = host.device_tensor(allocator, _input(host, lane))
        fetch = host.device_tensor(allocator, zeros())
        made[lane] = feed, fetch, allocator

    def use(lane: int) -> None:
        maker = (lane + 1) % _LANES
        feed, fetch, _ = made[maker]
        sessions[maker].run({"x": feed}, {"y": fetch})
        host.check("y", -_input(host, maker), host.read(fetch))

    def drop(lane: int) -> None:
        for one in made.pop((lane + 2) % _LANES):
            one.release()

    def release(lane: int) -> None:
        sessions[(lane + 3) % _LANES].release()

    host.together(create, _LANES)
    for _ in host.iterations():
        for step in (make, use, drop):
            host.together(step, _LANES)
    where_negated(host, sessions[0])
    host.together(release, _LANES)


@scenario(
    "concurrency/come-and-go",
    why="A session that comes or goes takes memory or values from those that run and allocate.",
)
def come_and_go(host: Host) -> None:
    """Sixteen lanes: some create and release sessions, some run, some allocate, of two kinds."""
    standing = [host.session(NEGATE) for _ in range(2 * _LANES)]
    own = [host.device_allocator(session) for session in standing[_LANES:]]
    shared = host.shared_allocator()

    def comes_and_goes(lane: int) -> None:
        session = host.session(NEGATE)
        # One an iteration is run: to release one that has run may be slow.
        if (host.record.iteration or 0) % _LANES == lane:
            negated(host, session, salt=lane)
        session.release()

    def runs(lane: int) -> None:
        for salt in _salts(lane)[:2]:
            negated(host, standing[lane - _LANES], salt)

    def allocates(lane: int) -> None:
        _fill_and_read(host, own[lane - 2 * _LANES], lane)

    def shares(lane: int) -> None:
        _fill_and_read(host, shared, lane)

    groups: list[Callable[[int], None]] = [comes_and_goes, runs, allocates, shares]
    for _ in host.iterations():
        host.together(lambda lane: groups[lane // _LANES](lane), _ALL_LANES)
    where_negated(host, standing[0])


def _salts(lane: int) -> range:
    """What tells the values of a lane's rounds from all others of the iteration."""
    return range(lane, _ALL_LANES * _ROUNDS, _ALL_LANES)


def _input(host: Host, salt: int) -> Array:
    """The input of this iteration and salt."""
    return values(host.record.iteration or 0, salt)


def _inputs(host: Host, lane: int) -> Iterator[Array]:
    """The inputs of a lane's rounds, one after another."""
    return (_input(host, salt) for salt in _salts(lane))


def _allocate(host: Host, allocators: Sequence[Handle]) -> None:
    """The iterations of lanes that allocate at the same time, each from its allocator."""

    def work(lane: int) -> None:
        for _ in range(2):
            _fill_and_read(host, allocators[lane], lane)

    for _ in host.iterations():
        host.together(work, len(allocators))


def _fill_and_read(host: Host, allocator: Handle, lane: int) -> None:
    """Fill several new tensors, and only then read them, so that a second owner shows."""
    filled = [host.device_tensor(allocator, x) for x in _inputs(host, lane)]
    for tensor, x in zip(filled, _inputs(host, lane), strict=True):
        host.check("what was written", x, host.read(tensor))
        tensor.release()


def _undersized_copy(host: Host, session: Session) -> Callable[[], object]:
    """A copy whose destination has a third of the size of its source."""
    small = host.empty_device_tensor(host.device_allocator(session), (2,))
    large = host.cpu_tensor(values(0))
    return lambda: host.copy([large], [small])


def _impossible_run(host: Host) -> Callable[[], object]:
    """A Run whose second kernel is given shapes that do not fit."""
    session = host.session(NEGATE_AND_ADD)
    host.placed(NEGATE_AND_ADD, session, dict.fromkeys(["negate", "add"], host.ep_name))
    feeds = {"x": host.cpu_tensor(values(0)), "by": host.cpu_tensor(values(0)[:2])}
    return lambda: session.run(feeds, {"y": FLOAT32})

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.native.handles import Handle, ReleasedHandleError, Scope


def test_handles_are_released_last_created_first() -> None:
    released: list[int] = []
    scope = Scope()
    for number in range(4):
        scope.own(Handle("thing", number, released.append))

    assert scope.close() == []
    assert released == [3, 2, 1, 0]


def test_a_handle_is_released_exactly_once() -> None:
    released: list[str] = []
    scope = Scope()
    handle = scope.own(Handle("thing", "p", released.append))
    handle.release()
    handle.release()
    scope.close()
    scope.close()

    assert released == ["p"]
    assert handle.released


def test_what_is_given_up_is_not_released() -> None:
    released: list[int] = []
    scope, other = Scope(), Scope()
    handles = [scope.own(Handle("thing", number, released.append)) for number in range(3)]
    other.own(Handle("thing", 3, released.append))
    handles[1].abandon()
    assert [handle.released for handle in handles] == [False, True, False]
    other.abandon()

    assert scope.close() == []
    assert other.close() == []
    assert released == [2, 0]


def test_a_released_handle_cannot_be_used() -> None:
    handle = Handle("session", "p", lambda pointer: None)
    assert handle.pointer == "p"
    assert not handle.released
    handle.release()

    with pytest.raises(ReleasedHandleError, match="a released session was used"):
        _ = handle.pointer


def test_a_release_that_fails_is_told_and_does_not_stop_the_others() -> None:
    released: list[int] = []

    def release(number: int) -> None:
        if number == 1:
            raise OSError("stuck")
        released.append(number)

    scope = Scope()
    for number in range(3):
        scope.own(Handle(f"thing {number}", number, release))

    assert scope.close() == ["thing 1: stuck"]
    assert released == [2, 0]
    assert scope.close() == []


def test_a_release_that_fails_is_not_tried_again() -> None:
    tried: list[str] = []

    def release(pointer: str) -> None:
        tried.append(pointer)
        raise OSError("stuck")

    handle = Handle("thing", "p", release)
    with pytest.raises(OSError, match="stuck"):
        handle.release()
    handle.release()

    assert tried == ["p"]


def test_a_scope_releases_what_it_owns_when_its_block_raises() -> None:
    released: list[str] = []

    def fail() -> None:
        with Scope() as scope:
            scope.own(Handle("thing", "p", released.append))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert released == ["p"]


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=20), st.sets(st.integers(0, 19)))
def test_whatever_was_released_before_all_is_released_once_in_reverse_order(
    failing: list[bool], early: set[int]
) -> None:
    order: list[int] = []

    def release(number: int) -> None:
        order.append(number)
        if failing[number]:
            raise OSError

    scope = Scope()
    handles = [scope.own(Handle("thing", n, release)) for n in range(len(failing))]
    for n in sorted(early & set(range(len(failing)))):
        try:
            handles[n].release()
        except OSError:
            continue
    first = len(order)
    failures = scope.close()

    assert sorted(order) == list(range(len(failing)))
    assert order[first:] == sorted(order[first:], reverse=True)
    assert len(failures) == sum(failing[n] for n in order[first:])

"""Several artifacts obtained side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from harness.artifacts.network import Network
from harness.waiting import results_of

__all__ = ["obtain_all"]

_Wanted = TypeVar("_Wanted")
_Obtained = TypeVar("_Obtained")


def obtain_all(
    obtain: Callable[[_Wanted], _Obtained],
    wanted: Iterable[_Wanted],
    network: Network,
    threads: int,
) -> list[_Obtained]:
    """Obtain all that is wanted, in its order, and end at once when interrupted.

    Args:
        obtain: gets one of them, over the network.
        wanted: what to obtain.
        network: its downloads are ended by an interruption, or where obtaining one raises.
        threads: how many are obtained at the same time.
    """
    with ThreadPoolExecutor(threads, "obtain") as pool:
        try:
            return results_of([pool.submit(obtain, one) for one in wanted])
        except BaseException:
            # Ctrl-C must not wait for the downloads that are under way.
            network.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise

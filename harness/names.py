"""How a pattern that a person writes is compared with the name of a scenario or a plugin."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable

__all__ = ["matches", "suggestion"]


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern means a name of the shape `family/name[params]`.

    The pattern is compared, case and all, with the whole name, with the name without its
    parameters, and with the family. `*` stands for any characters, `/` included, and `?` for
    one; brackets stand for themselves, because names contain them.

    Args:
        pattern: a name, a family, or a glob over either.
        name: the full name, parameters included.

    Returns:
        Whether any of the three forms of the name is what the pattern says.
    """
    glob = pattern.replace("[", "[[]")
    return any(fnmatch.fnmatchcase(form, glob) for form in _forms(name))


def suggestion(pattern: str, names: Iterable[str]) -> str | None:
    """The name, the name without parameters or the family that is most like the pattern.

    Args:
        pattern: what matched nothing.
        names: the full names that there are.

    Returns:
        The closest of them; none if nothing is close.
    """
    forms = dict.fromkeys(form for name in names for form in _forms(name))
    return next(iter(difflib.get_close_matches(pattern, forms, n=1, cutoff=0.6)), None)


def _forms(name: str) -> tuple[str, str, str]:
    return name, name.partition("[")[0], name.partition("/")[0]

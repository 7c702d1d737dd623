"""The project's source as its tests see it: modules, and what each imports, from the AST."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOP = Path(__file__).parent.parent


@dataclass(frozen=True)
class Import:
    """A name taken out of a module, or a whole module where there is no name."""

    module: str
    name: str | None

    @property
    def targets(self) -> tuple[str, ...]:
        """The modules that it may mean, the likeliest last."""
        return (self.module,) if self.name is None else (self.module, f"{self.module}.{self.name}")


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path)

    @property
    def generated(self) -> bool:
        return self.path.read_text(encoding="utf-8").startswith("# auto-generated")

    def imports(self) -> Iterator[Import]:
        """All of them: those inside functions and for type checking, too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path} has a relative import"
                yield from (Import(node.module or "", alias.name) for alias in node.names)


def modules(*packages: str) -> list[Module]:
    found = []
    for package in packages:
        for path in sorted((TOP / package).rglob("*.py")):
            name = ".".join(path.relative_to(TOP).with_suffix("").parts)
            found.append(Module(name.removesuffix(".__init__"), path))
    assert found
    return found


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))

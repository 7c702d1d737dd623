"""The reports of a run: one module a format, all made from the same results."""

__all__: list[str] = []

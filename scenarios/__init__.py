"""The scenarios that come with the harness: one module a family."""

__all__: list[str] = []

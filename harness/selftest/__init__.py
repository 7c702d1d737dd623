"""The proof that the harness finds what it should: faults planted in a plugin of our own."""

__all__: list[str] = []

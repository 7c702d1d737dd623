"""What runs inside a host process, and the interface that scenarios are written against."""

__all__: list[str] = []

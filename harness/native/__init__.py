"""ORT's C API: declarations of our own, the cffi binding and owning handles."""

__all__: list[str] = []

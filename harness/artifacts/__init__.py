"""Cores and plugins: found, fetched, checked by hash, and cached. Nothing here loads them."""

__all__: list[str] = []

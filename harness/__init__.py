"""The engine: drives one unchanged plugin EP on many ONNX Runtime cores and judges what it sees."""

__all__ = ["__version__"]

__version__ = "0.1.0"

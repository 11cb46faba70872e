"""The version of fedtempo, as in pyproject.toml."""

__version__ = "0.1.0"

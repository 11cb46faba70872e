"""The version of fedtempo, as in pyproject.toml, and the version of its messages."""

__version__ = "0.1.0"

PROTOCOL = 2
"""Version of the messages of a deployment; client and server must have the same."""

"""Addresses at which a SuperLink listens, as host:port."""

from __future__ import annotations

import re

LOCAL = ("localhost", "127.0.0.1")
"""Names of this machine itself."""

_ADDRESS = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


def split(address: str) -> tuple[str, int]:
    """Return the host and the port of an address. Raises ValueError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError("must be host:port, such as 127.0.0.1:8000")
    return match[1], int(match[2])


def is_here(address: str) -> bool:
    """Return whether an address is this machine's own."""
    return split(address)[0] in LOCAL

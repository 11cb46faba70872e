"""Parts that the report's Plotly figures share. Fonts, grid and background come from the page's theme.

Plotly reads text as simple HTML, so every name is escaped before it goes into a figure.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.record.run import Records

Runs = Mapping[str, Sequence[Records]]

MOST_CLIENTS = 200
"""Clients that a chart shows one by one."""


def axes(x: str, y: str) -> dict[str, Any]:
    """Return the layout of a figure with one pair of axes; x, y: their titles."""
    return {
        "xaxis": {"title": {"text": x}, "zeroline": False},
        "yaxis": {"title": {"text": y}},
        "hovermode": "x unified",
        "height": 380,
        "margin": {"l": 60, "r": 30, "t": 16, "b": 50},
    }


def small(values: Any) -> Any:
    """Return values in single precision: half the bytes on the page, and finer than any screen."""
    return np.asarray(values, dtype=np.float32)


def evenly(order: Any, most: int) -> Any:
    """Return at most `most` items of an array, evenly spread, in order."""
    picks = np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).round().astype(np.int64))
    return order[picks]


def client_name(run: Records, client: int) -> str:
    """Return the client's name for figures: its name, escaped, or "client <number>"."""
    names = run.facts.get("client_names") or ()
    name = str(names[client]) if client < len(names) else ""
    return html.escape(name) or f"client {client}"

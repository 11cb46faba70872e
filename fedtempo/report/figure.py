"""What the Plotly figures of the page have in common. Fonts, grid and background are the page's, by its theme.

Text that Plotly shows is read as simple HTML, so every name is escaped before it goes into a figure.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.record.run import Records

Runs = Mapping[str, Sequence[Records]]

MOST_CLIENTS = 200


def axes(x: str, y: str) -> dict[str, Any]:
    """Layout of a picture with one pair of axes."""
    return {
        "xaxis": {"title": {"text": x}, "zeroline": False},
        "yaxis": {"title": {"text": y}},
        "hovermode": "x unified",
        "height": 380,
        "margin": {"l": 60, "r": 30, "t": 16, "b": 50},
    }


def small(values: Any) -> Any:
    """Half the bytes on the page, and still more digits than a screen has points."""
    return np.asarray(values, dtype=np.float32)


def evenly(order: Any, most: int) -> Any:
    """At most `most` of a sequence, evenly spread, in order."""
    picks = np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).round().astype(np.int64))
    return order[picks]


def client_name(run: Records, client: int) -> str:
    """What pictures call the client: its name, escaped, or its number."""
    names = run.facts.get("client_names") or ()
    name = str(names[client]) if client < len(names) else ""
    return html.escape(name) or f"client {client}"

"""Pictures of the papers: each kind is drawn, and the same numbers make the same file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedtempo.studies.papers import figures

BOXES = {"discrete": {"S = 3": {"a": [1.0, 2.0, 3.0], "b": [2.0, 2.5, 9.0]}}}
KINDS: dict[str, Callable[[Path], None]] = {
    "lines": partial(figures.draw_lines, [1, 2, 4], {"a": [3.0, 2.0, float("inf")]}, x="K", y="rounds"),
    "boxes": partial(figures.draw_boxes, BOXES, y="s"),
    "bars": partial(figures.draw_bars, np.histogram([1, 2, 2, 3], bins=3), x="examples", y="clients"),
    "shares": partial(figures.draw_shares, {"oort": {"tail": 1.0, "other": 2.0}}, y="picks"),
    "points": partial(figures.draw_points, ([1.0, np.nan], [0.5, 0.6], [3, 0]), x="s", y="evenness", colour="picks"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_numbers_give_the_same_figure(kind: str, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg", "one.png"):
        KINDS[kind](tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert one == two
    assert b"<svg" in one
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_axes_of_whole_numbers_are_labelled_as_such(tmp_path: Path) -> None:
    figures.draw_lines([0, 1, 2, 3, 4], {"a": [0.0, 1.0, 2.0, 3.0, 4.0]}, tmp_path / "lines.svg", x="k", y="clients")
    assert "<!-- 3 -->" in (tmp_path / "lines.svg").read_text(encoding="utf-8")

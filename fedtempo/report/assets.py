"""Style sheet and scripts of HTML pages."""

from __future__ import annotations

from importlib.resources import files


def _read(name: str) -> str:
    return (files("fedtempo.report") / "page" / name).read_text(encoding="utf-8")


STYLE = _read("style.css")
THEME_SCRIPT = _read("theme.js")
"""Gives Plotly the look of the page around it."""
REPORT_SCRIPT = f"{THEME_SCRIPT}\n{_read('report.js')}"
"""Draws the charts of a report and lets its legends hide strategies."""

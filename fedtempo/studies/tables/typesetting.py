"""Tables as text: LaTeX with booktabs, Markdown, or CSV with unrounded numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fedtempo.errors import ConfigError, nearest
from fedtempo.report.words import ABSENT, capital
from fedtempo.studies.grids import short_keys
from fedtempo.studies.tables.pivot import Cell, Facet, Heading, PaperTable
from fedtempo.studies.tables.quantities import Quantity
from fedtempo.studies.tables.runs import STRATEGY

_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "²": r"\textsuperscript{2}",
    "†": r"$^\dagger$",
    "–": "--",
    "\u00a0": "~",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_MARKDOWN = {"|": r"\|", "*": r"\*", "_": r"\_", "<": "&lt;", "\n": " "}


@dataclass(frozen=True)
class _Style:
    """How a format writes text. escape: of any text; given: of the user's, who may use the format; bold: around it."""

    escapes: Mapping[str, str]
    given: Callable[[str], str]
    bold: Callable[[str], str]

    def escape(self, text: str) -> str:
        return "".join(self.escapes.get(letter, letter) for letter in text)


LATEX = _Style(_LATEX, lambda text: re.sub(r"(?<!\\)([%&#])", r"\\\1", text), lambda text: rf"\textbf{{{text}}}")
MARKDOWN = _Style(_MARKDOWN, str, lambda text: f"**{text}**")


def typeset(table: PaperTable, to: str, *, caption: str | None = None, label: str | None = None) -> str:
    """Return a table as "latex", "markdown" or "csv".

    caption: of LaTeX's `table` environment, in front of the sentence about seeds; without one (None) only the `tabular`
    is written, for a caption of your own. label: for `\\ref`. Raises ConfigError for another format.
    """
    if to not in FORMATS:
        raise ConfigError(f"to = {to!r}: no such format{nearest(to, FORMATS)}")
    if to != "latex" and (caption is not None or label is not None):
        raise ConfigError(f"to = {to!r}: caption and label are for latex")
    if label is not None and caption is None:
        raise ConfigError(f"label = {label!r}: give a caption too, since only a table with a caption has a number")
    if to == "latex":
        return _latex(table, caption, label)
    return _markdown(table) if to == "markdown" else _csv(table)


FORMATS = {"latex": ".tex", "markdown": ".md", "csv": ".csv"}
"""Formats, and the suffix of each one's files."""


def format_of(suffix: str) -> str:
    """Return the format of a file's suffix. Raises ConfigError for any other suffix."""
    for name, known in FORMATS.items():
        if suffix == known:
            return name
    raise ConfigError(f"{suffix or 'a file without suffix'}: choose a format from {', '.join(FORMATS)}")


@dataclass(frozen=True)
class _Laid:
    """A table as escaped text. stubs: headings of the rows' own columns. levels: of the columns' headings.

    rows: the row's own columns, with repeated values left out, and its cells.
    """

    stubs: list[str]
    levels: list[list[str]]
    rows: list[tuple[list[str], list[str]]]
    note: str


def _laid(table: PaperTable, style: _Style) -> _Laid:
    texts = _Texts(table, style)
    alone = table.quantities[0] if len(table.quantities) == 1 else None
    in_rows = any(isinstance(heading[-1], Quantity) for heading in table.rows if heading)
    hidden = alone if alone is not None and (table.row_keys if in_rows else table.column_keys) else None
    stubs = [texts.key(key) for key in table.row_keys] + ([""] if in_rows and hidden is None else [])
    columns = [[texts.column(part) for part in heading if part is not hidden] for heading in table.columns]
    levels = [list(level) for level in zip(*columns)] or [[""] * len(table.columns)]
    rows, before = [], [""] * len(stubs)
    for heading, line in zip(table.rows, table.cells):
        own = [texts.row(part) for part in heading if part is not hidden]
        first = next((i for i, (old, new) in enumerate(zip(before, own)) if old != new), 0)
        rows.append(([""] * first + own[first:], [texts.cell(cell) for cell in line]))
        before = own
    about = "" if hidden is None else f"{capital(hidden.heading)}. "
    return _Laid(stubs, levels, rows, about + table.note)


class _Texts:
    """The parts of a table as text, with the user's names in place of the usual ones; these are not escaped."""

    def __init__(self, table: PaperTable, style: _Style) -> None:
        self._names, self._style = table.names, style
        self._short = short_keys([*table.row_keys, *table.column_keys])

    def key(self, key: str) -> str:
        return self._named(key, self._short[key].replace("_", " "))

    def row(self, part: Facet | Quantity) -> str:
        return self._quantity(part) if isinstance(part, Quantity) else self._named(part.text, part.text)

    def column(self, part: Facet | Quantity) -> str:
        if isinstance(part, Facet) and part.key != STRATEGY and part.text not in self._names:
            return f"{self.key(part.key)} = {self._style.escape(part.text)}"
        return self.row(part)

    def cell(self, cell: Cell | None) -> str:
        if cell is None:
            return self._style.escape(ABSENT)
        center = cell.text or ABSENT
        shown = self._style.escape(center if cell.spread_text is None else f"{center} ± {cell.spread_text}")
        shown = self._style.bold(shown) if cell.best else shown
        more = "†" if cell.diverged else ""
        more += f" ({cell.measured} of {cell.seeds})" if 0 < cell.measured < cell.seeds else ""
        return shown + self._style.escape(more)

    def _quantity(self, shown: Quantity) -> str:
        return self._named(shown.name, shown.heading)

    def _named(self, name: str, usual: str) -> str:
        return self._style.given(self._names[name]) if name in self._names else self._style.escape(usual)


def _latex(table: PaperTable, caption: str | None, label: str | None) -> str:
    laid = _laid(table, LATEX)
    note = LATEX.escape(laid.note)
    lines = [
        rf"\begin{{tabular}}{{{'l' * len(laid.stubs)}{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_head(laid),
        r"\midrule",
        *(rf"{' & '.join([*own, *cells])} \\" for own, cells in laid.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    head = [r"% needs \usepackage{booktabs}"]
    if caption is None:
        return "\n".join([*head, f"% {note}", *lines]) + "\n"
    caption_line = rf"\caption{{{LATEX.given(_ended(caption))}{note}}}"
    labels = [] if label is None else [rf"\label{{{label}}}"]
    return "\n".join([*head, r"\begin{table}", r"\centering", caption_line, *labels, *lines, r"\end{table}"]) + "\n"


def _ended(caption: str) -> str:
    """Return a caption that another sentence can follow."""
    text = caption.strip()
    return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} " if text else ""


def _latex_head(laid: _Laid) -> Iterator[str]:
    """Yield the lines of the head: equal neighbours of the upper levels share a cell and a rule."""
    for depth, level in enumerate(laid.levels):
        last = depth == len(laid.levels) - 1
        stubs = laid.stubs if last else [""] * len(laid.stubs)
        if last:
            yield rf"{' & '.join([*stubs, *level])} \\"
            continue
        cells, rules, column = [], [], len(stubs) + 1
        for (text, *_), group in groupby(zip(*laid.levels[: depth + 1][::-1])):
            width = len(list(group))
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{text}}}")
            rules.append(rf"\cmidrule(lr){{{column}-{column + width - 1}}}")
            column += width
        yield rf"{' & '.join([*stubs, *cells])} \\"
        yield " ".join(rules)


def _markdown(table: PaperTable) -> str:
    laid = _laid(table, MARKDOWN)
    heads = [", ".join(filter(None, parts)) for parts in zip(*laid.levels)]
    lines = [
        [*laid.stubs, *heads],
        [*["---"] * len(laid.stubs), *["---:"] * len(heads)],
        *([*own, *cells] for own, cells in laid.rows),
    ]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", MARKDOWN.escape(laid.note)]) + "\n"


def _csv(table: PaperTable) -> str:
    """Return one line per row, with the numbers of each cell: center, spread, runs with a value, and all runs.

    Numbers are in the summary's units: seconds, bytes, shares from 0 to 1.
    """
    in_rows = any(isinstance(heading[-1], Quantity) for heading in table.rows if heading)
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    names = [_column_name(heading) for heading in table.columns]
    own = [table.names.get(key, key) for key in table.row_keys] + (["quantity"] if in_rows else [])
    writer.writerow([*own, *(f"{name}{part}" for name in names for part in ("", "_spread", "_n", "_of"))])
    for heading, line in zip(table.rows, table.cells):
        stubs = [table.names.get(part.text, part.text) if isinstance(part, Facet) else part.name for part in heading]
        writer.writerow([*stubs, *(number for cell in line for number in _numbers(cell))])
    return written.getvalue()


def _column_name(heading: Heading) -> str:
    facets = [
        part.text if part.key == STRATEGY else f"{part.key}={part.text}" for part in heading if isinstance(part, Facet)
    ]
    quantities = [part.name for part in heading if isinstance(part, Quantity)]
    return " ".join([*quantities, *facets]) or "value"


def _numbers(cell: Cell | None) -> Sequence[Any]:
    if cell is None:
        return ["", "", 0, 0]
    scaled = ["" if value is None else value / cell.quantity.factor for value in (cell.center, cell.spread)]
    return [*scaled, cell.measured, cell.seeds]

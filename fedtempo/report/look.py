"""Sizes and styles of Matplotlib figures, and how they are written. Matplotlib is imported when one is drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError, RunError, nearest
from fedtempo.report.palette import VIBRANT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS_IN = {"column": 3.5, "page": 7.16}
"""Widths with a name, inches: one column and both columns of an IEEE journal; those of other publishers are close."""

_PER_INCH = {"in": 1.0, "cm": 2.54, "mm": 25.4, "pt": 72.27}
"""Units of a width in one inch; points as LaTeX prints them."""

_SCREEN: dict[str, Any] = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "grid.color": "0.92",
    "grid.linewidth": 0.8,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 160,
}
_PAPER: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.5,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "savefig.dpi": 600,
}
_LINES = ("solid", "dashed", "dotted", "dashdot")


class NothingToDraw(ConfigError):
    """Runs do not have what a figure shows."""


@dataclass(frozen=True)
class Look:
    """Size and style of a figure.

    width, height: inches; None for the style sheets' `figure.figsize`, or else the figure's own. styles: Matplotlib's
    style sheets, by name, file or package; the last one wins. paper: small type and thin lines, for a journal's column.
    """

    width: float | None = None
    height: float | None = None
    styles: tuple[str, ...] = ()
    paper: bool = False

    def size(self, width: float, height: float) -> tuple[float, float]:
        """Return the size of a figure, inside `styled`; width, height: its own on a screen, inches."""
        from matplotlib import rcParams, rcParamsDefault

        own = rcParams["figure.figsize"]
        if self.styles and list(own) != list(rcParamsDefault["figure.figsize"]):
            chosen, its_height = float(own[0]), float(own[1])
        else:
            chosen = WIDTHS_IN["column"] if self.paper else width
            its_height = chosen * height / width
        if self.width is not None:
            chosen, its_height = self.width, its_height * self.width / chosen
        return chosen, self.height or its_height

    def scaled(self, inches: float) -> float:
        """Return a length that grows with the text, inside `styled`; inches: with text of 10 points."""
        from matplotlib import rcParams

        return inches * float(rcParams["font.size"]) / 10

    @contextlib.contextmanager
    def styled(self) -> Iterator[None]:
        """Draw with this style inside the block; Matplotlib's settings are as before after it.

        Raises ConfigError for a style sheet that does not exist or cannot be read.
        """
        from cycler import cycler
        from matplotlib import rc_context, style

        settings: Any = {**_SCREEN, **(_PAPER if self.paper else {}), "axes.prop_cycle": cycler(color=VIBRANT)}
        with rc_context(settings):
            try:
                style.use(list(self.styles))
            except OSError as error:
                missing = next((name for name in self.styles if name not in style.available), "")
                raise ConfigError(
                    f"style {missing!r}: neither a file nor one of Matplotlib's style sheets"
                    f"{nearest(missing, style.available)}"
                ) from error
            yield


SCREEN = Look()
"""For pages and screens."""

PAPER = Look(paper=True)
"""For a journal's column."""


def length_in(text: str) -> float:
    """Return a length in inches: "column", "page", or a number with a unit, as "84mm". Raises ConfigError."""
    if text in WIDTHS_IN:
        return WIDTHS_IN[text]
    number, unit = text.strip()[:-2], text.strip()[-2:]
    try:
        inches = float(number) / _PER_INCH[unit]
    except (KeyError, ValueError):
        raise ConfigError(
            f"width or height {text}: write {', '.join(WIDTHS_IN)}, or a number with a unit of {', '.join(_PER_INCH)}, "
            "such as 84mm"
        ) from None
    if not 0.5 <= inches <= 40:
        raise ConfigError(f"width or height {text}: must be from 0.5in to 40in")
    return inches


def line_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return how each label's line is drawn, inside `Look.styled`: by the style's cycle, then in other dashes."""
    from matplotlib import rcParams

    cycle = list(rcParams["axes.prop_cycle"])
    styles = {}
    for position, label in enumerate(labels):
        turn, place = divmod(position, len(cycle))
        dashes = {} if turn == 0 else {"linestyle": _LINES[turn % len(_LINES)]}
        styles[label] = {"color": f"C{place}", **dashes, **cycle[place]}
    return styles


def colours(labels: Sequence[str]) -> dict[str, Any]:
    """Return each label's colour, inside `Look.styled`."""
    return {label: style["color"] for label, style in line_styles(labels).items()}


def small_size() -> float:
    """Return the size of small text in points, inside `Look.styled`."""
    from matplotlib import rcParams

    return 0.8 * float(rcParams["font.size"])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches whose layout fits its parts."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain_axes(axes: Axes) -> Axes:
    """Give axes a faint grid in the background and no frame at the top and right; return them."""
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def add_legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], most: int = 4) -> None:
    """Put a legend above a figure, in as many columns as fit, at most `most`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    renderer, width = canvas.get_renderer(), figure.get_figwidth() * figure.dpi
    for columns in range(min(most, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper left", ncols=columns)
        if columns == 1 or legend.get_window_extent(renderer).width <= width:
            return
        legend.remove()


def write_figure(figure: Figure, path: Path | str) -> None:
    """Save a figure; the same figure always gives the same file, and PDF and EPS embed their fonts (Type 42).

    Raises ConfigError for a suffix that Matplotlib cannot write, RunError if the file cannot be written.
    """
    from matplotlib import rc_context, rcParams

    suffix = Path(path).suffix
    known = figure.canvas.get_supported_filetypes()
    if suffix.removeprefix(".") not in known:
        raise ConfigError(f"{path}: no format of a figure{nearest(suffix.removeprefix('.'), known)}")
    dpi = rcParams["savefig.dpi"] if rcParams["savefig.dpi"] != "figure" else 160
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        with rc_context({"svg.hashsalt": "fedtempo", "pdf.fonttype": 42, "ps.fonttype": 42}):
            if suffix == ".png":
                _save_png(figure, path, dpi)
            else:
                if suffix in (".eps", ".ps"):
                    _make_opaque(figure)
                figure.savefig(path, dpi=dpi, metadata=undated.get(suffix))
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error
    except RuntimeError as error:
        if not rcParams["text.usetex"]:
            raise
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"{path}: a style sheet sets text.usetex, and LaTeX failed: {reason}") from error


def _make_opaque(figure: Figure) -> None:
    """Replace translucent colours by what they look like on white, since PostScript has no transparency."""
    from matplotlib.collections import Collection
    from matplotlib.colors import to_rgba_array
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def on_white(colour: Any, alpha: float) -> Any:
        return 1 - alpha * (1 - to_rgba_array(colour)[:, :3])

    for artist in figure.findobj():
        alpha = artist.get_alpha()
        if alpha is None or alpha >= 1:
            continue
        if isinstance(artist, Line2D):
            artist.set_color(on_white(artist.get_color(), alpha)[0])
        elif isinstance(artist, Collection | Patch):
            artist.set_facecolor(on_white(artist.get_facecolor(), alpha))
        artist.set_alpha(None)


def _save_png(figure: Figure, path: Path | str, dpi: float) -> None:
    """Save with 256 colours, enough for curves and bands, at a quarter of the size."""
    from PIL import Image

    whole = io.BytesIO()
    figure.savefig(whole, format="png", dpi=dpi)
    with Image.open(whole) as image:
        reduced = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    reduced.save(path, format="PNG", optimize=True)

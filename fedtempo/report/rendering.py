"""HTML from templates, in which every value that is not already markup is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render(template: str, **context: Any) -> Markup:
    """Return the HTML of `templates/<template>.html.j2` for these values.

    Raises jinja2.UndefinedError if the template needs a value that was not given.
    """
    return Markup(_environment().get_template(f"{template}.html.j2").render(context))  # noqa: S704  it was escaped


def notebook_html(
    title: str,
    *,
    lines: Sequence[str] = (),
    text: str = "",
    head: Sequence[str] = (),
    rows: Iterable[Sequence[str]] = (),
    row_titles: bool = False,
) -> Markup:
    """Return how a result looks in a notebook: a title, then a list, preformatted text and a table, each optional.

    head: titles of the table's columns. row_titles: whether the first cell of each row is its title.
    """
    return render("notebook", title=title, lines=lines, text=text, head=head, rows=list(rows), row_titles=row_titles)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("fedtempo.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

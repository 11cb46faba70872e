"""Pages of results: templates for the prose and tables, filled with numbers computed in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedtempo.report.words import listed
from fedtempo.studies.papers.ranking import seconds


def render(template: str, **context: Any) -> str:
    """Return the Markdown of `templates/<template>.md.j2` for these values.

    Raises jinja2.UndefinedError if the template needs a value that was not given.
    """
    return _environment().get_template(f"{template}.md.j2").render(context)


def settings_in_words(chosen: Mapping[str, Any]) -> str:
    """Return tuned settings as text ("clients_at_once 50, lr 0.3"), without those that were not tuned."""
    words = []
    for key, value in chosen.items():
        name = key.removeprefix("strategy.").removeprefix("training.")
        if name not in ("tick_s", "deadline_s"):
            words.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fedtempo.studies.papers"),
        autoescape=False,  # noqa: S701  the templates write Markdown, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "fmt": format,
        "listed": _listed,
        "code": lambda names: [f"`{name}`" for name in names],
        "settings": settings_in_words,
        "seconds": seconds,
    }
    return environment


def _listed(values: Sequence[Any], spec: str = "") -> str:
    """Return "a, b and c", each value formatted with `spec`."""
    return listed([format(value, spec) for value in values])

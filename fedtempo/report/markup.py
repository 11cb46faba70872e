"""HTML that is safe by construction: whatever is not already `Markup` is escaped when it is put into an element."""

from __future__ import annotations

import html


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | bool) -> Markup:
    """`<tag attributes>children</tag>`. A trailing underscore of an attribute's name goes, others become hyphens.

    An attribute that is True stands alone; one that is False is left out.
    """
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in attributes.items()
        if value is not False
    )
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: str) -> Markup:
    """Children one after another, escaped where they are plain text."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(child) for child in children))

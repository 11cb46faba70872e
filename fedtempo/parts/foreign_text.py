"""Text from others, such as clients and files, made safe for a terminal and a log.

Whatever a program shows goes through here: lines that hold such text through `one_line`, and everything that reaches a
terminal or a log through `visible`. Rich never takes it as markup (`fedtempo.parts.plain_console`).
"""

from __future__ import annotations

import unicodedata

_CUT = "..."
_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode: control characters, invisible ones that change the direction of text, halves of characters,
which cannot be encoded, line and paragraph separators."""


def one_line(text: object, most: int | None = None) -> str:
    r"""Return text on one line, in which control characters and the like are escaped: "a<newline>b" becomes "a\nb".

    most: number of characters to which the line is cut.
    """
    plain = str(text)
    if most is not None and len(plain) > most:
        plain = plain[:most] + _CUT
    plain = _escaped(plain, "")
    return plain if most is None or len(plain) <= most else plain[: most - len(_CUT)] + _CUT


def visible(text: str) -> str:
    """Return text of several lines in which control characters and the like are escaped, except line feeds."""
    return _escaped(text, "\n")


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode("ascii")
        if letter not in kept and unicodedata.category(letter) in _UNSAFE
        else letter
        for letter in text
    )

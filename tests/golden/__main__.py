"""`python -m tests.golden FOLDER`: feed every golden case of a folder to our functions and say how many pass.

Prints `file: passed/total` for each JSON file, then what failed; a file without an adapter in `tests/golden/adapters`
is listed as such. Exit code 1 if any case fails.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def adapter(topic: str) -> Callable[[dict[str, Any]], None] | None:
    """The function that checks one case of a topic; None where there is no adapter."""
    name = f"tests.golden.adapters.{topic}"
    if not (HERE / "adapters" / f"{topic}.py").exists():
        return None
    check: Callable[[dict[str, Any]], None] = importlib.import_module(name).check
    return check


def cases(path: Path) -> list[dict[str, Any]]:
    """The cases of a file."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def main(folder: Path) -> int:
    """Check a folder; returns the exit code."""
    files = sorted(folder.glob("*.json"))
    if not files:
        print(f"{folder} holds no JSON file")
        return 1
    failures: list[str] = []
    for path in files:
        check = adapter(path.stem)
        if check is None:
            print(f"{path.stem}: no adapter")
            continue
        passed, total = 0, 0
        for case in cases(path):
            total += 1
            try:
                check(case)
                passed += 1
            except Exception as error:  # noqa: BLE001 (a case may fail in any way)
                failures.append(f"{path.stem} / {case['name']}: {type(error).__name__}: {error}")
        print(f"{path.stem}: {passed}/{total}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden FOLDER")
    sys.exit(main(Path(sys.argv[1])))

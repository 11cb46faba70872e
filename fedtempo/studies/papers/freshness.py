"""Whether a result is up to date: the hash of the code and the settings that decided it, then and now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedtempo.parts.text_files import parse_toml
from fedtempo.runs.identity import deciding_files
from fedtempo.studies.papers import reproduction
from fedtempo.studies.papers.used_code import used_code, without_comments

_ROOM = "fedtempo.studies"
_WITHOUT_INFLUENCE = ("compression_figures", "contest_figures", "figures", "pages", "output", "same_work")
"""Modules of this room that only show results, or refuse to compare runs of different work."""


def decided_by(module: str, settings: Iterable[str], strategies: Iterable[str] | None) -> dict[str, Any]:
    """Return hashes of what decides a result, as JSON values.

    module: name of the module that makes it. settings: stems of the files of settings that it reads. strategies:
    modules of the strategies of its runs; None if they are not known, and all count. The hash "code" is of what runs
    are made of, "studies" of what the module uses to choose runs and to make rows of them.
    """
    used = None if strategies is None else sorted(strategies)
    return {
        "module": module,
        "strategies": used,
        "code": _sha256((path, _code(path)) for path in deciding_files(None if used is None else [module, *used])),
        "studies": _sha256(used_code(module, (_ROOM,), _WITHOUT_INFLUENCE)),
        "settings": {stem: _settings_sha256(stem) for stem in sorted(settings)},
    }


def is_stale(result: Mapping[str, Any]) -> bool:
    """Return whether what decided a result has changed since; True if the result does not say what did."""
    before = result.get("decided_by")
    return not isinstance(before, dict) or _today(before) != before


def after_code_change(result: Mapping[str, Any], strategies: Iterable[str] | None) -> dict[str, Any] | None:
    """Return today's hashes of a stale result of which only the code of runs has changed; None for any other result.

    strategies: modules of the strategies of its runs.
    """
    before = result.get("decided_by")
    if not isinstance(before, dict) or not is_stale(result):
        return None
    now = _today({**before, "strategies": strategies})
    changed_only_code = now is not None and all(before.get(name) == now[name] for name in ("studies", "settings"))
    return now if changed_only_code else None


def _today(before: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return today's hashes of what decided a result; None if its module or a file of settings is gone."""
    try:
        return decided_by(before["module"], before["settings"], before.get("strategies"))
    except (OSError, KeyError):
        return None


def _sha256(code: Iterable[tuple[Path, str]]) -> str:
    digest = hashlib.sha256()
    for path, text in code:
        digest.update(f"{path.name}\n{text}".encode())
    return digest.hexdigest()


@cache
def _code(path: Path) -> str:
    return "\n".join(filter(None, without_comments(path.read_text(encoding="utf-8"))))


def _settings_sha256(stem: str) -> str:
    """Return the hash of the values in a file of settings, in which comments and order do not count."""
    tables = parse_toml((reproduction.SETTINGS / f"{stem}.toml").read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()

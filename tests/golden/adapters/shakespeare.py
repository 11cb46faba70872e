"""Golden cases of Shakespeare's plays against `fedtempo.data.play_parser` and `fedtempo.data.shakespeare`."""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import Any

from fedtempo.data.play_parser import Role, speeches
from fedtempo.data.shakespeare import all_roles, characters, plays_folder
from tests.golden.compare import same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    if "markdown" in given:
        same(speeches(given["markdown"]), expected["speeches"])
    elif "minimum" in given:
        same([_with_speeches(_corpus(), least) for least in given["minimum"]], expected["roles"])
    elif "plays" in given:
        same({play: _play(play, expected["per_play"][play]) for play in given["plays"]}, expected["per_play"])
    elif "role" in given:
        _one_role(given, expected)
    elif "package" in given:
        _whole(expected)
    elif "all_sorted_by_code_point" in expected:
        _alphabet(expected)
    else:
        longest = _corpus()[: len(expected["roles"])]
        found = [
            {"play": r.play, "role": r.name, "characters": r.characters, "speeches": len(r.speeches)} for r in longest
        ]
        same(found, expected["roles"])


@lru_cache
def _corpus() -> tuple[Role, ...]:
    return tuple(all_roles())


def _with_speeches(roles: tuple[Role, ...], least: int) -> int:
    return sum(len(role.speeches) >= least for role in roles)


def _lines(roles: tuple[Role, ...]) -> int:
    return sum(len(speech.split("\n")) for role in roles for speech in role.speeches if speech)


def _measured(roles: tuple[Role, ...]) -> dict[str, Any]:
    return {
        "plays": len({role.play for role in roles}),
        "speeches": sum(len(role.speeches) for role in roles),
        "roles": len(roles),
        "roles_with_2_or_more_speeches": _with_speeches(roles, 2),
        "characters": sum(role.characters for role in roles),
        "lines": _lines(roles),
    }


def _whole(expected: dict[str, Any]) -> None:
    roles = _corpus()
    folded = Counter[tuple[str, str]]()
    for role in roles:
        folded[role.play, role.name.casefold()] += len(role.speeches)
    found = {
        **_measured(roles),
        "roles_if_case_is_ignored": len(folded),
        "roles_with_2_or_more_if_case_is_ignored": sum(count >= 2 for count in folded.values()),
        "distinct_characters": len(characters(list(roles))),
    }
    same({key: found[key] for key in expected}, expected)


def _play(play: str, expected: dict[str, Any]) -> dict[str, Any]:
    (path,) = plays_folder().glob(f"*/{play}.md")
    found = _measured(tuple(role for role in _corpus() if role.play == play))
    found["sha256_of_file"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {key: found[key] for key in expected}


def _one_role(given: dict[str, Any], expected: dict[str, Any]) -> None:
    (role,) = [role for role in _corpus() if (role.play, role.name) == (given["play"], given["role"])]
    shown = len(expected["first_speech"])
    if shown < 160:  # longer ones are printed in part
        same(role.speeches[0], expected["first_speech"], "first_speech")
    found = {
        "play": role.play,
        "role": role.name,
        "speeches": len(role.speeches),
        "characters": role.characters,
        "lines": _lines((role,)),
        "first_speech": role.speeches[0][:shown],
        "sha256_of_speeches_joined_by_blank_line": hashlib.sha256("\n\n".join(role.speeches).encode()).hexdigest(),
    }
    same({key: found[key] for key in expected}, expected)


def _alphabet(expected: dict[str, Any]) -> None:
    roles = _corpus()
    counts = Counter(character for role in roles for speech in role.speeches for character in speech)
    same(characters(list(roles)), expected["all_sorted_by_code_point"])
    same(len(counts), expected["distinct"])
    (key,) = [key for key in expected if key.startswith("most_frequent_")]
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: len(expected[key])]
    same([list(item) for item in most], expected[key])

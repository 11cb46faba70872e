"""The page about a long deployment, from the numbers of one; needs no Flower."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

NAMES = {"client": "client", "driver": "server (`fedtempo deploy`)", "superlink": "SuperLink"}


def page(facts: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    failed = sum(not verdict["holds"] for verdict in facts["verdicts"])
    some = f"**{failed} of {len(facts['verdicts'])} demands were not met.**"
    blocks = [
        "# A long deployment",
        "## What was tested?",
        *_setting(facts),
        "<!-- test: skip it needs Flower and takes as long as it says -->\n```bash\nmake .venv-flower/.ready\n"
        f"{facts['command']}\n```",
        "## What came out?",
        some if failed else "All demands were met.",
        _verdicts(facts["verdicts"]),
        _filled(
            "Growth is that of a robust line through the samples of a process's own memory (without files that "
            "processes share). The warm-up is the first five minutes of a life, or half of a shorter life."
        ),
        "## How much does it need?",
        _programs(facts["growth"]),
        "Handles of files, sockets and threads are those at the end of the longest life.",
        "\n".join(_filled(f"- {line}", "  ") for line in _amounts(facts)),
        _filled(
            f"This was one run with seed {facts['settings']['seed']} on {facts['environment']['cpu_count']} CPUs. The "
            f"machine's load was {facts['load'][0]} before it and {facts['load'][1]} at its end. "
            "[long-deployment.json](long-deployment.json) contains all numbers."
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _setting(facts: Mapping[str, Any]) -> list[str]:
    settings, restarts = facts["settings"], facts["restarts"]
    return [
        _filled(
            f"A deployment with {settings['clients']} client processes ran for {settings['minutes']:g} minutes on one "
            "machine, through a SuperLink with TLS and keys, with the commands of [the guide](../deploy.md). In this "
            f"time, {facts['days']} days of {facts['day_s']:.0f} seconds passed. A fifth of the clients "
            f"({facts['steady']}) always stayed. Each of the others was away for a quarter of each day, by a calendar "
            "drawn from a seed: its process ended, and later a new one began."
        ),
        _filled(
            f"So clients were restarted {_times(restarts['client'])}, the server {_times(restarts['driver'])} and the "
            f"SuperLink {_times(restarts['superlink'])}. Of these programs, {facts['killed']} were killed (SIGKILL), "
            "the others stopped (SIGTERM). The server and the SuperLink were restarted in the first third of the time, "
            "so that their last lives were long enough to see growth."
            + (
                f" Besides, the server ended {_times(facts['abandoned'])} with exit code 3, because the SuperLink had "
                "been away for a minute, and was started again, as a service manager does."
                if facts["abandoned"]
                else ""
            )
        ),
        _filled(
            "The strategy was FedBuff, the data were digits, and the network was a perceptron with 64 hidden units. An "
            f"epoch took {settings['slowest_s'] / 4:g} to {settings['slowest_s']:g} seconds (`pace_s`)."
        ),
    ]


def _verdicts(verdicts: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        f"| {each['demanded']} | {each['found']} | {'yes' if each['holds'] else '**no**'} |".replace("_", "\\_")
        for each in verdicts
    ]
    return "\n".join(["| demanded | found | met |", "|---|---|---|", *rows])


def _programs(growth: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        "| program | longest life | memory of its own, MiB | files | sockets | threads |",
        "|---|---|---|---|---|---|",
    ]
    for kind, name in NAMES.items():
        lives = [each for each in growth if _kind(each["program"]) == kind]
        if lives:
            last = max(lives, key=lambda each: float(each["seconds"]))
            own = _range(each["own_kb"] / 1024 for each in lives)
            ends = " | ".join(f"{last[name][1]:g}" for name in ("files", "sockets", "threads"))
            rows.append(f"| {name} | {last['seconds']:.0f} s | {own} | {ends} |")
    return "\n".join(rows)


def _amounts(facts: Mapping[str, Any]) -> list[str]:
    outcomes, logs = facts["run"]["outcomes"], {name: size / 1000 for name, size in facts["log_bytes"].items()}
    database, run = ([size / 1e6 for size in facts[name]] for name in ("database_bytes", "run_bytes"))
    visits = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    return [
        f"**Memory** of all processes, shared pages counted once: {_range(facts['all_memory_mb'])} MiB.",
        f"**Visits**: {visits}; {facts['run']['commits']:,} commits.",
        f"**Logs**: {logs['client']:,.0f} kB of all clients, {logs['driver']:,.0f} kB of the server, "
        f"{logs['superlink']:,.0f} kB of the SuperLink. Clients and server write a line for each visit, the SuperLink "
        "only if a client comes or goes.",
        f"**The SuperLink's database**: {database[0]:.1f} MB at the beginning, {database[1]:.1f} MB at the end.",
        f"**The run folder**, which keeps all visits: {run[1]:.1f} MB just before the end, with the journal.",
        f"**Temporary files**: at most {facts['temporary_files']} at any time.",
    ]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _kind(program: str) -> str:
    return program if program in NAMES else "client"


def _range(values: Iterable[float]) -> str:
    known = [round(value) for value in values]
    low, high = min(known, default=0), max(known, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

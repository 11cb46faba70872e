"""Does a deployment run for long without leaks? Real processes on this machine, restarted all the time.

    python -m benchmarks.long_deployment --minutes 60 --clients 50 --restarts 200 --out FOLDER [--json FILE]

The page is printed, and written beside FILE as Markdown. Exits with 1 if a demand is not met. Needs Linux and Flower:
`make .venv-flower/.ready`, then that environment's python; and 13 GB of memory for 50 clients.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.long_deployment.page import page
from benchmarks.long_deployment.plan import client_names, plan
from benchmarks.long_deployment.programs import Programs
from benchmarks.long_deployment.verdicts import judge
from benchmarks.long_deployment.watching import Watch, load_facts
from fedtempo.record import write_json
from fedtempo.record.folder import environment


@dataclass(frozen=True)
class Settings:
    """Size of a long deployment. slowest_s: epoch of the slowest client. every_s: between two samples, seconds."""

    minutes: float = 60.0
    clients: int = 50
    restarts: int = 200
    seed: int = 1
    slowest_s: float = 32.0
    every_s: float = 5.0

    def tables(self) -> dict[str, Any]:
        """Return the run's configuration."""
        prior_s = 0.6 * self.slowest_s
        return {
            "run": {"seed": self.seed, "horizon": 60 * self.minutes, "evaluate_every": 10.0},
            "data": {"source": "digits", "clients": self.clients, "examples_per_client": 28},
            "model": {"network": "mlp", "hidden": [64]},
            "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
            "fleet": {
                "compute": {"unit": "s/visit", "speed": prior_s},
                "link": "none",
                "estimates": {"kind": "observed", "prior_s": prior_s},
            },
            "strategy": {"name": "fedbuff", "buffer": min(10, max(1, self.clients // 2))},
            "executor": {"kind": "inline"},
            "deploy": {"wait_s": 600.0},
        }


def long_deployment(settings: Settings, out: Path, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Deploy, restart and sample in a new folder; return what was found, as JSON values."""
    out.mkdir(parents=True)
    length_s = 60 * settings.minutes
    planned = plan(length_s, settings.clients, settings.restarts, settings.seed)
    programs = Programs(out.resolve(), settings.tables(), settings.clients, settings.slowest_s, settings.seed)
    before = os.getloadavg()[0]
    with (out / "samples.jsonl").open("w", encoding="utf-8") as file:
        watch = Watch(programs, planned, settings.every_s, say)
        outcome = watch.follow(limit_s=2 * length_s + 600, file=file)
    load = [round(each, 1) for each in (before, os.getloadavg()[0])]
    found = judge(outcome, planned, load_facts(programs.run_folder), client_names(settings.clients))
    command = f"--minutes {settings.minutes:g} --clients {settings.clients} --restarts {settings.restarts}"
    return {
        "command": f".venv-flower/bin/python -m benchmarks.long_deployment {command} --out runs/long --json "
        "docs/results/long-deployment.json",
        "environment": environment(None),
        "load": load,
        "settings": asdict(settings),
        **found,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Settings()
    parser.add_argument("--minutes", type=float, default=default.minutes)
    parser.add_argument("--clients", type=int, default=default.clients)
    parser.add_argument("--restarts", type=int, default=default.restarts)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--slowest", type=float, default=default.slowest_s, help="epoch of the slowest client, seconds")
    parser.add_argument("--out", type=Path, required=True, help="new folder for logs, samples and the run")
    parser.add_argument("--json", type=Path, help="where the numbers are written; the page goes beside it")
    given = parser.parse_args()
    settings = Settings(given.minutes, given.clients, given.restarts, given.seed, given.slowest)
    found = long_deployment(settings, given.out, lambda line: print(line, file=sys.stderr, flush=True))
    if given.json:
        write_json(given.json, found)
        given.json.with_suffix(".md").write_text(page(found), encoding="utf-8")
    print(page(found))
    return 0 if all(verdict["holds"] for verdict in found["verdicts"]) else 1


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit("it reads /proc, which only Linux has")
    sys.exit(main())

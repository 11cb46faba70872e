"""A deployment whose server is killed, stopped and lied to, and whose messages and clients get lost on the way."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

from fedtempo.runs.config import Config, parse
from tests.chaos import driver
from tests.chaos.invariants import violations
from tests.chaos.outcome import Outcome
from tests.chaos.plan import MEANS, Trial
from tests.chaos.post import PostOffice
from tests.chaos.simulations import complain, struck
from tests.chaos.strategies import ThenRollCall
from tests.chaos.strikes import Log
from tests.crash import lives
from tests.deploy.live.loopback import digits_clients

CLIENTS = 4
_MOST_LIVES = 12

COUNTS = {"seconds": 5.0, "fsync": 100.0, "replace": 60.0, "unlink": 40.0, "visit": 20.0}
"""What a life may have of each point."""

SPECIAL: dict[str, dict[str, Any]] = {
    "centralized": {"strategy.options.round_s": 0.5},
    "csgd": {"strategy.options.n_clusters": 1},
    "fch": {"strategy.options.clients_per_round": 3},
    "fedcs": {"strategy.options.deadline_s": 1.0},
    "fedhusky": {"strategy.options.clusters": 2},
    "fedhusky-paper": {"strategy.options.clusters": 2},
    "fedrep": {"model.local": ["*bias"], "strategy.options.head_epochs": 1},
    "hierfavg": {"strategy.options.cloud_s": 0.1},
    "hybrid": {"strategy.options.clusters": 2},
    "hybrid-fl": {"strategy.options.deadline_s": 1.0},
    "psfl": {"strategy.options.width": 2, "strategy.options.length": 2},
    "quafl": {"strategy.options.clients_per_round": 2, "strategy.options.round_s": 0.2},
    "refl": {"strategy.options.clients_per_round": 2, "strategy.options.rest_rounds": 1},
    "safa": {"strategy.options.fraction": 0.5},
}
BASE: dict[str, Any] = {
    "run": {"seed": 1, "max_commits": 10**6, "evaluate": "commit", "checkpoint_every": 0.1},
    "data": {
        "source": "digits",
        "clients": CLIENTS,
        "examples_per_client": 20,
        "tell_labels": True,
        "share_examples": 1.0,
    },
    "model": {"network": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "batch_size": 5},
    "fleet": {
        "compute": {"unit": "s/visit", "speed": 0.05},
        "link": {"kind": "fixed", "download_s": 0.02, "upload_s": 0.02},
        "estimates": {"kind": "observed", "prior_s": [0.02, 0.05, 0.02]},
    },
    "executor": {"kind": "inline"},
    "deploy": {
        "wait_s": 30.0,
        "deadline_factor": 1.0,
        "deadline_floor_s": 0.8,
        "patience_s": 0.1,
        "refresh_s": 0.05,
        "outage_s": 0.4,
    },
}


def config(strategy: str, **changes: Any) -> Config:
    """Return a short deployment of a strategy, which calls the roll at its end."""
    name = f"{ThenRollCall.__module__}:{ThenRollCall.__qualname__}"
    tables = {**BASE, "strategy": {"name": name, "first": strategy, "options": {}}}
    options = {key.rpartition(".")[2]: value for key, value in SPECIAL.get(strategy, {}).items() if "options" in key}
    others = {key: value for key, value in SPECIAL.get(strategy, {}).items() if "options" not in key}
    return parse(tables).with_changes({"strategy.options": options, **others, **changes})


def disturbed(trial: Trial, room: Path, broken: str | None = None, **changes: Any) -> Outcome:
    """Carry out the trial in the folder `room`. broken: see `driver.drive`. changes: of the configuration."""
    outcome = Outcome(trial)
    settings, folder, log = config(trial.strategy, **changes), room / "run", Log(room / "faults")
    keeping = {"state_folder": str(room / "states")} if trial.eager else {}
    more = {"tell_labels": True, "share_examples": True}

    def client(part: int) -> Any:
        own = {name: f"{path}/{part}" for name, path in keeping.items()}
        return lambda: digits_clients(CLIENTS, **more, **own)[part]

    office = PostOffice([client(part) for part in range(CLIENTS)], trial.around(), room / "calm", log)
    codes: list[int | None] = []
    planned = trial.lives()
    try:
        while not outcome.violations and (not codes or codes[-1] != 0):
            if len(codes) == _MOST_LIVES:
                outcome.violations.append(f"the run has not ended in {_MOST_LIVES} lives")
                break
            faults = planned[len(codes)] if len(codes) < len(planned) else []
            ours, theirs = multiprocessing.Pipe()
            with ours:
                serving = office.serve(ours)
                how = (faults, COUNTS, log.path, trial.eager, broken)
                life = lives.live(driver.drive, settings, folder, theirs, *how)
                theirs.close()
                codes.append(struck(life, faults, COUNTS, log))
                serving.join(10)
            complain(outcome, faults, codes[-1], folder, log)
            for name in acknowledged(folder / "journal.jsonl"):
                office.evidence.acknowledged.setdefault(name, len(codes) + 1)
    finally:
        office.close()
    outcome.injected.update(log.lines())
    outcome.resumed = len(codes) - 1
    if not outcome.violations:
        evidence = office.evidence
        evidence.rows = [tuple(json.loads(line)) for line in Log(room / "rows").lines()]
        evidence.calm_s = float((room / "calm").read_text()) if (room / "calm").exists() else None
        outcome.violations += violations(folder, evidence, CLIENTS, trial.strategy in MEANS)
    return outcome


def acknowledged(journal: Path) -> list[str]:
    """Return the names of the calls whose answers a journal holds in whole blocks."""
    if not journal.exists():
        return []
    pending, names, run = [], [], ""
    for line in journal.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # it was being written
        row = json.loads(line)
        if row.get("seal") == "begun":
            run = row["identity"]["clients"]["run"]
        elif row.get("seal") == "came":
            names += [f"{run}:{event[1]}" for event in pending if event[0] == "answer"]
            pending = []
        elif "seal" in row:
            pending = []
        else:
            pending += row.get("came", [])
    return names

"""Each invariant notices an implementation that is broken on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.record import load_run
from fedtempo.record.models import ModelFiles
from fedtempo.runs.run import Run
from tests.chaos import deployments, simulations
from tests.chaos.invariants import differences, done, in_two_visits, violations_by_logs
from tests.chaos.outcome import Outcome
from tests.chaos.plan import Fault, Trial
from tests.crash import lives

SHORT = {"strategy.busy_s": 0.7, "strategy.roll_s": 2.0}
KILLED = (Fault("driver killed", "visit", 0.15, 0.0),)


def deployed(folder: Path, broken: str | None, faults: tuple[Fault, ...] = ()) -> Outcome:
    trial = Trial(0, 0, "deployment", "fedavg", "loopback", False, faults)
    return deployments.disturbed(trial, folder, broken, **SHORT)


def test_an_honest_implementation_violates_nothing(tmp_path: Path) -> None:
    outcome = deployed(tmp_path, None, (*KILLED, Fault("message doubled", "call", 3.0, 0.5)))
    assert outcome.violations == []
    assert outcome.injected == {"driver killed": 1, "message doubled": 1}
    assert outcome.resumed == 1


@pytest.mark.parametrize(
    ("broken", "violation"),
    [
        ("counts an update twice", "is not the mean of the updates"),
        ("leaves an update out", "is not the mean of the updates"),
        ("takes another update", "that its client did not send"),
        ("records a visit twice", "UNIQUE constraint failed: visits.number"),
        ("leaves a client busy", "client 0 was never free again"),
        ("leaves its files", "journal.jsonl is left"),
    ],
)
def test_what_is_broken_is_noticed(broken: str, violation: str, tmp_path: Path) -> None:
    violations = deployed(tmp_path, broken).violations
    assert any(violation in line for line in violations), violations


def test_a_forgotten_update_is_noticed_twice(tmp_path: Path) -> None:
    violations = deployed(tmp_path, "forgets what it has written", KILLED).violations
    assert any("was answered and is asked again" in line for line in violations), violations
    assert any("was done at" in line and "is not in the records" in line for line in violations), violations


def test_a_client_that_trains_again_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answers.answer

    def forgetful(self: Answers, *arguments: Any) -> Any:
        self._last = None
        return answer(self, *arguments)

    monkeypatch.setattr(Answers, "answer", forgetful)
    lost = [Fault("message lost", "call", float(number), 0.0, back=True) for number in (2, 3, 4)]
    violations = deployed(tmp_path, None, (*lost, Fault("SuperLink stopped", "call", 4.0, 0.0))).violations
    assert any("trained 2 times for the call" in line for line in violations), violations


def test_what_real_clients_log_is_compared_with_the_records(tmp_path: Path) -> None:
    assert deployed(tmp_path, None).violations == []
    folder, calm_s = tmp_path / "run", float((tmp_path / "calm").read_text())
    lines: list[list[str]] = [[] for _ in range(deployments.CLIENTS)]
    for visit in done(load_run(folder)):
        lines[visit["client"]].append(f"train {visit['number']} answered in 0.03 s")

    def violations(client: int = 0, more: str = "", fewer: int = 0, calm_s: float = calm_s) -> list[str]:
        logs = []
        for number, written in enumerate(lines):
            logs.append([tmp_path / f"{number}.log"])
            shown = [*written[fewer:], more] if number == client else written
            logs[-1][0].write_text("\n".join(shown))
        return violations_by_logs(folder, logs, calm_s)

    assert violations() == []
    assert violations(1, more=lines[1][0]) == [f"client 1 trained more than once for visit {lines[1][0].split()[1]}"]
    assert violations(2, fewer=1) == [f"visit {lines[2][0].split()[1]} counts, and client 2 did not train for it"]
    assert len(violations(calm_s=1e9)) == deployments.CLIENTS
    (folder / "deployment.json").touch()
    assert violations() == ["deployment.json is left"]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("simulated")
    Run(simulations.config("fedavg", "inline")).complete(folder / "run")
    return folder / "run"


def test_another_bit_after_a_resumption_is_noticed(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = simulations.config("fedavg", "inline")
    for name in ("honest", "broken"):
        lives.interrupted_at(settings, tmp_path / name, 9.0)
    Run(settings).complete(tmp_path / "honest")
    assert differences(tmp_path / "honest", simulated) == []
    read = ModelFiles.read

    def nearly(self: ModelFiles, sha256: str) -> Any:
        vector = read(self, sha256).copy()
        vector[-1] = np.nextafter(vector[-1], np.float32(1.0))  # the last bias
        return vector

    monkeypatch.setattr(ModelFiles, "read", nearly)
    Run(settings).complete(tmp_path / "broken")
    assert "the last model has other bits" in differences(tmp_path / "broken", simulated)


def test_an_unreadable_run_is_noticed(simulated: Path, tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_bytes(b"SQLite format 3")
    assert "cannot be read" in differences(tmp_path, simulated)[0]


def test_a_client_in_two_visits_at_once_is_noticed(simulated: Path) -> None:
    records = load_run(simulated)
    assert in_two_visits(records) == []
    finished = records.visits["finished"] + 5.0
    longer = dataclasses.replace(records, visits={**records.visits, "finished": finished})
    assert any("at once" in line for line in in_two_visits(longer))
    earlier = dataclasses.replace(records, visits={**records.visits, "received": records.visits["finished"] + 1.0})
    assert any("in no order" in line for line in in_two_visits(earlier))

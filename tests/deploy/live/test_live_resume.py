"""Resuming a deployment whose server was killed: same instants, same clients, no repeated calls."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.live import joining
from fedtempo.deploy.live.event_log import ReceivedModelFiles
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.remembering import remembered
from fedtempo.deploy.run import deploy_to_folder, resume_deployment
from fedtempo.errors import ConfigError, RunError, UserCodeError
from fedtempo.federation import Federation
from fedtempo.record import Recorder, RunFolder, load_run
from fedtempo.runs.config import Config
from fedtempo.runs.run import Run, configuration, run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients, wait_until


class Killed(Exception):
    """Stop the run without writing anything, as after SIGKILL."""


def killing(visits: int, rows: list[Any]) -> Callable[[Path], Recorder]:
    """A recorder that kills the run at its n-th visit; rows recorded by then are in `rows`."""

    class Killing(Recorder):
        def visit(self, row: Any) -> None:
            super().visit(row)
            if len(rows) < visits:
                rows.append(row)
                if len(rows) == visits:
                    raise Killed

    return Killing


def killed(settings: Config, folder: Path, grid: Loopback, visits: int) -> list[Any]:
    """Deploy, and kill the run at its n-th visit; return the rows of its visits."""
    rows: list[Any] = []
    with pytest.raises(UserCodeError, match=": Killed "):
        deploy_to_folder(settings, folder, grid, recorder=killing(visits, rows))
    return rows


def resumed(settings: Config, folder: Path, grid: Loopback, **options: Any) -> dict[str, Any]:
    with RunFolder.resume(folder) as claimed:
        return resume_deployment(settings, claimed, grid, **options)


def recorded(folder: Path) -> list[tuple[Any, ...]]:
    """Return the visits of a run's records as rows."""
    visits = load_run(folder).visits
    return sorted(zip(*(visits[name].tolist() for name in ("number", "client", "base_version", "started", "finished"))))


def uneven(call: Call, reply: Reply) -> Reply:
    """Make the clients' speeds differ."""
    if call.kind in ("train", "compute"):
        time.sleep(0.02 * (1 + call.node % 3))
    return reply


STRATEGIES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "sequential": {"run__max_commits": 8},
    "csgd": {},
    "fedasync": {"run__max_commits": 9},
    "fedhusky": {"strategy__clusters": 2, "data__tell_labels": True},
    "quafl": {"strategy__clients_per_round": 2, "strategy__round_s": 0.2, "run__max_commits": 9},
    "safa": {"strategy__fraction": 0.5},
    "refl": {"strategy__clients_per_round": 2, "strategy__rest_rounds": 1},
}


@pytest.mark.parametrize("checkpoint_s", [0.001, 30.0])
@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_a_killed_run_is_replayed_and_continues(
    strategy: str, checkpoint_s: float, tmp_path: Path, grid: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"run__max_commits": 4, **STRATEGIES[strategy]}
    settings = config(strategy__name=strategy, run__checkpoint_every=checkpoint_s, **changes)
    grid.change = uneven
    trained: Counter[tuple[int, int]] = Counter()
    train = Answers._train

    def counted(answers: Answers, content: Any, *arrays: Any) -> Any:
        trained[content["client"], content["visit"]] += 1
        return train(answers, content, *arrays)

    monkeypatch.setattr(Answers, "_train", counted)
    before = killed(settings, tmp_path / "run", grid, 5)
    assert not (tmp_path / "run" / "summary.json").exists()
    summary = resumed(settings, tmp_path / "run", grid)
    after = recorded(tmp_path / "run")
    assert {(row.number, row.client, row.base_version, row.started, row.finished) for row in before} <= set(after)
    assert summary["visits"] > len(before)
    assert summary["ended"] == "budget"
    assert set(trained.values()) == {1}, "no client trains twice for one visit"
    assert not (tmp_path / "run" / "journal.jsonl").exists()
    assert len(list((tmp_path / "run" / "models").iterdir())) == 1
    assert load_run(tmp_path / "run").facts["resumed"] == 1


def test_a_resumed_run_does_not_wait_for_clients_that_were_away(tmp_path: Path, grid: Loopback) -> None:
    """A client that had left before the run was killed may stay away for hours."""
    settings = config(strategy__name="fedasync", run__max_commits=9, deploy__wait_s=60.0)

    def leave(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and call.node == 101 and call.content["visit"] == 2:
            grid.online.discard(102)
        time.sleep(0.1)
        return reply

    grid.change = leave
    killed(settings, tmp_path / "run", grid, 8)
    assert 102 not in grid.online
    said: list[str] = []
    began = time.monotonic()
    assert resumed(settings, tmp_path / "run", grid, say=said.append)["ended"] == "budget"
    assert time.monotonic() - began < 20
    assert "2 clients are online, of 2 when the run was interrupted" in said


def test_a_resumed_run_waits_for_clients_only_while_they_come(grid: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "SETTLED_S", 0.3)
    said: list[str] = []
    grid.online = {100}
    threading.Timer(0.2, lambda: grid.online.add(101)).start()
    began = time.monotonic()
    joining.wait_for_nodes(grid, 3, 60.0, said.append)
    assert 0.4 < time.monotonic() - began < 10
    assert said == ["2 clients are online, of 3 when the run was interrupted"]


def test_a_finished_deployment_cannot_be_continued(tmp_path: Path, grid: Loopback) -> None:
    deploy_to_folder(config(), tmp_path / "run", grid)
    with pytest.raises(ConfigError, match="cannot be continued: it ran on real clients, which have signed off"):
        Run(configuration(tmp_path / "run", ["run.max_commits=9"])).complete(tmp_path / "run")
    with pytest.raises(ConfigError, match="cannot be continued after its end; remove 'state'"):
        deploy_to_folder(config(run__keep=["state"]), tmp_path / "other", grid)
    with pytest.raises(ConfigError, match="keep their layers in their state_folder; remove 'clients'"):
        deploy_to_folder(config(run__keep=["last", "clients"]), tmp_path / "other", grid)


def test_noise_and_drift_are_for_simulations_only(tmp_path: Path, grid: Loopback) -> None:
    noisy = config(data__partition={"kind": "iid", "label_noise": {"rate": 0.1}})
    with pytest.raises(ConfigError, match=r"data.partition.label_noise: real clients hold their own examples, as they"):
        deploy_to_folder(noisy, tmp_path / "run", grid)


def test_a_failed_run_releases_its_folder_after_its_last_checkpoint(
    tmp_path: Path, grid: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = [], []
    keep = ReceivedModelFiles.keep

    def slow(files: ReceivedModelFiles, hashes: Any) -> None:
        began.append(time.monotonic())
        time.sleep(1.0)
        keep(files, hashes)
        ended.append(time.monotonic())

    monkeypatch.setattr(ReceivedModelFiles, "keep", slow)
    killed(config(run__checkpoint_every=0.001), tmp_path / "run", grid, 4)
    assert len(began) == len(ended) > 0


def test_a_run_killed_repeatedly_has_the_bits_of_the_simulation(tmp_path: Path, grid: Loopback) -> None:
    settings = config(run__checkpoint_every=0.05)
    grid.change = uneven
    killed(settings, tmp_path / "run", grid, 2)
    for visits in (4, 5, 8):
        rows: list[Any] = []
        with pytest.raises(UserCodeError, match=": Killed "):
            resumed(settings, tmp_path / "run", grid, recorder=killing(visits, rows))
    summary = resumed(settings, tmp_path / "run", grid)
    simulated, records, _ = run(settings)
    assert summary["model_sha256"] == simulated["model_sha256"]
    assert load_run(tmp_path / "run").evaluations["accuracy"].tolist() == records.evaluations["accuracy"].tolist()
    assert load_run(tmp_path / "run").facts["resumed"] == 4


def test_replies_that_arrived_while_the_server_was_away_are_fetched(tmp_path: Path, grid: Loopback) -> None:
    hold = threading.Event()

    def held(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and call.content["visit"] == 2 and call.node != 100:
            hold.wait(5)
        return reply

    grid.change = held
    killed(config(), tmp_path / "run", grid, 4)
    hold.set()
    wait_until(lambda: len(grid.replies) == 2)
    calls = len(grid.calls)
    assert resumed(config(), tmp_path / "run", grid)["visits"] == 9
    assert len([call for call in grid.calls[calls:] if call.kind == "train"]) == 3


def test_if_the_grid_lost_its_messages_clients_answer_from_memory(
    tmp_path: Path, grid: Loopback, clients: list[Answers], caplog: pytest.LogCaptureFixture
) -> None:
    killed(config(), tmp_path / "run", grid, 4)
    grid.close()
    other = Loopback(clients)
    try:
        with caplog.at_level(logging.INFO, "fedtempo.client"):
            summary = resumed(config(), tmp_path / "run", other)
    finally:
        other.close()
    assert summary["model_sha256"] == run(config())[0]["model_sha256"]
    again = sum("answered again" in message for message in caplog.messages)
    assert len([call for call in other.calls if call.kind == "train"]) == again + 3
    assert again <= 2


def test_a_late_visit_is_late_again_and_its_client_busy(tmp_path: Path, grid: Loopback) -> None:
    def slow(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and call.node == 100:
            time.sleep(3.0)
        return reply

    grid.change = slow
    settings = config(deploy__deadline_floor_s=1.5, deploy__patience_s=1.0, run__max_commits=2)
    before = killed(settings, tmp_path / "run", grid, 3)
    assert sorted(row.outcome for row in before) == ["done", "done", "late"]
    resumed(settings, tmp_path / "run", grid)
    assert load_run(tmp_path / "run").visits["outcome"].tolist()[:3] == ["late", "done", "done"]


def test_time_while_the_server_was_away_does_not_count(tmp_path: Path, grid: Loopback) -> None:
    settings = config(run__horizon=2.5, run__max_commits=None)
    grid.change = uneven
    killed(settings, tmp_path / "run", grid, 2)
    time.sleep(2.6)
    summary = resumed(settings, tmp_path / "run", grid)
    assert summary["ended"] == "horizon"
    assert summary["visits"] > 4


def test_preparation_and_uploads_are_replayed(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(2, share_examples=True))

    async def script(fed: Federation) -> None:
        with fed.preparation():
            examples = [await fed.upload_examples(client, [1] * 10) for client in fed.clients]
            await fed.train_all(fed.clients, fed.model)
        model = await fed.train_on_server(fed.model, examples)
        for _ in range(2):
            updates = await fed.train_all(fed.clients, model)
            model = fed.commit(await fed.average(updates))

    settings = config(script, data__clients=2, run__max_commits=2)
    try:
        before = killed(settings, tmp_path / "run", grid, 7)
        calls = len(grid.calls)
        resumed(settings, tmp_path / "run", grid)
    finally:
        grid.close()
    assert {(row.number, row.client, row.base_version, row.started, row.finished) for row in before} <= set(
        recorded(tmp_path / "run")
    )
    assert {call.kind for call in grid.calls[calls:]} <= {"train"}


def test_an_interrupted_run_can_be_resumed(tmp_path: Path, grid: Loopback) -> None:
    async def script(fed: Federation) -> None:
        for _ in range(3):
            fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model)))
            if fed.model.version == 1 and stop:
                stop.pop()
                raise KeyboardInterrupt

    stop = [True]
    assert deploy_to_folder(config(script), tmp_path / "run", grid)["ended"] == "interrupted"
    summary = resumed(config(script), tmp_path / "run", grid)
    assert summary["model_sha256"] == run(config())[0]["model_sha256"]


def test_a_deployment_remembers_its_options_and_rejects_changed_settings(tmp_path: Path, grid: Loopback) -> None:
    killing_it = killing(2, [])
    with pytest.raises(UserCodeError, match=": Killed "):
        deploy_to_folder(config(), tmp_path / "run", grid, remember={"local": None}, recorder=killing_it)
    assert remembered(tmp_path / "run") == {"local": None}
    assert (tmp_path / "run" / "deployment.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match=r"training\.lr was 0\.1 and is 0\.2"):
        resumed(config(training__lr=0.2), tmp_path / "run", grid)
    with pytest.raises(ConfigError, match=r"deploy\.patience_s was 0\.2 and is 3"):
        resumed(config(deploy__patience_s=3.0), tmp_path / "run", grid)
    resumed(config(deploy__refresh_s=0.1), tmp_path / "run", grid)
    assert remembered(tmp_path / "run") is None


def test_without_a_journal_no_journal_files_are_written(tmp_path: Path, grid: Loopback) -> None:
    summary = deploy_to_folder(config(run__checkpoint_every=0), tmp_path / "run", grid)
    assert summary["model_sha256"] == run(config())[0]["model_sha256"]
    assert len(list((tmp_path / "run" / "models").iterdir())) == 1


def test_a_journal_with_missing_models_is_rejected(tmp_path: Path, grid: Loopback) -> None:
    killed(config(), tmp_path / "run", grid, 2)
    for model in (tmp_path / "run" / "models").iterdir():
        model.unlink()
    with pytest.raises(RunError, match="could not be read"):
        resumed(config(), tmp_path / "run", grid)

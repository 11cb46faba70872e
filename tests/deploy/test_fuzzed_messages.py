"""Clients that send anything but what they should, at a real SuperLink: the run ends with the others' result."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedtempo.deploy.flower.grid import joined
from fedtempo.deploy.flower.superlink import started
from fedtempo.deploy.live.transport import Transport
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import ClientUnavailable, Federation, Work
from fedtempo.record import load_run
from fedtempo.runs.run import run
from tests.deploy.live.deployments import real as config
from tests.deploy.processes import client

pytestmark = pytest.mark.deploy

ENDS = "from tests.deploy import fuzzing_client; fuzzing_client.begin({seed}, {counter!r}, {honest}, {poll_s})"


async def rounds(fed: Federation) -> None:
    """Train the honest client, which is the first, in rounds."""
    for _ in range(3):
        fed.commit(await fed.average(await fed.train_all(fed.clients[:1], fed.model)))


@pytest.mark.parametrize(
    ("messages", "liars", "poll_s"), [(100, 3, 0.05), pytest.param(10_000, 8, 0.3, marks=pytest.mark.slow)]
)
def test_clients_that_send_anything_do_not_touch_a_run(
    messages: int,
    liars: int,
    poll_s: float,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(Transport.__init__.__kwdefaults__, "poll_s", poll_s)
    counters = [tmp_path / f"{i}.count" for i in range(liars + 1)]
    waiting: list[str] = []

    def sent() -> int:
        return sum(int(path.read_text() or 0) for path in counters if path.exists())

    async def visits(fed: Federation, number: int) -> None:
        honest = 0
        while sent() < messages:
            honest += 1
            liar = fed.clients[number]
            try:
                match honest % 5:
                    case 0:
                        await fed.train(liar, fed.model)
                    case 1:
                        await fed.train(liar, fed.model, Work(statistics=frozenset({"squared_loss"})))
                    case 2:
                        with await fed.download(liar, fed.model) as visit:
                            await fed.compute(visit)
                            await fed.upload(visit)
                    case 3:
                        await fed.upload_examples(liar, [2] * 10)
                    case 4:
                        await fed.train(liar, fed.model, Work(procedure="evaluate"))
            except ClientUnavailable:
                await fed.sleep_until(fed.now + 0.01)

    async def script(fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(rounds(fed))
            for number in range(1, 1 + liars):
                tasks.create_task(visits(fed, number))
        fed.commit(fed.model)

    names = ["a", *(f"liar{i}" for i in range(liars))]
    settings = config(
        script,
        run__max_commits=4,
        data__clients=1 + liars,
        deploy__names=names,
        deploy__refresh_s=0.1,
        deploy__patience_s=0.1,
        deploy__deadline_floor_s=20.0,
        deploy__outage_s=5.0,
    )
    with contextlib.ExitStack() as stack:
        superlink = stack.enter_context(started(tmp_path))
        options = {"insecure": True, "share_examples": True}
        honest = stack.enter_context(client(tmp_path, "a", superlink.address, **options))
        for i, counter in enumerate(counters):
            name = f"liar{i}" if i < liars else "stranger"
            before = f"import time; {ENDS.format(seed=i, counter=str(counter), honest=int(i < liars), poll_s=poll_s)}"
            stack.enter_context(client(tmp_path, name, superlink.address, before=before, part=i % 3, **options))
        grid = stack.enter_context(joined(superlink, outage_s=60))
        deploy_to_folder(settings, tmp_path / "run", grid, say=waiting.append)
        assert honest.process.poll() is None
    assert sent() >= messages
    lines = [*waiting, *(record.getMessage() for record in caplog.records if record.name.startswith("fedtempo"))]
    assert all(line.isprintable() for line in lines)
    records = load_run(tmp_path / "run")
    assert (records.visits["outcome"][records.visits["client"] == 0] == "done").all()
    one = config(rounds, run__max_commits=3, data__clients=3)
    simulated, _, _ = run(one)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["model_sha256"] == simulated["model_sha256"]

"""A deployment can be watched like a simulation: while it waits, while it runs, and afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import Federation
from fedtempo.report.watch.following import Followed, Seen
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients


def test_a_deployment_is_followed(tmp_path: Path) -> None:
    followed = Followed([tmp_path])
    seen: list[dict[str, Any]] = []

    def busy() -> dict[str, Any]:
        """Return the row once the held client is shown as busy."""
        until = time.monotonic() + 60
        while True:
            answer = followed.answer({0: Seen()})
            row = answer["runs"][0]
            if row["state"] == "running" and row["busy"] == 1:
                return answer
            assert time.monotonic() < until, row
            time.sleep(0.05)

    async def script(fed: Federation) -> None:
        updates = await fed.train_all(fed.clients, fed.model)
        fed.commit(await fed.average(updates))
        with await fed.download(fed.clients[1], fed.model):
            seen.append(busy())
        updates = await fed.train_all(fed.clients, fed.model)
        fed.commit(await fed.average(updates))

    grid = Loopback(digits_clients(3))
    deploy_to_folder(config(script, run__max_commits=2), tmp_path / "run", grid)
    grid.close()
    during = seen[0]["details"]["0"]
    assert seen[0]["runs"][0]["deployment"]
    assert [visit[0] for visit in during["in_progress"]] == [1]
    after = followed.answer({0: Seen()})
    row, detail = after["runs"][0], after["details"]["0"]
    assert (row["state"], row["visits"], row["commits"], row["busy"]) == ("finished", 6, 2, None)
    assert row["accuracy"] is not None
    assert detail["in_progress"] == []
    assert len(detail["visits"]) == 7

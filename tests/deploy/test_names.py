"""Names and keys at a real SuperLink: nobody takes part under the name of another key."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedtempo.deploy.flower.grid import joined
from fedtempo.deploy.flower.keys import make_keys, register
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from tests.deploy.live.deployments import real as config
from tests.deploy.processes import secured

pytestmark = pytest.mark.deploy


def test_a_registered_key_does_not_take_part_under_another_name(tmp_path: Path) -> None:
    said: list[str] = []
    reason = "client alice: its key was registered for mallory"
    with (
        secured(tmp_path, ["alice", "mallory"]) as secured_superlink,
        secured_superlink.client("alice", key="mallory") as impostor,
    ):
        taken = impostor.says(r"connected to \S+ as node \d+").rpartition(" ")[2]
        with secured_superlink.client("alice") as alice, joined(secured_superlink.superlink, outage_s=60) as grid:
            node = alice.says(r"connected to \S+ as node \d+").rpartition(" ")[2]
            settings = config(data__clients=1, deploy__names=["alice"])
            deploy_to_folder(settings, tmp_path / "run", grid, say=said.append)
            impostor.says(f"the server rejects this client: {reason}")
            assert alice.text.count("INFO train ") == 3
            assert "INFO train " not in impostor.text
        assert [client for client in said if client.startswith("client")] == ["client alice: 20 examples (1 of 1)"]
        assert node != taken
        assert load_run(tmp_path / "run").visits["outcome"].tolist() == ["done"] * 3

        other = tmp_path / "other"
        make_keys(other, ["127.0.0.1"], ["alice"])
        with pytest.raises(ConfigError, match=f"alice was registered for another key, as node {node}"):
            register(secured_superlink.superlink, other)
        assert register(secured_superlink.superlink, secured_superlink.keys) == []

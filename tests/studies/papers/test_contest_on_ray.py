"""A contest whose races are tasks of a Ray cluster: the same results as with worker processes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fedtempo.errors import ConfigError, RunError
from fedtempo.studies.papers.contest import run_contest
from fedtempo.studies.papers.reproduction import Request
from fedtempo.studies.tuning.ray_pool import prepare_node
from fedtempo.studies.tuning.trials import in_processes, shared_workers

SETTINGS = """
[run]
horizon = 20.0
evaluate_every = 1.0
[data]
source = "digits"
clients = 5
examples_per_client = 10
[model]
network = "logistic"
[training]
batch_size = 5
[fleet]
preset = "fedhusky"
[strategy]
name = "fedavg"
[entrants.fedavg]
points = [{ strategy.clients_per_round = 3 }]
[entrants.fedbuff]
points = [{}]
[cells.one]
[scale]
[study]
small = { seeds = [1, 2], tuning_seeds = [101], lr = [0.1, 0.3] }
"""


def broken(number: int) -> int:
    if number == 2:
        raise ConfigError("number 2 is wrong")
    return -number


@pytest.mark.ray
def test_races_on_a_cluster_have_the_same_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.studies.papers.reproduction.SETTINGS", tmp_path)
    monkeypatch.setattr("fedtempo.studies.papers.contest.cache_file", lambda name: None)
    (tmp_path / "contest.toml").write_text(SETTINGS)

    def results(folder: str) -> Any:
        (tmp_path / folder).mkdir()
        run_contest(Request("small", tmp_path / folder), "contest")
        text = (tmp_path / folder / "contest.json").read_text()
        return json.loads(re.sub(r'"cpu_s": [\d.]+', '"cpu_s": 0', text))

    with shared_workers(2, "local"):
        on_cluster = results("ray")
        with pytest.raises(ConfigError, match="number 2 is wrong"):
            in_processes(broken, [1, 2, 3])
    assert on_cluster == results("here")
    assert len(on_cluster["cells"][0]["tried"]["fedbuff"]["runs"]) == 2


def test_a_node_with_other_versions_is_rejected() -> None:
    with pytest.raises(RunError, match=r"a node of the cluster has torch 2\.\S*: results would depend on the node"):
        prepare_node({"torch": "1.0"}, [])


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedtempo\[ray\]'"), shared_workers(2, "local"):
        pass

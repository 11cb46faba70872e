"""Values assigned to clients by name, and the natural order of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo import Experiment
from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import Constant, Listed, Named, distribution
from fedtempo.fleet.faults import Faults
from fedtempo.parts.natural_order import listed, natural
from fedtempo.runs.config import Config, parse
from fedtempo.runs.world import build_world
from fedtempo.studies.fleet import as_drawn, describe_fleet
from fedtempo.studies.plan_explained import clients_in_order
from tests.cli.test_commands import fedtempo

SITES = [f"site{number}" for number in range(1, 13)]


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    rows = [f"site{1 + i % 12},{i},{i // 12 % 2}" for i in range(240)]
    (tmp_path / "sites.csv").write_text("client,a,label\n" + "\n".join(rows) + "\n")
    return tmp_path / "sites.csv"


def config(sites: Path, **fleet: Any) -> Config:
    return parse(
        {
            "run": {"horizon": 20.0},
            "data": {"source": f"table:{sites}", "options": {"client": "client"}},
            "model": {"network": "logistic"},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact", **fleet},
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "none"},
        }
    )


def visit(speed: Any) -> dict[str, Any]:
    return {"unit": "s/visit", "speed": speed}


BACKWARDS = {name: float(number) for number, name in reversed(list(enumerate(SITES, start=1)))}


def test_lists_follow_the_natural_order_and_tables_the_names(sites: Path) -> None:
    by_list, by_name = (build_world(config(sites, compute=visit(s))) for s in ([*range(1, 13)], BACKWARDS))
    assert [client.name for client in by_list.clients] == SITES
    assert by_list.fleet.speed.values.tolist() == by_name.fleet.speed.values.tolist() == list(range(1, 13))


def test_every_per_client_list_can_be_given_by_name(sites: Path) -> None:
    (sites.parent / "trace.csv").write_text(
        "client,begin_s,end_s\n" + "".join(f"{s},{i},20\n" for i, s in enumerate(SITES))
    )
    configured = config(
        sites,
        compute={**visit(1.0), "watts": BACKWARDS},
        link={"kind": "rates", "download_bps": BACKWARDS, "upload_bps": 1e6, "watts": BACKWARDS},
        availability={"kind": "windows", "windows": {name: [[0.0, BACKWARDS[name]]] for name in reversed(SITES)}},
        faults={"nan": 0.5, "clients": ["site10", "site2", 0]},
    )
    fleet = build_world(configured).fleet
    assert fleet.links.download_bps is not None
    for values in (fleet.compute_watts, fleet.link_watts, fleet.links.download_bps):
        assert values is not None
        assert values.tolist() == list(range(1, 13))
    assert [fleet.availability.available_until(client, 0.0) for client in range(12)] == list(range(1, 13))
    assert fleet.faults.clients == (9, 1, 0)
    trace = {"kind": "trace", "file": str(sites.parent / "trace.csv")}
    recorded = build_world(config(sites, availability=trace)).fleet.availability
    assert [recorded.next_available(client, 0.0) for client in range(12)] == list(range(12))
    assert parse(configured.tables).tables == configured.tables
    drawn = as_drawn(configured)
    assert drawn["compute"]["watts"] == list(range(1, 13))


@pytest.mark.parametrize(
    ("fleet", "says"),
    [
        ({"compute": visit({**BACKWARDS, "site13": 1.0})}, r"compute.speed: no client .* 'site13'; did you mean 'site"),
        ({"compute": visit({"site1": 1.0, "site4": 2.0})}, r"compute.speed: no value for 'site2', 'site3', 'site5'"),
        ({"compute": {**visit(1.0), "watts": {"coast": 1.0}}}, r"compute.watts: .* 'coast' \(clients are site1"),
        ({"link": {"kind": "fixed", "download_s": 0.0, "upload_s": {"a": 1.0}}}, r"link.upload_s: no client .* 'a'"),
        ({"availability": {"kind": "windows", "windows": {"a": [[0, 1]]}}}, r"availability: no client is called 'a'"),
        ({"faults": {"nan": 0.1, "clients": ["site0"]}}, r"faults: no client is called 'site0'"),
    ],
)
def test_names_must_match_the_clients(sites: Path, fleet: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^fleet\.{says}"):
        build_world(config(sites, **fleet))


def test_a_number_that_is_also_the_name_of_another_client_is_asked_for() -> None:
    names = ["1", "2", "5"]
    with pytest.raises(ConfigError, match="clients: 1 is the name of one client and the number of '2'; give the names"):
        Faults(nan=0.5, clients=(1,)).for_clients(names)
    assert Faults(nan=0.5, clients=("1", 0)).for_clients(names).clients == (0, 0)


def test_clients_without_names_are_named_by_number() -> None:
    experiment = Experiment(
        data={"source": "digits", "clients": 3},
        fleet={"compute": visit({"2": 3.0, "0": 1.0, "1": 2.0}), "link": "none", "estimates": "exact"},
        strategy="fedavg",
        run={"horizon": 1.0},
        compare={"slow": {"strategy.name": "fedavg", "fleet.compute.speed": {"0": 9.0, "1": 9.0, "2": 9.0}}},
    )
    assert build_world(experiment.config).fleet.speed.values.tolist() == [1.0, 2.0, 3.0]
    slow = experiment.config.for_comparison("slow")
    assert build_world(slow).fleet.speed.values.tolist() == [9.0, 9.0, 9.0]
    assert Named({"1": 2.0, "0": 4.0}).draw(np.random.default_rng(0), 2).tolist() == [4.0, 2.0]
    assert Named({"1": 2.0, "0": 4.0}).expectation == 3.0


def test_named_distributions_are_written_as_tables() -> None:
    assert distribution({"site1": 1, "b.c": 2.5}) == Named({"site1": 1.0, "b.c": 2.5})
    assert distribution({"kind": "named", "values": {"low": 1.0}}) == Named({"low": 1.0})
    with pytest.raises(ValueError, match="kind = None"):
        distribution({"low": 1.0, "high": 2.0})
    with pytest.raises(ValueError, match="kind = None"):
        distribution({"site1": "fast"})
    assert distribution({"kind": "list", "values": [1.0]}) == Listed((1.0,))
    assert distribution(2.0) == Constant(2.0)


def test_the_natural_order_is_shown_with_the_fleet(sites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured = config(sites, compute=visit([*range(1, 13)]))
    assert [(row["name"], row["compute_s"]) for row in describe_fleet(configured)] == [
        *zip(SITES, map(float, range(1, 13)))
    ]
    line = clients_in_order(build_world(configured))
    assert line is not None
    assert line.startswith("clients in order, s/visit: site1 1, site2 2, site3 3,")
    path = sites.parent / "sites.toml"
    path.write_text(configured.dump())
    assert fedtempo("plan", path) == 0
    assert line in capsys.readouterr().out


@given(st.lists(st.integers(0, 10**30), min_size=2, unique=True), st.sampled_from(["", "site", "a-"]))
def test_natural_order_sorts_numbers_by_value(numbers: list[int], before: str) -> None:
    names = [f"{before}{number}" for number in numbers]
    assert sorted(names, key=natural) == [f"{before}{number}" for number in sorted(numbers)]


def test_natural_order_is_a_total_order() -> None:
    names = ["10", "9", "a", "a1", "a1b2", "a1b10", "a01", "ab", "", "a²", "B2", "1.5"]
    assert len({natural(name) for name in names}) == len(names)
    assert sorted(names, key=natural) == ["", "1.5", "9", "10", "B2", "a", "a01", "a1", "a1b2", "a1b10", "ab", "a²"]
    assert natural("7" * 100_000) < natural("8" * 100_000)
    assert listed(range(7)) == "0, 1, 2, 3, 4, ... (7)"

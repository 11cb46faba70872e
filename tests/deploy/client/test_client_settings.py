"""A client's TOML: errors of one line, and the same part of a shared source as in a simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import load_client, parse_client
from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.world import build_world

GOOD: dict[str, Any] = {"name": "c1", "insecure": True, "data": {"source": "digits"}}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "a b"}, "client.name"),
        ({"nmae": "x"}, "client.nmae: unknown key; did you mean 'name'"),
        ({"insecure": False}, "root_certificates"),
        ({"root_certificates": "ca.crt"}, "root_certificates"),
        ({"data": {"source": "digits", "part": 0}}, "part, clients"),
        ({"data": {"source": "digits", "part": 3, "clients": 3}}, "numbered from 0"),
        ({"data": "digits"}, r"write \[data\]"),
        ({"limits": {"visit_s": 0.0}}, "limits.visit_s"),
        ({"limits": {"cpus": 1}}, "limits.cpus"),
    ],
)
def test_invalid_settings_are_named(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_client({**GOOD, **changes})


def test_a_file_is_read_with_paths_relative_to_it(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text('name = "c"\nroot_certificates = "ca.crt"\nprivate_key = "/k"\n[data]\nsource = "digits"\n')
    settings = load_client(path)
    assert settings.root_certificates == str(tmp_path / "ca.crt")
    assert settings.private_key == "/k"
    with pytest.raises(ConfigError, match="cannot be read"):
        load_client(tmp_path / "none.toml")
    path.write_text("name = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_client(path)


def test_a_client_reads_a_whole_source_or_the_part_that_a_simulation_deals() -> None:
    whole_source = parse_client(GOOD).data.read()
    assert (len(whole_source.x), whole_source.n_outputs, whole_source.task) == (len(whole_source.y), 10, "classes")
    partition = {"kind": "dirichlet", "alpha": 0.5}
    shared = {"source": "digits", "clients": 6, "examples_per_client": 40, "partition": partition}
    tables = {"run": {"seed": 3, "horizon": 1.0}, "strategy": {"name": "fedavg"}, "data": shared}
    fleet = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
    world = build_world(parse({**tables, "fleet": fleet}))
    for part in (0, 5):
        dealt = parse_client({**GOOD, "data": {**shared, "part": part, "seed": 3}}).data.read()
        assert np.array_equal(dealt.y, world.dataset.train_y[world.owned[part]])


def rows(folder: Path, n: int = 100) -> str:
    (folder / "rows.csv").write_text("x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(n)))
    return "table:rows.csv"


def arrays(folder: Path, **more: Any) -> str:
    np.savez(folder / "arrays.npz", train_x=np.zeros((100, 2)), train_y=np.arange(100) % 2, **more)
    return "npz:arrays.npz"


def arrays_with_a_test_set(folder: Path) -> str:
    return arrays(folder, test_x=np.zeros((20, 2)), test_y=np.arange(20) % 2)


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        (rows, {}, "trains on 100 examples"),
        (arrays, {}, "trains on 100 examples"),
        (arrays, {"test_share": 0.0}, "trains on 100 examples"),
        (arrays_with_a_test_set, {}, "trains on 100 examples (20 more, for testing or validation, are not used)"),
        (rows, {"test_share": 0.2}, "trains on 80 examples (20 more, for testing or validation, are not used)"),
        (lambda _: "digits", {}, "trains on 1,438 examples (359 more, for testing or validation, are not used)"),
    ],
)
def test_a_client_trains_on_all_that_it_has_and_says_what_it_does_not_use(
    source: Callable[[Path], str], options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.toml"
    tables = {**GOOD, "data": {"source": source(tmp_path), "options": options}}
    path.write_text(tomli_w.dumps(tables))
    assert Answers(load_client(path)).about_examples == says


def test_a_part_of_a_shared_table_is_that_of_a_simulation(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text(tomli_w.dumps({**GOOD, "data": {"source": rows(tmp_path), "part": 1, "clients": 2}}))
    assert Answers(load_client(path)).about_examples == "trains on 40 examples"

"""A client's TOML: errors of one line, and the same part of a shared source as in a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

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

"""Options of a data source, from a configuration to the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.world import build_world

TABLES = {
    "run": {"horizon": 10.0},
    "data": {"clients": 2, "options": {"test_share": 0.5}},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
}


def test_options_reach_the_source_and_are_written_back() -> None:
    config = parse(TABLES)
    assert len(build_world(config).dataset.test_y) == pytest.approx(1797 / 2, abs=5)
    assert parse(config.tables).data == config.data
    assert len(build_world(config.with_changes({"data.options.test_share": 0.1})).test) < 200


@pytest.mark.parametrize("name", ["share", "source"])
def test_an_unknown_option_of_a_source_is_named(name: str) -> None:
    config = parse(TABLES).with_changes({"data.options": {name: [0.1]}})
    with pytest.raises(ConfigError, match=rf"data.source = 'digits': .*no option {name!r} \(it has test_share\)"):
        build_world(config)


@pytest.mark.parametrize("kind", ["npz", "table"])
def test_an_error_in_a_file_names_the_file_once(kind: str, tmp_path: Path) -> None:
    file = tmp_path / {"npz": "x.npz", "table": "x.csv"}[kind]
    file.write_text("a,label\n1,2\nb,2\n")
    config = parse({**TABLES, "data": {"source": f"{kind}:{file}"}})
    with pytest.raises(ConfigError) as caught:
        build_world(config)
    assert str(caught.value).startswith(f"data.source = '{kind}:{file}': ")
    assert str(caught.value).count(str(file)) == 1


def test_options_must_be_a_table() -> None:
    with pytest.raises(ConfigError, match=r"data.options = 'test_share'"):
        parse({**TABLES, "data": {"options": "test_share"}})


def test_a_users_function_receives_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data_with_options.py").write_text(
        "import numpy as np\n"
        "def make(sizes):\n"
        "    x, y = np.zeros((sum(sizes), 2)), np.arange(sum(sizes)) % 2\n"
        "    return x, y, x, y\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = parse({**TABLES, "data": {"clients": 2, "source": "data_with_options:make", "options": {"sizes": [3, 4]}}})
    assert len(build_world(config).dataset.train_y) == 7

"""Figures for papers are written in the requested format."""

import pytest

from fedtempo.errors import ConfigError, RunError
from fedtempo.report import figures


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_each_figure_is_written(by_strategy, tmp_path, kind, begins):
    group = {label: by_strategy[label][:2] for label in ("fedhusky", "hybrid")}
    figures.accuracy(group, tmp_path / f"accuracy.{kind}", target=0.8)
    figures.busy(group, tmp_path / f"busy.{kind}")
    figures.busy(group, tmp_path / f"clients.{kind}", by_client=True)
    figures.alive(group, tmp_path / f"alive.{kind}")
    figures.calendars(group, tmp_path / f"calendars.{kind}", clients=[8, 18, 22], end=50.0)
    files = list(tmp_path.iterdir())
    assert len(files) == 5
    assert all(path.read_bytes().startswith(begins) for path in files)


def test_a_figure_shows_its_labels(by_strategy, tmp_path):
    odd = {"a $ b $ <c>": by_strategy["fedhusky"][:1]}
    for draw in (figures.accuracy, figures.busy, figures.alive, figures.calendars):
        draw(odd, tmp_path / "picture.svg")
        text = (tmp_path / "picture.svg").read_text()
        assert "a $ b $ &lt;c&gt;" in text or "a $ b $ " in text


def test_figures_without_content_are_rejected(fakes, by_strategy, tmp_path):
    untrained = fakes.fake_run(tmp_path / "run", "fedavg", 1, horizon=50.0, trained=False)
    with pytest.raises(ConfigError, match="nothing to draw"):
        figures.accuracy({"fedavg": [untrained]}, tmp_path / "a.png")
    with pytest.raises(ConfigError, match="at least one run"):
        figures.calendars({}, tmp_path / "a.png")
    with pytest.raises(RunError, match=r"a\.png could not be written"):
        figures.alive(by_strategy, tmp_path / "missing" / "a.png")

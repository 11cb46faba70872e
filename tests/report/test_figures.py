"""Figures for papers are written in the requested format."""

import re

import pytest

from fedtempo.api.figures import _matplotlib, _plotly
from fedtempo.errors import ConfigError, RunError
from fedtempo.record.metric import CLASSES, Target
from fedtempo.report import figures
from fedtempo.report.look import PAPER, Look, NothingToDraw, length_in, new_figure, write_figure


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


def pdf_width_points(path):
    box = re.search(rb"/MediaBox \[ ?([\d. ]+)\]", path.read_bytes())
    return float(box[1].split()[2])


def test_every_figure_of_the_page_can_be_drawn_for_a_paper(by_strategy, tmp_path):
    group = {label: runs[:2] for label, runs in by_strategy.items()}
    target = Target(CLASSES, 0.8)
    assert list(_matplotlib(group, target, PAPER)) == list(_plotly(group, target))
    for name, draw in _matplotlib(group, target, PAPER).items():
        path = tmp_path / f"{name}.pdf"
        if name.startswith(("clients", "own", "by-class", "confusion")):  # of runs with further measures
            with pytest.raises(NothingToDraw):
                draw(path)
            continue
        draw(path)
        content = path.read_bytes()
        assert pdf_width_points(path) == pytest.approx(3.5 * 72)
        assert b"/FontFile2" in content, name  # TrueType, which is what Type 42 embeds
        assert b"/Type3" not in content
        assert b"/CreationDate" not in content


def test_postscript_has_no_transparency(by_strategy, tmp_path, caplog):
    group = {label: by_strategy[label][:2] for label in ("fedhusky", "hybrid")}
    for draw in (figures.accuracy, figures.staleness, figures.who_takes_part):  # bands, bars and points
        draw(group, tmp_path / "picture.eps")
        assert (tmp_path / "picture.eps").read_bytes().startswith(b"%!PS")
    assert not caplog.records
    red = new_figure(2, 2)
    band = red.add_subplot().fill_between([0, 1], [0, 0], [1, 1], color="red", alpha=0.25)
    write_figure(red, tmp_path / "red.eps")
    assert band.get_facecolor()[0].tolist() == [1.0, 0.75, 0.75, 1.0]


def test_widths_have_units():
    assert length_in("column") == 3.5
    assert length_in("84mm") == pytest.approx(3.307, abs=1e-3)
    assert length_in("8.4cm") == pytest.approx(length_in("84mm"))
    assert length_in("252pt") == pytest.approx(3.487, abs=1e-3)  # LaTeX's points, 72.27 to an inch
    for text in ("84", "84px", "wide", "mm", "0mm", "9999mm"):
        with pytest.raises(ConfigError, match=f"width or height {text}: "):
            length_in(text)


def test_style_sheets_decide_colours_sizes_and_fonts(by_strategy, tmp_path):
    from matplotlib import rcParams

    before = dict(rcParams)
    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text("figure.figsize: 3.3, 2.5\naxes.prop_cycle: cycler('color', ['123456', '654321'])\n")
    group = {label: by_strategy[label][:1] for label in ("fedhusky", "hybrid", "fedavg")}
    figures.accuracy(group, tmp_path / "styled.svg", look=Look(styles=(str(sheet),), paper=True))
    text = (tmp_path / "styled.svg").read_text()
    assert 'width="237.6pt" height="180pt"' in text  # the sheet's inches
    assert text.count("#123456") > text.count("#654321") > 0  # the third strategy has the first colour again,
    assert "stroke-dasharray" in text  # in dashes
    figures.accuracy(group, tmp_path / "wide.svg", look=Look(width=6.6, styles=(str(sheet),), paper=True))
    assert 'width="475.2pt" height="360pt"' in (tmp_path / "wide.svg").read_text()
    assert dict(rcParams) == before
    with pytest.raises(ConfigError, match=r"style 'ggplott': neither a file nor one.*did you mean 'ggplot'"):
        figures.accuracy(group, tmp_path / "a.svg", look=Look(styles=("ggplott",)))


def test_legends_fit_the_width(by_strategy, tmp_path):
    named = {f"a strategy with a long name {i}": by_strategy["fedavg"][:1] for i in range(4)}
    figures.accuracy(named, tmp_path / "narrow.svg", look=PAPER)
    figures.accuracy(named, tmp_path / "wide.svg", look=Look(width=14.0, paper=True))
    heights = [
        [float(y) for y in re.findall(r'<g id="text_\d+">.*?translate\([\d.]+ ([\d.]+)\)', text, re.DOTALL)]
        for text in ((tmp_path / name).read_text() for name in ("narrow.svg", "wide.svg"))
    ]
    rows = [len({round(y) for y in each[-4:]}) for each in heights]
    assert rows == [4, 1]


def test_a_format_that_does_not_exist_gets_the_list(by_strategy, tmp_path):
    with pytest.raises(ConfigError, match=r"a\.xyz: no format of a figure.*pdf"):
        figures.alive(by_strategy, tmp_path / "a.xyz")

"""The page is a single safe file that contains everything it shows."""

import html.parser
import json
import re
import shutil
import subprocess

import pytest
from markupsafe import Markup

from fedtempo.errors import ConfigError, RunError
from fedtempo.record import Recorder, comparison, load_run
from fedtempo.record.recorder import VisitRow
from fedtempo.report.html import write_report
from fedtempo.report.rendering import notebook_html

ATTACK = """</script><script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">"""


class Page(html.parser.HTMLParser):
    """A parsed page: its elements, its text outside scripts and styles, and the data of its figures."""

    VOID = ("meta",)

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.scripts, self.open = [], "", [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.text += data

    @property
    def figures(self):
        kinds = [attrs.get("type") for tag, attrs in self.tags if tag == "script"]
        return [json.loads(text) for kind, text in zip(kinds, self.scripts) if kind == "application/json"]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(path, runs)
    assert path.stat().st_size < 6e6
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_is_complete_and_loads_nothing_else(page):
    assert not page.open
    assert [tag for tag, attrs in page.tags if tag in ("link", "iframe", "img") or "src" in attrs] == []
    assert sum("plotly.js v" in script for script in page.scripts) == 1


def test_the_page_states_the_results(page):
    assert re.search(
        r"fedhusky reaches 80% accuracy after [\d,.]+ s, hybrid after [\d,.]+ s \([\d.]+× as long\)", page.text
    )
    assert "sequential and fedavg do not reach it." in page.text
    for title in (
        "Accuracy over time",
        "Loss over time",
        "Busy ratio of every client",
        "Groups alive over time",
        "Calendars",
        "Staleness",
        "Who takes part",
        "Classes of each client",
        "Clusters and places",
        'name = "hybrid"',
        "cpu_count",
    ):
        assert title in page.text, title
    assert len(page.figures) == 9


def test_every_axis_has_a_title(page):
    for figure in page.figures:
        layout = figure["layout"]
        assert layout["xaxis"]["title"]["text"]
        assert "title" in layout["yaxis"] or "ticktext" in layout["yaxis"]


def test_every_figure_has_an_alternative_text(fakes, tmp_path):
    runs = [fakes.fake_run(tmp_path / name, name, 1, n_clients=20, horizon=100.0) for name in ("fedavg", "hybrid")]
    write_report(tmp_path / "report.html", runs)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    charts = re.findall(r'<div [^>]*class="chart"[^>]*>', text)
    assert len(charts) == len(Page(text).figures) > 5
    labels = [re.search('role="img" aria-label="([^"]+)"', chart) for chart in charts]
    assert all(labels)
    accuracy = next(label[1] for label in labels if label[1].startswith("Accuracy over time."))
    assert re.search(r"At the end: fedavg \d+\.\d%, hybrid \d+\.\d%\.$", accuracy)


def test_names_from_data_and_configuration_are_escaped(fakes, tmp_path):
    fakes.fake_run(
        tmp_path / "run", "fedhusky", 1, n_clients=20, horizon=200.0, label=ATTACK, client_names=[ATTACK] * 20
    )
    other = fakes.fake_run(tmp_path / "other", "hybrid", 1, n_clients=20, horizon=200.0)
    (tmp_path / "run" / "config.toml").write_text(f"# {ATTACK}\n")
    write_report(tmp_path / "report.html", [load_run(tmp_path / "run"), other])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>document" not in text
    assert "<img" not in text
    page = Page(text)
    assert not page.open
    assert sum(tag == "script" for tag, _ in page.tags) == len(page.figures) + 2
    assert page.text.count(ATTACK) >= 4
    # Plotly reads text as HTML, so every name that it shows is escaped once more.
    for figure in page.figures:
        for trace in figure["data"]:
            shown = json.dumps([value for name, value in trace.items() if name != "legendgroup"])
            assert "<script" not in shown
            assert "<img" not in shown
        assert "<img" not in json.dumps(figure["layout"])


def test_the_page_of_runs_without_training_is_about_schedules(fakes, tmp_path):
    runs = [
        fakes.fake_run(tmp_path / name, name, 1, horizon=300.0, trained=False, target=None)
        for name in ("fedhusky", "fedavg")
    ]
    write_report(tmp_path / "report.html", runs)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "fedhusky keeps clients busy the most" in page.text
    assert "Accuracy over time" not in page.text


def test_an_unfinished_run_and_an_empty_one_have_a_page(fakes, tmp_path):
    recorder = Recorder(tmp_path)
    for name, value in {"strategy": "x", "seed": 1, "n_clients": 3}.items():
        recorder.fact(name, value)
    recorder.flush()
    write_report(tmp_path / "empty.html", [load_run(tmp_path)])
    recorder.visit(VisitRow(0, 2, None, 0, 0.0, 0.0, 0.5, 2.0, 2.5, "done", 10, 0.5))
    recorder.evaluation(2.0, 0, 0.25, 1.0)
    recorder.flush()
    write_report(tmp_path / "report.html", [load_run(tmp_path)])
    recorder.close()
    assert "x ends at 25.0% accuracy" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert not Page((tmp_path / "empty.html").read_text(encoding="utf-8")).open


def test_the_page_for_many_clients_and_classes_is_small(fakes, tmp_path):
    run = fakes.fake_run(tmp_path / "run", "fedavg", 1, n_clients=3_000, horizon=200.0)
    facts = dict(run.facts) | {"label_histograms": [[1] * 80] * 3_000}
    object.__setattr__(run, "facts", facts)
    write_report(tmp_path / "report.html", [run])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert sum(len(json.dumps(figure)) for figure in page.figures) < 400_000
    assert any(trace["type"] == "heatmap" for figure in page.figures for trace in figure["data"])


def test_colours_agree_with_the_comparison(by_strategy, tmp_path):
    order = ["hybrid", "fedhusky"]
    compared = comparison({label: [run.summary for run in by_strategy[label]] for label in order})
    write_report(tmp_path / "r.html", [*by_strategy["fedhusky"], *by_strategy["hybrid"]], compared)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    rows = re.findall(r'<td><span><i style="background:(#\w+)"></i>(\w+)</span>', text)
    chips = re.findall(r'<i style="--colour:(#\w+)"></i>(\w+)', text)
    assert [label for _, label in rows] == order
    assert set(rows) == set(chips)


def test_a_report_without_runs_or_without_its_folder_is_an_error(runs, fakes, tmp_path):
    with pytest.raises(ConfigError, match="at least one run"):
        write_report(tmp_path / "r.html", [])
    with pytest.raises(RunError, match=r"r\.html could not be written"):
        write_report(tmp_path / "missing" / "r.html", runs[:1])


def test_notebook_html_escapes_everything_but_markup():
    text = notebook_html("a < b", lines=["&"], text="</pre>", head=["<i>"], rows=[["<td>", Markup("<b>c</b>")]])
    assert "<h4>a &lt; b</h4>" in text
    assert "<li>&amp;</li>" in text
    assert "<pre>&lt;/pre&gt;</pre>" in text
    assert "<th>&lt;i&gt;</th>" in text
    assert "<td>&lt;td&gt;</td>" in text
    assert "<td><b>c</b></td>" in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_a_browser_draws_every_chart_and_runs_no_foreign_script(fakes, tmp_path):
    runs = [
        fakes.fake_run(tmp_path / "a", "fedhusky", 1, n_clients=20, horizon=200.0, label=ATTACK),
        fakes.fake_run(tmp_path / "b", "hybrid", 1, n_clients=20, horizon=200.0),
    ]
    write_report(tmp_path / "report.html", runs)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000", "--dump-dom"]
    answer = subprocess.run(
        [*command, f"file://{tmp_path / 'report.html'}"], capture_output=True, text=True, timeout=120, check=True
    )
    assert answer.stdout.count("js-plotly-plot") >= 9
    assert "<title>taken" not in answer.stdout
    assert "<img" not in answer.stdout

"""Tables for papers: what a cell shows, which cell is best, what cannot be shown, and the text in each format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.studies.tables.pivot import PaperTable, pivot
from fedtempo.studies.tables.runs import TableRun
from fedtempo.studies.tables.typesetting import typeset


def run(
    strategy: str,
    seed: int,
    time_s: float | None = 10.0,
    accuracy: float = 0.5,
    *,
    moved: int = 1_500_000,
    point: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    **summary: Any,
) -> TableRun:
    """Return a run whose summary has only what tables use by default, and more."""
    point = dict(point or {})
    tables: dict[str, Any] = {"run": {"seed": seed}, "strategy": {"name": strategy}, **(config or {})}
    facts = {
        "seed": seed,
        "target_accuracy": 0.8,
        "time_to_target_s": time_s,
        "final_accuracy": accuracy,
        "bytes": {"down": moved, "up": 0, "relay": 0},
        "data": {"task": "classes"},
        "diverged": None,
        "still_since_s": None,
        "ended": "horizon",
        "visits": 4,
        "commits": 2,
        **summary,
    }
    return TableRun(strategy, strategy, point, seed, tables, facts, f"runs/{strategy}-seed{seed}")


TWO = [
    run("fedavg", 1, 100.0, 0.80),
    run("fedavg", 2, 110.0, 0.84),
    run("fed_buff", 1, 50.0, 0.79),
    run("fed_buff", 2, 70.0, 0.81),
]


def cells(table: PaperTable) -> list[list[tuple[str | None, str | None, bool] | None]]:
    return [
        [None if cell is None else (cell.text, cell.spread_text, cell.best) for cell in line] for line in table.cells
    ]


def test_cells_are_means_and_sample_standard_deviations_over_seeds() -> None:
    table = pivot(TWO)
    assert [[part.text for part in heading] for heading in table.rows] == [["fedavg"], ["fed_buff"]]  # type: ignore[union-attr]
    assert [heading[-1].heading for heading in table.columns] == [  # type: ignore[union-attr]
        "time to 80% (s)",
        "final accuracy (%)",
        "moved (MB)",
    ]
    # 100 and 110: mean 105, deviation sqrt(50) = 7.07; 50 and 70: 60 and sqrt(200) = 14.14. 80 and 84: sqrt(8) = 2.83.
    assert cells(table) == [
        [("105", "7", False), ("82.0", "2.8", True), ("1.50", "0.00", False)],
        [("60", "14", True), ("80.0", "1.4", False), ("1.50", "0.00", False)],
    ]
    assert table.note == "Mean ± standard deviation over 2 seeds. Bold: best."


@pytest.mark.parametrize(
    ("spread", "expected"),
    [("sem", "5.00"), ("ci95", "63.53"), ("none", None)],  # 7.0711 / sqrt(2), times 12.706 of Student's t with 1 degree
)
def test_other_spreads(spread: str, expected: str | None) -> None:
    table = pivot(TWO[:2], columns=["time_to_target"], spread=spread, digits=2)
    assert cells(table) == [[("105.00", expected, False)]]


def test_times_are_medians_once_a_run_misses_the_target() -> None:
    runs = [*TWO, run("slow", 1, 300.0), run("slow", 2, None), run("never", 1, None), run("never", 2, None)]
    runs += [run("mostly", seed, time_s) for seed, time_s in ((1, 120.0), (2, None), (3, 130.0))]
    table = pivot(runs, columns=["time_to_target"])
    # fedavg: the middle of 100 and 110; slow: of 300 and never; mostly: 130, between 120 and never
    assert cells(table) == [
        [("105", None, False)],
        [("60", None, True)],
        [(None, None, False)],
        [(None, None, False)],
        [("130", None, False)],
    ]
    text = typeset(table, "markdown")
    assert "| mostly | 130 (2 of 3) |" in text
    assert "| slow | – (1 of 2) |" in text
    assert "| never | – |" in text
    assert "–: no run has a value." in text
    assert "Times are medians, in which a seed that misses the target counts as later than all others." in text
    assert "over 2 to 3 seeds" in text


def test_one_seed_has_no_spread() -> None:
    table = pivot([TWO[0], TWO[2]], columns=["final_accuracy"])
    assert cells(table) == [[("80.0", None, True)], [("79.0", None, False)]]
    assert table.note == "One seed. Bold: best."


def test_diverged_runs_are_marked_and_never_best() -> None:
    runs = [*TWO, run("wild", 1, accuracy=0.95), run("wild", 2, accuracy=0.95, diverged="evaluation")]
    text = typeset(pivot(runs, columns=["final_accuracy"]), "markdown")
    assert "| wild | 95.0 ± 0.0† |" in text
    assert "| fedavg | **82.0 ± 2.8** |" in text
    assert "†: runs diverged." in text


def test_values_that_are_shown_alike_are_best_together_and_none_if_all_are_level() -> None:
    runs = [run("a", 1, accuracy=0.80001), run("b", 1, accuracy=0.80002), run("c", 1, accuracy=0.7)]
    assert [line[0][2] for line in cells(pivot(runs, columns=["final_accuracy"]))] == [True, True, False]  # type: ignore[index]
    assert not any(line[0][2] for line in cells(pivot(runs[:2], columns=["final_accuracy"])))  # type: ignore[index]


def grid_runs() -> list[TableRun]:
    """Two strategies, two learning rates, two alphas, two seeds; accuracy counts them."""
    return [
        run(
            strategy,
            seed,
            accuracy=0.5 + 0.1 * i + 0.01 * j + 0.001 * k,
            point={"training.lr": lr, "data.partition.alpha": alpha},
            config={"training": {"lr": lr}, "data": {"partition": {"kind": "dirichlet", "alpha": alpha}}},
        )
        for i, strategy in enumerate(("x", "y"))
        for j, lr in enumerate((0.1, 0.3))
        for k, alpha in enumerate((10, 5))
        for seed in (1, 2)
    ]


def test_keys_go_into_rows_and_columns_and_the_best_is_sought_among_strategies() -> None:
    table = pivot(
        grid_runs(), ["strategy", "training.lr"], ["data.partition.alpha", "final_accuracy"], digits=1, spread="none"
    )
    assert [[part.text for part in heading] for heading in table.rows] == [  # type: ignore[union-attr]
        ["x", "0.1"],
        ["x", "0.3"],
        ["y", "0.1"],
        ["y", "0.3"],
    ]
    assert [heading[0].text for heading in table.columns] == ["5", "10"]  # type: ignore[union-attr]  # numbers are in order
    assert cells(table) == [
        [("50.1", None, False), ("50.0", None, False)],
        [("51.1", None, False), ("51.0", None, False)],
        [("60.1", None, True), ("60.0", None, True)],
        [("61.1", None, True), ("61.0", None, True)],
    ]
    each = pivot(
        grid_runs(), ["strategy", "training.lr"], ["data.partition.alpha", "final_accuracy"], best=["training.lr"]
    )
    assert [[cell[2] for cell in line if cell] for line in cells(each)] == [[False] * 2, [True] * 2] * 2
    none = pivot(grid_runs(), ["strategy", "training.lr"], ["data.partition.alpha", "final_accuracy"], best=[])
    assert not any(cell[2] for line in cells(none) for cell in line if cell)


def test_what_is_not_named_is_arranged_so_that_no_cell_mixes_settings() -> None:
    assert pivot(grid_runs()).row_keys == ["strategy", "training.lr", "data.partition.alpha"]
    assert pivot(grid_runs(), columns=["training.lr"]).row_keys == ["strategy", "data.partition.alpha"]
    table = pivot(grid_runs(), rows=["strategy"])
    assert table.column_keys == ["training.lr", "data.partition.alpha"]
    assert [each.name for each in table.quantities] == ["time_to_target"]
    # what follows from the strategy, as with [compare.<label>] tables, needs no place
    tuned = [run(name, 1, config={"training": {"lr": lr}}) for name, lr in (("x", 0.1), ("y", 0.3))]
    assert pivot(tuned).row_keys == ["strategy"]
    # comparisons on two fleets
    fleets = [run("x", 1, config={"fleet": {"preset": name, "a": i}}) for i, name in enumerate(("slow", "fast"))]
    assert pivot(fleets).row_keys == ["fleet.preset"]


def test_quantities_can_stand_in_rows() -> None:
    text = typeset(pivot(TWO, ["final_accuracy", "time_to_target"], ["strategy"], spread="none"), "markdown")
    assert text.splitlines()[:4] == [
        r"|  | fedavg | fed\_buff |",
        "| --- | ---: | ---: |",
        "| final accuracy (%) | **82.0** | 80.0 |",
        "| time to 80% (s) | 105 | **60** |",
    ]


def test_only_some_runs() -> None:
    where = {"training.lr": [0.3], "strategy": ["y"]}
    table = pivot(grid_runs(), columns=["final_accuracy"], where=where, spread="none")
    assert table.row_keys == ["data.partition.alpha"]
    assert cells(table) == [[("61.1", None, True)], [("61.0", None, False)]]
    with pytest.raises(ConfigError, match=r"where training\.lr = 0\.2: no run has this value.*choose from 0\.1, 0\.3"):
        pivot(grid_runs(), where={"training.lr": [0.2]})
    with pytest.raises(ConfigError, match=r"where training\.rate: no run has this key.*choose from data.*training\.lr"):
        pivot(grid_runs(), where={"training.rate": [0.2]})


def test_any_number_of_the_summaries_can_be_shown() -> None:
    runs = [run("x", 1, clients={"spread": 0.25}), run("y", 1, clients={"spread": 0.5})]
    table = pivot(runs, columns=["clients.spread"])
    assert [heading[0].heading for heading in table.columns] == ["clients spread"]  # type: ignore[union-attr]
    assert cells(table) == [[("0.250", None, False)], [("0.500", None, False)]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["final_acuracy"]}, r"final_acuracy: nothing.*did you mean 'final_accuracy'.*bytes.*strategy"),
        ({"rows": ["bytes"], "columns": ["final_accuracy"]}, "rows have bytes and columns final_accuracy"),
        ({"rows": ["strategy"], "columns": ["strategy"]}, "strategy: named twice"),
        ({"rows": ["training.lr"]}, None),
        (
            {"rows": ["training.lr"], "columns": ["bytes"]},
            r"x-seed1 and runs/x-seed1 are in one cell but differ in data",
        ),
        ({"best": ["bytes"]}, "best bytes: neither in rows nor in columns"),
        ({"spread": "sdt"}, "spread = 'sdt': choose from std, sem, ci95, none"),
        ({"digits": -1}, "digits = -1"),
    ],
)
def test_mistakes_get_one_line(options: dict[str, Any], message: str | None) -> None:
    if message is None:
        pivot(grid_runs(), **options)
        return
    with pytest.raises(ConfigError, match=message) as raised:
        pivot(grid_runs(), **options)
    assert "\n" not in str(raised.value)


def test_runs_that_a_mean_must_not_hide() -> None:
    with pytest.raises(ConfigError, match=r"runs/y-seed2: the run has not finished; resume it, or leave it out"):
        pivot([run("y", 1), run("y", 2, ended="interrupted")])
    numbers = run("y", 1, data={"task": "numbers"})
    with pytest.raises(ConfigError, match=r"final_accuracy: the runs measure R² and accuracy; choose runs of one kind"):
        pivot([run("x", 1), numbers], columns=["final_accuracy"])
    assert cells(pivot([run("x", 1), numbers], columns=["bytes"])) == [[("1.50", None, False)]] * 2


def test_the_same_run_twice_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"are the same run twice \(seed 1\)"):
        pivot([TWO[0], TWO[0]])


def test_latex_is_a_booktabs_table_with_shared_headings() -> None:
    table = pivot(
        grid_runs(),
        ["strategy"],
        ["training.lr", "data.partition.alpha", "final_accuracy"],
        names={"x": r"$\mathcal{X}$ 100%", "training.lr": r"$\eta$"},
        spread="none",
    )
    assert typeset(table, "latex", caption="Accuracy of x & y", label="tab:x").splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\caption{Accuracy of x \& y. Final accuracy (\%). Mean over 2 seeds. Bold: best.}",
        r"\label{tab:x}",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r" & \multicolumn{2}{c}{$\eta$ = 0.1} & \multicolumn{2}{c}{$\eta$ = 0.3} \\",
        r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}",
        r"strategy & alpha = 5 & alpha = 10 & alpha = 5 & alpha = 10 \\",
        r"\midrule",
        r"$\mathcal{X}$ 100\% & 50.1 & 50.0 & 51.1 & 51.0 \\",
        r"y & \textbf{60.1} & \textbf{60.0} & \textbf{61.1} & \textbf{61.0} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_latex_escapes_what_it_would_read_as_commands() -> None:
    odd = r"a_b & 5% of $x$ #1 {c}~^\d ± R²"
    text = typeset(pivot([run(odd, 1), run("y", 1)], columns=["final_accuracy"]), "latex")
    escaped = (
        r"a\_b \& 5\% of \$x\$ \#1 \{c\}\textasciitilde{}\textasciicircum{}\textbackslash{}d $\pm$ R\textsuperscript{2}"
    )
    assert f"\n{escaped} & 50.0" in text
    body = text[text.index(r"\begin{tabular}") :]
    assert all(line.count(" & ") == 1 for line in re.sub(r"\\&", "", body).splitlines() if line.endswith(r"\\"))


def test_repeated_headings_are_left_out() -> None:
    text = typeset(pivot(grid_runs(), columns=["final_accuracy"], spread="none"), "markdown")
    assert [line.split(" | ")[0] for line in text.splitlines()[2:10]] == [
        "| x",
        "| ",
        "| ",
        "| ",
        "| y",
        "| ",
        "| ",
        "| ",
    ]
    assert "|  | 0.3 | 5 |" in text


def test_csv_holds_unrounded_numbers_in_the_units_of_summaries() -> None:
    rows = list(csv.DictReader(io.StringIO(typeset(pivot(TWO), "csv"))))
    assert [row["strategy"] for row in rows] == ["fedavg", "fed_buff"]
    assert float(rows[0]["final_accuracy"]) == pytest.approx(0.82)
    assert float(rows[0]["final_accuracy_spread"]) == pytest.approx(0.0282842712)
    assert float(rows[0]["bytes"]) == pytest.approx(1_500_000)
    assert (rows[0]["final_accuracy_n"], rows[0]["final_accuracy_of"]) == ("2", "2")


def test_formats_and_their_options() -> None:
    table = pivot(TWO)
    with pytest.raises(ConfigError, match=r"to = 'tex': no such format.*csv, latex, markdown"):
        typeset(table, "tex")
    with pytest.raises(ConfigError, match="to = 'csv': caption and label are for latex"):
        typeset(table, "csv", caption="x")
    with pytest.raises(ConfigError, match="label = 'tab:x': give a caption too"):
        typeset(table, "latex", label="tab:x")
    assert typeset(table, "latex").startswith("% needs \\usepackage{booktabs}\n% Mean $\\pm$ standard deviation")

"""Commands that study strategies before a comparison: tune, plan and advise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedtempo.cli.options import ConfigFile, Sets, Strategies, console, errors, experiment_of, parse_seeds
from fedtempo.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from fedtempo.api.tuning import Tuning
    from fedtempo.studies.advice.recommendation import Advice
    from fedtempo.studies.tuning.successive_halving import Rung


def tune(
    config: ConfigFile,
    strategies: Strategies,
    lr: Annotated[str, typer.Option(help="largest and smallest learning rate")] = "0.3:0.001",
    factor: Annotated[float, typer.Option(help="ratio between neighbouring learning rates")] = 3.0,
    seeds: Annotated[str, typer.Option(help="seeds to tune on; use other seeds for the comparison")] = "101,102",
    budget: Annotated[
        float | None,
        typer.Option(help="budget per strategy and seed, in horizons (default: 2/3 of the number of learning rates)"),
    ] = None,
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            help="key to tune by Optuna: KEY=low:high\\[:log] or KEY=value,value; can be repeated",
        ),
    ] = [],  # noqa: B006
    trials: Annotated[int, typer.Option(help="with --over: settings per strategy")] = 20,
    workers: Annotated[
        int | None, typer.Option(help="number of parallel runs (default: number of usable CPUs)")
    ] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Tune each strategy's settings with the same budget.

    Successive halving over learning rates, or Optuna over any keys (--over).
    """
    if over:
        _tune_over(over, config, strategies, trials, parse_seeds(seeds), workers, set_)
        return
    numbers, grid = parse_seeds(seeds), _range(lr)
    experiment = experiment_of(config, set_, strategies=strategies)
    from fedtempo.parts.machine import usable_cpus
    from fedtempo.studies.competitors import competitors

    n_strategies = len(competitors(strategies, experiment.config))
    with console.status("starting") as status:

        def begins(number: int, rung: Rung, horizon_s: float) -> None:
            runs = n_strategies * rung.points * len(numbers)
            status.update(
                f"rung {number + 1}: {rung.points} learning rates per strategy, {runs} runs to {horizon_s:.4g} s"
            )

        tuning = experiment.tune(
            strategies,
            grid,
            factor=factor,
            seeds=numbers,
            budget=budget,
            workers=workers or usable_cpus(),
            begins=begins,
        )
    _show_tuning(tuning)


def _tune_over(
    over: list[str],
    config: Path,
    strategies: str,
    trials: int,
    seeds: list[int],
    workers: int | None,
    sets: list[str],
) -> None:
    from fedtempo.studies.search import at_ends, parse_space, search_table

    space = parse_space(over)
    experiment = experiment_of(config, sets, strategies=strategies)
    from fedtempo.parts.machine import usable_cpus

    with console.status("starting") as status:
        tuning = experiment.search(
            {text.partition("=")[0].strip(): text.partition("=")[2].strip() for text in over},
            strategies,
            trials=trials,
            seeds=seeds,
            workers=workers or usable_cpus(),
            begins=lambda done, of: status.update(f"{done} of {of} settings tried for each strategy"),
        )
    for label, places in tuning.placed.items():
        console.print(search_table(label, places, seeds))
    console.print(tuning.note, style="dim", highlight=False, soft_wrap=True)
    console.print("# To paste into the configuration, in place of the tables of these names:", style="dim")
    for label, places in tuning.placed.items():
        if places[0].trial.diverged:
            console.print(f"# {label}: runs diverged with every setting; try other ranges", style="yellow")
        console.print(tuning.toml(label), highlight=False, soft_wrap=True)
        for key in at_ends(space, label, places[0].trial.changes):
            console.print(f"# {label}: the best {key} is at the end of its range; try a wider one", style="yellow")


def plan(
    config: ConfigFile,
    strategies: Annotated[
        str | None, typer.Option(help="comma-separated names (default: the configuration's strategy)")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="new folder for figures (default: draw none)")] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Predict schedules without training, which takes seconds.

    How busy clients are, groups alive, rounds, and why.
    """
    experiment = experiment_of(config, set_, strategies=strategies)
    from fedtempo.cli.progress import terminal
    from fedtempo.studies.compare import new_folder

    if out is not None:
        new_folder(out)
    plan = experiment.plan(strategies, display=terminal(console))
    console.print(plan_table({label: prediction.summary for label, prediction in plan.predictions.items()}))
    plan.show_explanation(console)
    if out is not None:
        for figure in plan.save_figures(out):
            console.print(f"{figure}", style="cyan", soft_wrap=True)


def advise(
    config: ConfigFile,
    strategies: Annotated[str | None, typer.Option(help="comma-separated names or labels (default: all)")] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="number of short trainings, such as 80, or real time, such as 5m", show_default=False),
    ] = None,
    short: Annotated[
        float | None,
        typer.Option(help="length of a short training in simulated seconds (default: a quarter of the horizon)"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="number of parallel trainings (default: number of usable CPUs)"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON only")] = False,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Recommend a strategy, with its cost and the evidence.

    Short trainings of all strategies that fit, and again with wrong estimates and with drop-outs.
    """
    experiment = experiment_of(config, set_)
    from rich.text import Text

    from fedtempo.parts.foreign_text import one_line
    from fedtempo.parts.machine import usable_cpus
    from fedtempo.record.strict_json import to_json
    from fedtempo.studies.display import Display

    with errors.status("starting") as status:
        advice = experiment.advise(
            strategies,
            budget=budget,
            short_s=short,
            workers=workers or usable_cpus(),
            display=Display(say=lambda line: status.update(Text(one_line(line)))),
        )
    if json:
        print(to_json(advice.facts(), indent=2))
    else:
        _show_advice(advice, experiment.chosen_on)


def plan_table(summaries: dict[str, dict[str, Any]]) -> Table:
    """Return predictions side by side: busy ratios over clients, groups alive, mean staleness of commits.

    summaries: by label, see `fedtempo.record.summarise`.
    """
    from rich import box
    from rich.table import Table

    title = "Predicted, without training"
    table = Table(
        title=title, title_style="bold", title_justify="left", header_style="dim", box=box.SIMPLE, padding=(0, 1)
    )
    table.add_column("strategy", overflow="fold")  # the one that gives way: no number is cut short
    for column in ("busy %", "low", "high", "alive", "most", "visits", "commits", "stale"):
        table.add_column(column, justify="right", no_wrap=True)
    for label, summary in summaries.items():
        busy, alive, staleness = summary["busy_ratio"], summary["active_groups"], summary["staleness"]["mean"]
        table.add_row(
            label,
            *(f"{100 * busy[name]:.1f}" for name in ("mean", "min", "max")),
            f"{alive['mean']:.1f}",
            f"{alive['max']}",
            f"{summary['visits']:,}",
            f"{summary['commits']:,}",
            "-" if staleness is None else f"{staleness:.1f}",
        )
    return table


def _show_tuning(tuning: Tuning) -> None:
    from fedtempo.studies.tuning.report import tuning_table

    for label, places in tuning.placed.items():
        console.print(tuning_table(label, places, list(tuning.seeds)))
    console.print(tuning.note, style="dim", highlight=False, soft_wrap=True)
    console.print("# To paste into the configuration, in place of the tables of these names:", style="dim")
    for label, places in tuning.placed.items():
        best = places[0].trial
        if best.diverged:
            console.print(f"# {label}: runs diverged at every learning rate; try smaller ones", style="yellow")
        console.print(tuning.toml(label), highlight=False, soft_wrap=True)
        if len(tuning.points) > 1 and best.changes in (tuning.points[0], tuning.points[-1]):
            console.print(f"# {label}: the best is at the end of the grid; try a wider one", style="yellow")


def _show_advice(advice: Advice, chosen_on: str) -> None:
    """Show the recommendation, its evidence, and lines to paste. chosen_on: which examples decided."""
    from fedtempo.report import words
    from fedtempo.report.table import fitting_table
    from fedtempo.studies.advice.recommendation import evidence_columns, sensitivity_columns

    console.print(advice.headline, style="bold", highlight=False)
    for line in advice.details:
        console.print(line, highlight=False)
    console.print()
    seeds = advice.setting.seeds
    length, numbers = words.seconds(advice.setting.short_s), words.whole_ranges(seeds)
    title = f"Trainings of {length}, seed{'s' * (len(seeds) > 1)} {numbers}"
    console.print(fitting_table(title, evidence_columns(advice), console.width))
    title = "Where the server's estimates are wrong, and where visits are lost"
    console.print(fitting_table(title, sensitivity_columns(advice), console.width))
    if advice.league is not None:
        near = "Near rows" if advice.league.is_near else "The nearest row"
        title = (
            f"{near} of the league: times relative to the first of these strategies there; this decides nothing here"
        )
        columns = advice.league.columns([evidence.label for evidence in advice.evidence])
        console.print(fitting_table(title, columns, console.width))
    for label, reason in advice.left_out.items():
        console.print(f"left out: {label}: {reason}", style="dim", highlight=False, soft_wrap=True)
    effort, n = advice.setting.effort, len(advice.evidence)
    console.print(
        f"From {advice.setting.trainings} short trainings (--budget {advice.setting.trainings}); {n} strategies, "
        f"{effort.lr_points} learning rate{'s' * (effort.lr_points > 1)} each; {chosen_on}.",
        style="dim",
        highlight=False,
    )
    console.print("# To paste into the configuration:", style="dim")
    console.print(advice.toml(), highlight=False, soft_wrap=True)


def _range(text: str) -> tuple[float, float]:
    """Return the numbers of "0.3:0.001": (0.3, 0.001). Raises ConfigError for anything else."""
    high, _, low = text.partition(":")
    try:
        return float(high), float(low or high)
    except ValueError:
        raise ConfigError(f"--lr {text}: write the largest and the smallest rate, such as 0.3:0.001") from None

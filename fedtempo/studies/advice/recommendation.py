"""A recommendation with its evidence, as text, tables and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from fedtempo.record.metric import Measure
from fedtempo.record.strict_json import plain
from fedtempo.report import words
from fedtempo.report.columns import Column, best
from fedtempo.report.rendering import notebook_html
from fedtempo.runs.config import Config
from fedtempo.studies.advice.collect import gather
from fedtempo.studies.advice.evidence import (
    AS_CONFIGURED,
    ESTIMATES,
    ESTIMATES_OFF,
    LOSSES,
    LOST_VISITS,
    SCENARIOS,
    Evidence,
    Outcome,
    Setting,
)
from fedtempo.studies.advice.league import LeagueSays, league_says
from fedtempo.studies.advice.prior import features_of, read_prior
from fedtempo.studies.fleet import describe_fleet
from fedtempo.studies.tuning.report import comparison_lines

if TYPE_CHECKING:
    from pandas import DataFrame

Verdict = Literal["clear", "close", "one seed", "alone"]
_SAME = 0.02
"""Accuracies that differ by less count as equal, since seeds are few."""


@dataclass(frozen=True, eq=False)
class Advice:
    """The recommended strategy and why.

    evidence: of each strategy that fits, best first. left_out: why others do not fit, by label. league: what the league
    says of them; None if no row of it has run with one of them.
    """

    config: Config
    setting: Setting
    evidence: Sequence[Evidence]
    left_out: Mapping[str, str]
    league: LeagueSays | None = None

    @property
    def best(self) -> Evidence:
        return self.evidence[0]

    @property
    def verdict(self) -> Verdict:
        """How certain the recommendation is.

        "clear" if every seed of the best is ahead of every seed of the second, else "close"; "one seed" if there was
        only one, "alone" if no other strategy fits.
        """
        if len(self.evidence) == 1:
            return "alone"
        if len(self.setting.seeds) == 1:
            return "one seed"
        first, second = (evidence.trained for evidence in self.evidence[:2])
        return "clear" if _ahead(first, second) else "close"

    @property
    def headline(self) -> str:
        """The recommendation in one sentence."""
        best, others = self.best, self.evidence[1:]
        does = self._does(best.trained) + (f" ({_diverged(best)})" if best.trained.diverged else "")
        if not others:
            return f"{best.label}: {does}; no other strategy fits"
        second = others[0]
        against = f"{second.label} {self._does(second.trained)}"
        how = {"clear": "", "close": ", too close to call", "one seed": ", from one seed"}[self.verdict]
        return f"{best.label}: {does}; next, {against}{how}"

    @property
    def details(self) -> list[str]:
        """Further sentences: how busy clients are, costs, sensitivity, and reasons for doubt."""
        best, cost = self.best, self.best.cost
        until = "to the target" if best.trained.time_s is not None else f"in {words.seconds(self.setting.short_s)}"
        energy = "" if cost.energy_wh is None else f", {words.plain_number(cost.energy_wh)} Wh"
        sentences = [
            f"It keeps clients busy {words.share(best.busy_ratio)} of the time, the idlest {words.share(best.idlest)}.",
            f"It takes {words.size(cost.moved_bytes)}, {_hours(cost.client_hours)} of clients' time{energy} {until}.",
            *self._sensitivity(),
        ]
        sentences += [f"{other.label}: {_diverged(other)}." for other in self.evidence if other.trained.diverged]
        if best.edge:
            lr = best.changes["training.lr"]
            sentences.append(f"Its learning rate, {lr:g}, is the lowest or highest of those tried: tune it.")
        if best.trained.time_s is None and self.setting.target_accuracy is not None:
            some = any(time is not None for evidence in self.evidence for time in evidence.trained.times_s)
            who = "No strategy reached {} in most of its short trainings" if some else "No short training reached {}"
            sentences.append(
                f"{who.format(words.aim(self.setting.target_accuracy, self.setting.measure))}: they are ranked by best "
                "accuracy; try a longer --short or a lower target."
            )
        return [*sentences, *([] if self.league is None else self.league.sentences(best.label))]

    def _sensitivity(self) -> list[str]:
        finalists = [evidence for evidence in self.evidence if evidence.under]
        sentences = []
        for scenario, what in SCENARIOS.items():
            known = [finalist for finalist in finalists if scenario in finalist.under]
            if self.best not in known:
                continue
            first = min(known, key=lambda finalist: finalist.under[scenario].order)
            does = self._does(self.best.under[scenario])
            time_s = self.best.under[scenario].time_s
            if first is self.best:
                ahead = ", still first" if len(known) > 1 else ""
            elif time_s is not None and time_s == first.under[scenario].time_s:
                ahead = f", level with {first.label}"
            else:
                ahead = f"; {first.label} is ahead there: it {self._does(first.under[scenario])}"
            sentences.append(f"{what[0].upper()}{what[1:]} it {does}{ahead}.")
        return sentences

    def _does(self, trained: Outcome) -> str:
        target, time_s = self.setting.target_accuracy, trained.time_s
        if target is not None and time_s is not None:
            return f"reaches {words.aim(target, self.setting.measure)} after {words.seconds(time_s)}"
        return (
            f"reaches {words.scored(trained.accuracy, self.setting.measure)} in {words.seconds(self.setting.short_s)}"
        )

    def toml(self) -> str:
        """Return the best strategy's settings as TOML, to paste into the configuration."""
        return comparison_lines(self.config, self.best.label, self.best.changes)

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON values; equal for the same configuration and number of trainings."""
        by_label = {}
        for strategy in self.evidence:
            fields = asdict(strategy)
            fields["trained"] |= {"time_s": strategy.trained.time_s, "accuracy": strategy.trained.accuracy}
            for scenario, trained in strategy.under.items():
                fields["under"][scenario] |= {"time_s": trained.time_s, "accuracy": trained.accuracy}
            by_label[fields.pop("label")] = fields
        return dict(
            plain(
                {
                    "recommended": self.best.label,
                    "verdict": self.verdict,
                    "headline": self.headline,
                    "details": self.details,
                    "setting": asdict(self.setting),
                    "strategies": by_label,
                    "left_out": self.left_out,
                    "league": None if self.league is None else self.league.facts(),
                }
            )
        )

    def table(self) -> DataFrame:
        """Return one row per strategy, best first, as a data frame.

        Columns: time to target (median over seeds, s), accuracy, diverged trainings, learning rate, busy ratio, idlest
        client, staleness; bytes, client hours and Wh until the target, or else until the end of the training.
        """
        from fedtempo.report import frames

        return frames.frame(
            [
                {
                    "strategy": evidence.label,
                    "time_to_target_s": _nan(evidence.trained.time_s),
                    "accuracy": evidence.trained.accuracy,
                    "diverged": evidence.trained.diverged,
                    "lr": evidence.changes["training.lr"],
                    "busy_ratio": evidence.busy_ratio,
                    "idlest_client": evidence.idlest,
                    "staleness": _nan(evidence.staleness),
                    "moved_bytes": evidence.cost.moved_bytes,
                    "client_hours": evidence.cost.client_hours,
                    "energy_wh": _nan(evidence.cost.energy_wh),
                }
                for evidence in self.evidence
            ]
        )

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {line}" for line in self.details)])

    def _repr_html_(self) -> str:
        columns = evidence_columns(self)
        rows = [[column.cells[i] for column in columns] for i in range(len(self.evidence))]
        return notebook_html(self.headline, lines=self.details, head=[column.title for column in columns], rows=rows)


def advise(
    config: Config,
    strategies: str | Iterable[str] | None = None,
    *,
    budget: int | float | None = None,
    short_s: float | None = None,
    workers: int = 1,
    say: Callable[[str], None] = lambda stage: None,
) -> Advice:
    """Recommend a strategy for a configuration's fleet, data and network; arguments as `collect.gather`."""
    setting, evidence, left_out = gather(config, strategies, budget=budget, short_s=short_s, workers=workers, say=say)
    return Advice(config, setting, evidence, left_out, _league(config, evidence))


def _league(config: Config, evidence: Sequence[Evidence]) -> LeagueSays | None:
    if (prior := read_prior()) is None:
        return None
    configs = {each.label: config.for_comparison(each.label) for each in evidence}
    says = league_says(features_of(config, describe_fleet(config)), prior, configs)
    return says if says.rows else None


def evidence_columns(advice: Advice) -> list[Column]:
    """Return columns of short trainings and schedules, one row per strategy; costs are until the target or the end."""
    evidence, target, measure = advice.evidence, advice.setting.target_accuracy, advice.setting.measure
    columns = [Column("strategy", tuple(e.label for e in evidence))]
    if target is not None:
        times = [e.trained.time_s for e in evidence]
        columns.append(
            Column(f"time to\u00a0{words.level(target, measure)}", tuple(map(words.seconds, times)), best(times, min))
        )
    accuracies = [e.trained.accuracy for e in evidence]
    columns += [
        Column(measure.name, tuple(words.score(a, measure) for a in accuracies), best(accuracies, max)),
        *_diverged_column(evidence),
        Column("learning rate", tuple(f"{e.changes['training.lr']:g}" for e in evidence)),
        Column("moved", tuple(words.size(e.cost.moved_bytes) for e in evidence)),
        Column("clients' time", tuple(_hours(e.cost.client_hours) for e in evidence)),
    ]
    if any(e.cost.energy_wh is not None for e in evidence):
        columns.append(Column("energy, Wh", tuple(words.plain_number(e.cost.energy_wh) for e in evidence)))
    return [
        *columns,
        Column("busy", tuple(words.share(e.busy_ratio) for e in evidence)),
        Column("idlest client", tuple(words.share(e.idlest) for e in evidence)),
        Column("staleness", tuple(words.plain_number(e.staleness) for e in evidence)),
    ]


def _diverged(evidence: Evidence) -> str:
    return f"{evidence.trained.diverged} of {len(evidence.trained.times_s)} short trainings diverged"


def _diverged_column(evidence: Sequence[Evidence]) -> list[Column]:
    counts = [(e.trained.diverged, len(e.trained.times_s)) for e in evidence]
    cells = tuple(f"{count} of {of}" if count else "" for count, of in counts)
    return [Column("diverged", cells)] if any(cells) else []


def sensitivity_columns(advice: Advice) -> list[Column]:
    """Return columns of what wrong estimates and lost visits change: trainings of the finalists, all schedules."""
    trained, measure = any(evidence.under for evidence in advice.evidence), advice.setting.measure
    columns = [Column("strategy", tuple(evidence.label for evidence in advice.evidence))]
    if trained:
        cells = tuple(_came_to(evidence.trained, measure) if evidence.under else "" for evidence in advice.evidence)
        columns.append(Column(AS_CONFIGURED, cells))
    names = {ESTIMATES: f"estimates off by {ESTIMATES_OFF:.0%}", LOSSES: f"{LOST_VISITS:.0%} of visits lost"}
    for scenario, name in names.items():
        if trained:
            cells = tuple(_came_to(e.under[scenario], measure) if scenario in e.under else "" for e in advice.evidence)
            columns.append(Column(name, cells))
        changes = [evidence.visits_change(scenario) for evidence in advice.evidence]
        columns.append(Column("visits", tuple("" if change is None else f"{change:+.0%}" for change in changes)))
    return columns


def _came_to(trained: Outcome, measure: Measure) -> str:
    return words.score(trained.accuracy, measure) if trained.time_s is None else words.seconds(trained.time_s)


def _ahead(first: Outcome, second: Outcome) -> bool:
    """Return whether every seed of one is better than every seed of the other."""
    if first.time_s is None:
        return min(first.accuracies) > max(second.accuracies) + _SAME
    times = [time for time in first.times_s if time is not None]
    others = [time for time in second.times_s if time is not None]
    return len(times) == len(first.times_s) and (not others or max(times) < min(others))


def _hours(hours: float) -> str:
    """Return hours as "2.4 h", or as minutes or seconds if shorter."""
    if hours >= 1:
        return f"{words.plain_number(hours)} h"
    return f"{words.plain_number(60 * hours)} min" if 60 * hours >= 1 else words.seconds(3600 * hours)


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value

"""The league as a page to choose from: all that it says is computed from `league.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.studies.papers.league_entrants import NEEDS_EXAMPLES
from fedtempo.studies.papers.page_parts import markdown_table, settings_in_words
from fedtempo.studies.papers.ranking import covered
from fedtempo.studies.papers.standings import Place, Standing, judged, reason, records, seconds, statement

Facts = Mapping[str, Any]

_HEAD = """# The league: all systems on the same fleets

Which strategy reaches the target soonest on which fleet, by how much, and why. No paper compares these systems with
each other. This page is written by `fedtempo reproduce --index` from the numbers that `{command}`
left in [all/league](all/league/result.md); every number below is computed from them.

## How it is made fair

- **Same for all on a row**: clients, their data, their speeds and links, the initial model, local work (one epoch), the
  seeds. Two labels a client; clients may hold the same image twice over. A perceptron with 64 hidden units.
- **Same budget for tuning** for all on a row: learning rates, each with two settings of what a strategy is free to
  choose (rounds of few or of many clients, as many at work at once, FedHusky's planner or its paced order, with its
  correction or without, ...).
  {tuning}
  The best one then runs on seeds that the tuning did not see.
- **Targets were set before**: {targets}. They are 95 % of the accuracy that tuned FedAvg ends with in the UAV cell, on
  the tuning's first seed, rounded down to whole percents; *early* targets are 80 % of it.
- **A run that does not get there counts** as later than all others. A time is that of the first evaluation from which
  three in a row average the target. A run ends at the horizon, or after {most_visits:,} visits. *Times later* is the
  median over seeds of the ratio of two times on the same seed; busy ratios, visits and bytes are medians, up to the end
  of the run.
- **Level with the first** is who is not shown to be later: Wilcoxon's signed-rank test over the {n_seeds} seeds,
  one-sided, 5 %, without correction for the number of comparisons, and with a median that reaches the target. The least
  and the greatest of {n_seeds} seeds enclose the true median with a chance of {covered:.1%}.
- **Servers know mean times** of their clients. {needs} takes raw examples from a tenth of the clients, so it
  runs beside the others and is never counted as first. FedHusky, hybrid and hybrid-fl are told how many examples of
  each label clients hold; `fedhusky-models` is FedHusky without that: it finds ten clusters from models, and the
  time for that counts. `fedhusky-free` (`preset = "free"`: no groups, no clusters) is told nothing of the data.
"""

_LIMITS = """## What to know before quoting this

- Small networks and few examples: who wins on a perceptron may not win on a deep network.
- The target is one number: who is first at it need not end highest. Final accuracy is not compared here.
- Computing at the server takes no time, and only the LTE cell limits how many clients send at once: where links are
  free, strategies with everyone at work pay nothing for it. Look at the megabytes.
- Strategies in rounds, and FedAsync, had at most 50 clients at work in the UAV and LTE cells and 100 in the others,
  fch twice as many; FedBuff and FedHusky may have everyone at work.
  For FedBuff that was decided after a first league, which held it to 50 or 100 clients and had FedHusky first on
  discrete and on Zipf speeds. FedAsync is held to 50 or 100 still.
- `fedhusky-free` came [after a first league](beyond.md): its gain and exponent were chosen on these four fleets, with
  digits and seeds 11 to 16. On other data and with these seeds it had not been looked at.
- The learning rate and one more setting were tuned, with one or two seeds; other settings are the strategies' defaults.
- FedHusky's paper to the letter does not compete: [it learns slowly](fedhusky.md), and a run of it takes long.
"""


def league_page(facts: Facts, command: str) -> str:
    """The page, from what is in `league.json`."""
    standings = judged(facts)
    fleets = dict.fromkeys(standing.fleet for standing in standings)
    parts = [
        _head(facts, command),
        "## Who is first where\n\n" + _winners(standings),
        "## Who is good everywhere\n\n" + _everywhere(facts, standings),
        "## Which one to take\n\n" + _advice(standings),
        *(_fleet([standing for standing in standings if standing.fleet == fleet]) for fleet in fleets),
        f"{_LIMITS}- Measured on {_listed(list(facts['targets']))} and nothing else.\n"
        f"{_ends_of_grid(facts, standings)}",
    ]
    return "\n".join(parts)


def _head(facts: Facts, command: str) -> str:
    budgets = facts["budgets"]
    seeds = {len(own["seeds"]) for own in budgets.values()}
    levels = ", ".join(
        f"{target['target']:.0%} on {data} (early: {target['early']:.0%})" for data, target in facts["targets"].items()
    )
    return _HEAD.format(
        command=command,
        tuning=" ".join(_tuning(data, own) for data, own in budgets.items()),
        targets=levels,
        most_visits=facts["most_visits"],
        n_seeds=min(seeds),
        covered=covered(min(seeds)),
        needs=", ".join(f"`{label}`" for label in NEEDS_EXAMPLES),
    )


def _tuning(data: str, budget: Facts) -> str:
    """How strategies were tuned on a data set."""
    first, *others = map(str, budget["tuning_seeds"])
    rates, also = (
        _listed([f"{lr:g}" for lr in budget["lr"]]),
        f", the best two on {_listed(others)} too" if others else "",
    )
    return (
        f"On {data}: rates {rates}, so {2 * len(budget['lr'])} settings a strategy and row, on seed {first}{also}; "
        f"compared on seeds {_listed(list(map(str, budget['seeds'])))}."
    )


def _winners(standings: Sequence[Standing]) -> str:
    rows = []
    for standing in standings:
        best = standing.first
        if best is None:
            rows.append([standing.title, f"{standing.target:.0%}", "nobody", "-", "-", "-", "-"])
            continue
        level = [place.label for place in standing.competing if place.level and place is not best]
        later = next((place for place in standing.competing if not place.level), None)
        cheapest = standing.cheapest
        rows.append(
            [
                standing.title,
                f"{standing.target:.0%}",
                f"**{best.label}** {best.words}",
                ", ".join(level) or "-",
                "-" if later is None else f"{later.label}, {_factor(later)}",
                standing.first_early or "-",
                "-" if cheapest is None else f"{cheapest.label}: {cheapest.mb:,.0f} MB, {_factor(cheapest)}",
            ]
        )
    head = ("fleet, data", "target", "first", "level with it", "next", "first at the early target", "fewest bytes")
    return markdown_table(head, rows)


def _everywhere(facts: Facts, standings: Sequence[Standing]) -> str:
    holds, words = statement(facts)
    rows = [
        [
            record.label,
            str(record.rows),
            str(record.firsts),
            str(record.level),
            f"{record.mean_rank:.1f}",
            f"{record.within_2:.0%}",
            f"{record.within_5:.0%}",
            "never there" if math.isinf(record.worst) else f"{record.worst:.1f} times",
        ]
        for record in records(standings)
    ]
    head = ("strategy", "rows", "first", "first or level", "mean place", "within twice the first", "within five times")
    answer = "Yes" if holds else "No"
    return f"Is one strategy first or level with the first in every row? **{answer}**: {words}.\n\n" + markdown_table(
        (*head, "at worst later than the first by"), rows
    )


def _advice(standings: Sequence[Standing]) -> str:
    lines = []
    for fleet in dict.fromkeys(standing.fleet for standing in standings):
        own = [standing for standing in standings if standing.fleet == fleet]
        name = own[0].title.rpartition(", ")[0]
        level = [{place.label for place in standing.competing if place.level} for standing in own]
        always = [place.label for place in own[0].competing if all(place.label in each for each in level)]
        if always:
            data = own[0].data if len(own) == 1 else "all data"
            said = f"{_listed(always)} {'is' if len(always) == 1 else 'are'} first or level on {data}"
        else:
            firsts = [f"{s.first.label} on {s.data}" for s in own if s.first is not None]
            said = f"no single one: {_listed(firsts)}" if firsts else "nobody reaches the target"
        cheap = dict.fromkeys(s.cheapest.label for s in own if s.cheapest is not None)
        frugal = f" With the fewest bytes: {_listed(list(cheap))}." if cheap else ""
        beside = [
            f"{place.label} takes {place.factor:.2f} of the first's time on {standing.data}"
            for standing in own
            for place in standing.places
            if not place.competes and place.factor is not None and place.factor < 1 and not place.bound
        ]
        raw = f" Where a tenth of the clients may send raw examples: {_listed(beside)}." if beside else ""
        lines.append(f"- **{name}**: {said}.{frugal}{raw}")
    return "\n".join(lines) + "\n"


def _fleet(standings: Sequence[Standing]) -> str:
    fleet, name = standings[0].fleet, standings[0].title.rpartition(", ")[0]
    picture = f"![time to the target of every strategy, {name}](all/league/league-{fleet}.png)\n"
    return f"## {name[0].upper()}{name[1:]}\n\n{picture}\n" + "\n".join(map(_row, standings))


def _row(standing: Standing) -> str:
    rows = [
        [
            f"**{place.label}**" if place.level else place.label + ("" if place.competes else " ¹"),
            place.words,
            _factor(place),
            f"{place.visits:,.0f}",
            f"{place.rate:.2f}",
            f"{place.busy:.1%}",
            f"{place.at_work:.1f}",
            "-" if place.staleness is None else f"{place.staleness:.1f}",
            f"{place.took_part:.0%}",
            f"{place.gini:.2f}",
            f"{place.mb:,.0f}",
            settings_in_words(place.chosen),
        ]
        for place in standing.places
    ]
    head = (
        "strategy",
        "time to the target: median (seeds)",
        "times the first",
        "visits",
        "visits/s",
        "busy",
        "clients at work",
        "staleness",
        "clients that took part",
        "Gini of visits",
        "MB",
        "settings",
    )
    return f"### {standing.title}\n\n{_why(standing)}\n\n{markdown_table(head, rows)}\n{_notes(standing)}"


def _why(standing: Standing) -> str:
    best = standing.first
    if best is None:
        return f"Nobody reaches {standing.target:.0%} in {seconds(standing.horizon_s)} s on most seeds."
    later = next((place for place in standing.competing if not place.level and place.reached), None)
    others = [place.label for place in standing.competing if place.level and place is not best]
    level = f"; {_listed(others)} {'is' if len(others) == 1 else 'are'} not shown to be later" if others else ""
    text = f"{best.label} is first at {standing.target:.0%}: {best.words}{level}."
    if later is not None and not math.isinf(later.median_s):
        text += f" {later.label} comes {_factor(later)}: {reason(best, later)}."
    return text


def _notes(standing: Standing) -> str:
    never = [place.label for place in standing.places if not place.reached]
    lines = []
    if any(not place.competes for place in standing.places):
        lines.append("¹ takes raw examples from a tenth of the clients: beside the competition.")
    if never:
        lines.append(f"Never there: {', '.join(never)}.")
    return "\n".join(lines) + "\n"


def _ends_of_grid(facts: Facts, standings: Sequence[Standing]) -> str:
    """Choices that a wider grid might have bettered."""
    lines = ""
    for data, budget in facts["budgets"].items():
        ends = min(budget["lr"]), max(budget["lr"])
        places = [
            place for standing in standings if standing.data == data for place in standing.places if place.reached
        ]
        labels = dict.fromkeys(place.label for place in places if place.lr in ends)
        count = sum(place.lr in ends for place in places)
        if len(budget["lr"]) > 2 and count:
            lines += (
                f"- On {data} {count} of {len(places)} choices that reach the target are the least or the largest "
                f"learning rate of the grid ({_listed(list(labels))}): a wider grid might do better by them.\n"
            )
    return lines


def _factor(place: Place) -> str:
    if place.factor is None:
        return "-"
    if place.leads:
        return "1"
    return (
        f"{'more than ' if place.bound else ''}{place.factor:.2g} times later"
        if place.factor >= 1
        else (f"{place.factor:.2f} of it")
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

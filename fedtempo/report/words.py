"""Numbers and results as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.record.compare import failure
from fedtempo.record.health import reason
from fedtempo.record.metric import Measure, Target, measure_of_all, target_of_all

ABSENT = "–"


def seconds(value: float | None) -> str:
    """Return a time as "4.2 s" or "1,254 s"; a dash for None, here and below."""
    return _number(value, " s")


def plain_number(value: float | None) -> str:
    """Return a number as "4.2" or "1,254"."""
    return _number(value, "")


def share(value: float | None) -> str:
    """Return a share as "63.4%"."""
    return ABSENT if value is None else f"{100 * value:.1f}%"


def percent(value: float) -> str:
    """Return a share as "80%" or "82.5%", with as few digits as it needs."""
    return f"{100 * value:.4g}%"


def mean_score_over(final: Mapping[str, Any], measure: Measure) -> str:
    """Return a mean over seeds as "86.2 ± 0.6%", or "86.2 ± 0.6% (2 of 3)" if not all runs have a value."""
    values = final.get("values") or []
    available = sum(value is not None for value in values)
    of = f" ({available} of {len(values)})" if 0 < available < len(values) else ""
    return f"{mean_score(final['mean'], final['std'], measure)}{of}"


def mean_score(mean: float | None, std: float | None, measure: Measure) -> str:
    """Return a score and its deviation as "86.2 ± 0.6%", or "0.862 ± 0.006" for one that is not a share."""
    if measure.as_share or mean is None:
        return mean_and_deviation(mean, std, as_share=True)
    if not measure.is_usual:
        return score(mean, measure) + (f" ± {std:.2g}" if std else "")
    return score(mean, measure) + (f" ± {std:.3f}" if std is not None and float(f"{std:.3f}") else "")


def mean_and_deviation(mean: float | None, std: float | None, *, as_share: bool = False) -> str:
    """Return "86.2 ± 0.6%" or "30.8 ± 0.1", both with the same digits; only the mean if the deviation is zero."""
    alone = share(mean) if as_share else plain_number(mean)
    if mean is None or std is None:
        return alone
    digits, factor, unit = (1, 100, "%") if as_share else (_digits(mean), 1, "")
    deviation = f"{factor * std:,.{digits}f}"
    return f"{factor * mean:,.{digits}f} ± {deviation}{unit}" if float(deviation.replace(",", "")) else alone


def size(value: float | None) -> str:
    """Return bytes as "1.70 MB", in powers of 1,000."""
    if value is None:
        return ABSENT
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB" if value < 1000 else f"{value:,.0f} TB"


def ratio(value: float | None) -> str:
    """Return the ratio of two times as "5.9× as long", "5.9× as fast" or "as fast"; a dash for None."""
    if value is None:
        return ABSENT
    if abs(value - 1) < 0.005:
        return "as fast"
    return f"{_factor(value)}× as long" if value > 1 else f"{_factor(1 / value)}× as fast"


def bounded_ratio(shown: Mapping[str, Any] | None) -> str:
    """Return the mean of a ratio in `fedtempo.studies.significance` as "5.9× as long" or "> 5.9× as long"."""
    return ABSENT if shown is None else f"{_bound(shown)}{ratio(shown['mean'])}"


def interval_of_ratio(shown: Mapping[str, Any] | None) -> str:
    """Return the interval of a ratio as "4.2 to 8.1", of what `bounded_ratio` returns: "as long" or "as fast"."""
    if shown is None:
        return ABSENT
    low, high = shown["low"], shown["high"]
    if shown["mean"] < 1:
        low, high = 1 / high, 1 / low
    return f"{_factor(low)} to {_factor(high)}"


def ratio_and_interval(shown: Mapping[str, Any] | None) -> str:
    """Return a ratio in `fedtempo.studies.significance` with its interval as "5.9× (4.2–8.1)" or "> 5.9× (4.2–8.1)"."""
    if shown is None:
        return ABSENT
    mean, low, high = (_factor(shown[name]) for name in ("mean", "low", "high"))
    return f"{shown['bound']} {mean}× ({low}–{high})".lstrip()


def relation(text: str) -> str:
    """Return a relation in `fedtempo.studies.significance` in one word, for a narrow table."""
    return "unclear" if text == "not told apart" else text


def _bound(shown: Mapping[str, Any]) -> str:
    """Return "> " if a ratio's factor in words is a lower bound, "< " if it is an upper one, else ""."""
    if not shown["bound"]:
        return ""
    return "> " if (shown["bound"] == ">") == (shown["mean"] >= 1) else "< "


def significance(comparison: Mapping[str, Any]) -> str:
    """Return in a few sentences what the seeds of a comparison can show; empty if that is unknown."""
    shown = comparison.get("statistics")
    if not shown:
        return ""
    seeds, measure = len(shown["seeds"]), measure_of_all(comparison)
    if seeds == 1:
        return "One seed: no difference can be told from chance. --seeds 1-5 would give each strategy five."
    times = shown["measure"] == "time_to_target_s"
    against = f"{shown['comparisons']} comparisons" if shown["comparisons"] > 1 else "one comparison"
    worse = "later" if times else "lower"
    sentences = [
        f"{seeds} paired seeds, 95% intervals; {worse}: Student's paired test, Holm-corrected for {against}.",
    ]
    least, enough = shown["least_shown"], shown["seeds_for_margin"]
    if least is not None and least - times >= 0.0005:
        if times:
            amount = percent(float(f"{least - 1:.2g}"))
        else:
            amount = f"{100 * least:.2g} points" if measure.as_share else f"{least:.2g}"
        sentences.append(f"With {seeds} seeds a difference under {amount} cannot be told.")
        if enough is not None and enough > seeds:
            sentences.append(f"{enough:,} would show 10%.")
    if shown["censored_s"] is not None:
        sentences.append(f"Runs that missed the target count as reaching it at {seconds(shown['censored_s'])}.")
    return " ".join(sentences)


def privacy(spent: Mapping[str, Any] | None) -> str:
    """Return "ε = 4.2 at δ = 1e-05 in 12 averages"; empty for a run without privacy."""
    if spent is None:
        return ""
    return f"ε = {spent['epsilon']:.3g} at δ = {spent['delta']:g} in {spent['averages']:,} averages"


def short(text: str, most: int) -> str:
    """Return a text cut to at most `most` characters, "a long na…"; at least one character and the ellipsis stay."""
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}…"


def listed(names: Sequence[str]) -> str:
    """Return names as "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def whole_ranges(numbers: Sequence[int]) -> str:
    """Return whole numbers as ranges: "1–3, 7" for [1, 2, 3, 7]."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in ranges)


def score(value: float | None, measure: Measure) -> str:
    """Return a score as "97.2%"; an R² as "0.972"; an error as "12.34"."""
    if measure.as_share or value is None:
        return share(value)
    if not measure.is_usual:
        return f"{value:.4g}"
    return f"{value:.3f}"


def scored(value: float, measure: Measure) -> str:
    """Return a score for a sentence: "97.2% accuracy", "an R² of 0.972"."""
    return f"{score(value, measure)} {measure.name}" if measure.as_share else f"an {measure.name} of {value:.3f}"


def level(value: float, measure: Measure) -> str:
    """Return a target in short form: "80%", "R² 0.8", "f1-macro 80%"."""
    if not measure.is_usual:
        return f"{measure.name}\u00a0{percent(value) if measure.as_share else f'{value:.4g}'}"
    return percent(value) if measure.as_share else f"{measure.name}\u00a0{value:.4g}"


def aim(value: float, measure: Measure) -> str:
    """Return a target for a sentence: "80% accuracy", "an R² of 0.8", "f1-macro 80%"."""
    if not measure.is_usual:
        return level(value, measure)
    return f"{percent(value)} {measure.name}" if measure.as_share else f"an {measure.name} of {value:.4g}"


def capital(text: str) -> str:
    """Return the text with its first letter capitalised."""
    return text[:1].upper() + text[1:]


def visit_outcome(name: str) -> str:
    """Return the word for an outcome of a visit; the records call a rejected update "refused"."""
    return "rejected" if name == "refused" else name


def lost_visits(counts: Mapping[str, int]) -> list[str]:
    """Return the numbers of lost visits: ["3 late", "1 rejected"]. counts: by outcome, as in a summary."""
    return [f"{count:,} {visit_outcome(name)}" for name, count in counts.items() if count]


def failures(fields: Mapping[str, Any]) -> list[str]:
    """Return what went wrong in the runs of one strategy of a comparison: ["3 of 5 runs diverged"]."""
    failed = fields.get("failed") or {}
    of = failed.get("of", 1)
    verbs = {"diverged": "diverged", "untrained": "learned nothing", "stood_still": "stood still"}
    runs = "run" if of == 1 else "runs"
    return [f"{failed[name]} of {of} {runs} {verb}" for name, verb in verbs.items() if failed.get(name)]


def outcome(summary: Mapping[str, Any]) -> str:
    """Return what went wrong in one run, "diverged: the last loss is not finite (first at 2 s)"; empty if nothing."""
    problems, counted = [], summary.get("not_finite") or {}
    match failure(summary):
        case "diverged":
            problems.append(f"diverged: {reason(summary['diverged'])}")
        case "untrained":
            problems.append("nothing was learned: no visit led to a commit" if summary["visits"] else "nobody trained")
        case "stood_still":
            problems.append(f"the model stands still since {seconds(summary['still_since_s'])}")
    numbers = {"evaluation": counted.get("evaluations"), "update": counted.get("updates")}
    if some := [f"{count:,} {what}{'s' if count > 1 else ''}" for what, count in numbers.items() if count]:
        problems.append(f"not finite: {listed(some)}, first at {seconds(counted['first_s'])}")
    return "; ".join(problems)


def endings(row: Mapping[str, Any]) -> str:
    """Return what ended the runs of a strategy: "bytes", or "2 patience, 1 horizon" if it differs between seeds."""
    counts = Counter(str(ended).replace("_", " ") for ended in row["ended"]["values"])
    return ", ".join(f"{count} {ended}" for ended, count in counts.items()) if len(counts) > 1 else next(iter(counts))


def headline(comparison: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the result of a comparison in one sentence, with the runs that failed, and a list of details."""
    title, details = _result(comparison)
    failed = [f"{name}: {', '.join(some)}" for name, row in comparison["strategies"].items() if (some := failures(row))]
    return "; ".join([title, *failed]), details


def _result(comparison: Mapping[str, Any]) -> tuple[str, list[str]]:
    strategies: Mapping[str, Any] = comparison["strategies"]
    target, measure = target_of_all(comparison), measure_of_all(comparison)
    medians = {name: fields["time_to_target_s"]["median"] for name, fields in strategies.items()}
    reached = sorted((time, name) for name, time in medians.items() if time is not None)
    if target is None or not reached:
        return _by_score(strategies, target, comparison["horizon_s"], measure)
    time, best = reached[0]
    goal = aim(target.value, target.measure)
    title = f"{best} reaches {goal} after {seconds(time)}"
    if len(reached) > 1:
        second_time, second = reached[1]
        if seconds(second_time) == seconds(time):
            title = f"{best} and {second} reach {goal} after {seconds(time)}"
        else:
            title += f", {second} after {seconds(second_time)}"
            title += f" ({_apart(comparison, second, time, second_time)})" if _later(time, second_time) else ""
    elif len(strategies) > 1:
        title += "; no other strategy does"
    details = [f"{name} needs {seconds(time)}." for time, name in reached[2:]]
    missed = [name for name, time in medians.items() if time is None]
    if missed and len(reached) > 1:
        details.append(f"{listed(missed)} {'does' if len(missed) == 1 else 'do'} not reach it.")
    return title, [*details, *_with_some_seeds(strategies)]


def _later(time: float, second_time: float) -> bool:
    return bool(time) and second_time / time >= 1.005


def _apart(comparison: Mapping[str, Any], second: str, time: float, second_time: float) -> str:
    """Return how much later the second is: over paired seeds with the interval, or by its median if that is all."""
    shown = ((comparison.get("statistics") or {}).get("strategies") or {}).get(second, {}).get("to_first")
    if shown is None:
        return ratio(second_time / time)
    return f"{bounded_ratio(shown)}, {interval_of_ratio(shown)}"


def _with_some_seeds(strategies: Mapping[str, Any]) -> list[str]:
    counted = {name: fields["time_to_target_s"] for name, fields in strategies.items()}
    return [
        f"{name} reaches it with {counts['reached']} of {counts['of']} seeds."
        for name, counts in counted.items()
        if 0 < counts["reached"] < counts["of"]
    ]


def _by_score(
    strategies: Mapping[str, Any], target: Target | None, horizon: float | None, measure: Measure
) -> tuple[str, list[str]]:
    finals = {name: fields["final_accuracy"]["mean"] for name, fields in strategies.items()}
    # Strategies with diverged runs rank last: their mean leaves those runs out.
    diverged = {name: bool((fields.get("failed") or {}).get("diverged")) for name, fields in strategies.items()}
    ranked = sorted((not diverged[name], value, name) for name, value in finals.items() if value is not None)
    measured = [(value, name) for _, value, name in reversed(ranked)]
    missed, details = [], []
    if target is not None and measured:
        details = _with_some_seeds(strategies)
        alone = f"{measured[0][1]} does not reach" if details else "The run does not reach"
        who = "No strategy reaches" if len(strategies) > 1 else alone
        within = f" within {seconds(horizon)}" if horizon else ""
        missed = [f"{who} {aim(target.value, target.measure)}{within}{' with most seeds' if details else ''}"]
    if measured:
        value, name = measured[0]
        value_text = score(value, measure) if missed else scored(value, measure)
        if len(strategies) == 1:
            ending = f"it ends at {value_text}" if missed else f"{name} ends at {value_text}"
        else:
            ending = f"{name} ends highest, at {value_text}"
        return "; ".join([*missed, ending]), details
    busy = {name: fields["busy_ratio"]["mean"]["mean"] for name, fields in strategies.items()}
    name = max(busy, key=lambda label: busy[label])
    most = "the most" if len(strategies) > 1 else "on average"
    return f"{name} keeps clients busy {most}: {share(busy[name])} of the time", ["The runs had no training."]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    return f"{value:,.{0 if value == int(value) else _digits(value)}f}{unit}"


def _digits(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2


def _factor(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 1.05 else f"{value:.2f}"

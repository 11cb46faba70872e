"""SVG calendars of a small fleet: which client works when under a strategy, drawn from a run without training.

Each picture is complete without JavaScript; docs/assets/calendar.js animates it.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.record.run import Records
from fedtempo.report.palette import category_colour
from fedtempo.runs.config import parse
from fedtempo.runs.run import run

SECONDS = 40.0
VISIT_S = [1.0, 1.4, 1.8, 2.3, 2.9, 3.6, 4.4, 5.2, 6.0]
"""Computing time of each client, from fastest to slowest. A download takes another 0.25 s, an upload 0.35 s."""

_WIDTH, _LEFT, _TOP, _ROW, _BAR = 860, 92, 26, 24, 16
_BOTTOM = _TOP + _ROW * len(VISIT_S)
_HEIGHT = _BOTTOM + 30
_SCALE = (_WIDTH - _LEFT - 12) / SECONDS
_CONTROLS = (
    '<span class="controls" hidden=""><button type="button" class="play" aria-label="Let time pass">▶</button>'
    f'<input type="range" min="0" max="{SECONDS:g}" step="0.1" value="{SECONDS:g}" aria-label="Seconds of the run"/>'
    f"<output>{SECONDS:.1f} s</output></span>"
)
_SETTINGS: dict[str, dict[str, Any]] = {
    "ace": {},
    "async-memory": {},
    "asyncsgd": {},
    "ca2fl": {"buffer": 4},
    "centralized": {"round_s": 10.0},
    "csgd": {"n_clusters": 3, "channels": 1, "mode": "local-sgd"},
    "ditto": {"clients_per_round": 4},
    "fadas": {"buffer": 4},
    "favas": {"clients_per_round": 4},
    "fch": {"clients_per_round": 3},
    "fedasync": {},
    "fedat": {"tiers": 3},
    "fedavg": {},
    "fedbuff": {"buffer": 4},
    "fedcompass": {"most_steps": 4},
    "fedcs": {"candidates": 1.0, "deadline_s": 5.5},
    "feddyn": {"clients_per_round": 4},
    "fedhusky": {"clusters": "labels"},
    "fedhusky-paper": {"clusters": "labels"},
    "fednova": {"clients_per_round": 4},
    "fedprox": {"clients_per_round": 4},
    "fedrep": {"clients_per_round": 4},
    "fedstale": {"clients_per_round": 4},
    "fedvarp": {"clients_per_round": 4},
    "hierfavg": {"edges": 3, "cloud_s": 2.0},
    "hybrid": {"clusters": "labels"},
    "hybrid-fl": {"candidates": 1.0, "deadline_s": 5.5, "selection": "max-clients"},
    "mifa": {},
    "moon": {"clients_per_round": 4},
    "oort": {"clients_per_round": 4},
    "power-of-choice": {"candidates": 6, "clients_per_round": 3},
    "per-fedavg": {"clients_per_round": 4},
    "psfl": {"width": 3, "length": 3},
    "quafl": {"clients_per_round": 4},
    "refl": {"clients_per_round": 4, "rest_rounds": 1},
    "rescaled-asgd": {},
    "ringleader": {},
    "safa": {"fraction": 0.4},
    "sequential": {},
    "timelyfl": {},
    "tifl": {"tiers": 3, "clients_per_round": 3, "interval": 20},
}


def three_kinds(each: int = 90) -> Dataset:
    """Return a data set with three classes and nothing to learn, for schedules without training."""
    labels = np.arange(3 * each) % 3
    examples = np.zeros((3 * each, 4), np.float32)
    return from_arrays("three kinds", examples, labels, examples, labels)


@lru_cache(maxsize=32)
def _records(strategy: str) -> tuple[dict[str, Any], Records]:
    """Run a strategy on the small fleet; return its summary and records."""
    config = parse(
        {
            "run": {"horizon": SECONDS},
            "data": {
                "source": "tools.site.calendars:three_kinds",
                "clients": len(VISIT_S),
                "examples_per_client": 20,
                "tell_labels": True,
                "share_examples": 0.34,
                "partition": "one-label",
            },
            "model": {"network": "logistic", "size_bytes": 1000},
            "training": {"lr": 0.1},
            "fleet": {
                "compute": {"unit": "s/visit", "kind": "list", "values": VISIT_S},
                "link": {"kind": "fixed", "download_s": 0.25, "upload_s": 0.35},
                "estimates": "exact",
            },
            "strategy": {"name": strategy, **_SETTINGS.get(strategy, {})},
            "executor": {"kind": "none"},
        }
    )
    summary, records, _ = run(config)
    return summary, records


def measures(strategy: str) -> dict[str, float]:
    """Return the measures of a calendar: mean busy ratio, commits, visits, mean staleness of commits."""
    summary, _ = _records(strategy)
    return {
        "busy": summary["busy_ratio"]["mean"],
        "commits": summary["commits"],
        "visits": summary["visits"],
        "staleness": summary["staleness"]["mean"] or 0.0,
    }


def calendar_figure(strategy: str) -> str:
    """Return the calendar of a strategy as one HTML element, with a description for screen readers."""
    records, told = _records(strategy)[1], measures(strategy)
    columns = ("client", "group", "base_version", "started", "received", "computed", "finished")
    visits = zip(*(records.visits[column].tolist() for column in columns), strict=True)
    name = f"calendar-{strategy}"
    svg = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="{name}-title {name}-text">',
        f'<title id="{name}-title">Calendar of {html.escape(strategy)}: nine clients in {SECONDS:g} seconds</title>',
        f'<desc id="{name}-text">{_words(strategy, told)}</desc>',
        f'<clipPath id="{name}-clip"><rect class="seen" x="0" y="0" width="{_WIDTH}" height="{_HEIGHT}"/></clipPath>',
        *_axes(),
        f'<g clip-path="url(#{name}-clip)">',
        *map(_bar, visits),
        *map(_commit, itertools.count(1), records.commits["time"].tolist()),
        "</g>",
        f'<line class="now" x1="0" x2="0" y1="{_TOP - 4}" y2="{_BOTTOM}" visibility="hidden"/>',
        "</svg>",
    ]
    return (
        f'<figure class="calendar" data-left="{_LEFT}" data-scale="{_SCALE:.4f}" data-seconds="{SECONDS:g}">'
        f"{''.join(svg)}<figcaption>{_CONTROLS}<span>{_caption(told)}</span></figcaption></figure>"
    )


def _axes() -> Iterator[str]:
    """Draw a line and a number every five seconds, and the computing time of each client."""
    for second in range(0, int(SECONDS) + 1, 5):
        x, unit = _x(second), "" if second else " s"
        yield f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{_BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{second}{unit}</text>'
    for client, seconds in enumerate(VISIT_S):
        y = _TOP + _ROW * client + _BAR - 3
        yield f'<text x="{_LEFT - 10}" y="{y}" text-anchor="end">{seconds:.1f} s a visit</text>'


def _commit(number: int, time: float) -> str:
    shape = f"M{_x(time):.1f} {_TOP - 6}l-4 -8h8z"
    return f'<path class="commit" d="{shape}"><title>model {number} at {time:.1f} s</title></path>'


def _bar(row: tuple[Any, ...]) -> str:
    """Draw one visit; download and upload are paler than computing."""
    client, group, version, started, received, computed, finished = row
    end = min(finished, SECONDS)
    y = _TOP + _ROW * client
    colour = category_colour(int(group if group >= 0 else version))
    phases = [(started, received, 0.45), (received, computed, 1.0), (computed, finished, 0.45)]
    rects = []
    for begins, ends, opacity in phases:
        if begins != begins or begins >= end:  # NaN: the visit did not reach this phase
            continue
        ends = end if ends != ends else min(ends, end)
        x, width = _x(begins), max((ends - begins) * _SCALE - 0.6, 0.4)
        rects.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}" fill-opacity="{opacity}"/>'
        )
    of_group = f"group {group}, " if group >= 0 else ""
    return f"<g><title>{of_group}model {version}: {started:.1f} to {end:.1f} s</title>{''.join(rects)}</g>"


def _x(seconds: float) -> float:
    return _LEFT + seconds * _SCALE


def _caption(told: Mapping[str, float]) -> str:
    counted = _counted(told["visits"], "visit"), _counted(told["commits"], "new model")
    return " · ".join([f"{told['busy']:.0%} busy", *counted])


def _words(strategy: str, told: Mapping[str, float]) -> str:
    return html.escape(
        f"Under {strategy} nine clients, whose visits compute for {VISIT_S[0]:g} to {VISIT_S[-1]:g} seconds, are busy "
        f"{told['busy']:.0%} of the time on average. In {SECONDS:g} seconds they make "
        f"{_counted(told['visits'], 'visit')}, and the server {_counted(told['commits'], 'new global model')}, "
        f"on average {told['staleness']:.1f} versions behind."
    )


def _counted(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"

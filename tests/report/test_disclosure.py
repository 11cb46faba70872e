"""The table of data that leaves clients."""

from __future__ import annotations

import dataclasses
import importlib.util
import re

import pytest

from fedtempo.record import Recorder
from fedtempo.report.disclosure import leaving
from fedtempo.runs.run import run
from tests.runtime.test_averaging import PRIVACY, configured

SHARES = {"run.horizon": 30.0}


def cells(text: str) -> dict[str, list[str]]:
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]
    return {row[0]: row[2:] for row in rows}


def test_each_kind_of_data_is_listed_with_its_bytes() -> None:
    quiet = {"data.tell_labels": False, "data.share_examples": 0.0}
    runs = {
        "hybrid-fl": run(configured("hybrid-fl", SHARES | {"strategy.uploaders": "all"}))[1],
        "hybrid": run(configured("hybrid", SHARES))[1],
    }
    runs["quiet"] = run(configured("fedavg", SHARES | quiet))[1]
    left = {label: records.facts["left_clients"] for label, records in runs.items()}
    for label, records in runs.items():
        moved = records.facts["bytes"]
        assert left[label]["parameters"] + left[label]["examples"] == moved["up"] + moved["relay"]
        # A visit reports its mean loss; visits that only upload examples do not train and report nothing.
        trained = (records.visits["outcome"] == "done") & (records.visits["examples"] > 0)
        assert left[label]["statistics"] == 8 * trained.sum()
    assert left["hybrid-fl"]["examples"] > 0
    assert left["hybrid"]["parameters"] > 0
    assert left["hybrid"]["histograms"] == 20 * 10 * 8
    assert (left["quiet"]["histograms"], left["quiet"]["examples"]) == (0, 0)
    table = cells(leaving(runs))
    assert table["what"] == ["hybrid-fl", "hybrid", "quiet"]
    assert table["label histograms"] == ["1.6 kB", "1.6 kB", "nothing"]
    assert table["raw examples"][1:] == ["nothing", "nothing"]
    assert table["raw examples"][0] != "nothing"


@pytest.mark.skipif(importlib.util.find_spec("dp_accounting") is None, reason="needs dp-accounting")
def test_the_protection_of_each_kind_is_stated() -> None:
    _, records, _ = run(configured("fedavg", SHARES | {"server.privacy": PRIVACY, "data.label_noise_epsilon": 0.5}))
    text = leaving({"a <b>": records})
    spent = records.facts["privacy"]
    assert (
        f"a &lt;b&gt;: averages of parameters are differentially private for each client, ε = {spent['epsilon']:.3g}"
        in text
    )
    assert "ε = 0.5" in text
    assert cells(text)["statistics of a visit"] == ["nothing"]


def test_a_record_without_facts_about_data_has_no_table() -> None:
    recorder = Recorder(None)
    records = recorder.records()
    recorder.close()
    assert leaving({"old": dataclasses.replace(records, facts={})}) == ""

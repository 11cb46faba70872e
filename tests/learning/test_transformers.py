"""Text classifiers of transformers with LoRA adapters; skipped without the extra `transformers`."""

from __future__ import annotations

import runpy
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo import Experiment
from fedtempo.data.sources import load
from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.learning.transformer import Transformer
from fedtempo.runs.config import Config, parse
from fedtempo.runs.config import load as load_config
from fedtempo.runs.launch import make_job
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from tests.deploy.live.loopback import Loopback

EXAMPLE = Path(__file__).parents[2] / "examples" / "lora"
needs_libraries = pytest.mark.transformers

ADAPTERS = 2 * (4 * 32 + 32 * 4)
"""One layer; query and value; A of (r, 32) and B of (32, r) with r = 4."""
HEAD = 2 * 32 + 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the example, with its table and tokenizer."""
    path = tmp_path_factory.mktemp("lora")
    for name in ("make_data.py", "lora.toml"):
        shutil.copy(EXAMPLE / name, path)
    runpy.run_path(str(path / "make_data.py"), run_name="__main__")
    return path


def config(folder: Path, **changes: Any) -> Config:
    settings = load_config(folder / "lora.toml").with_changes({"run.horizon": 60.0, "executor.kind": "inline"})
    return settings.with_changes({name.replace("__", "."): value for name, value in changes.items()})


@needs_libraries
def test_only_adapters_and_the_head_are_trained(folder: Path) -> None:
    settings = config(folder)
    sections = make_job(settings, build_world(settings)).model().sections
    assert sections.trainable == ADAPTERS + HEAD
    assert sections.statistics == 0
    assert sections.frozen > 10 * sections.trainable
    job = make_job(settings, build_world(settings))
    first, second = job.model().vector, job.model().vector
    assert np.array_equal(first.numpy(), second.numpy())
    _, _, trained = run(config(folder, run__horizon=15.0))
    assert trained is not None
    assert np.array_equal(trained[sections.moving :], first.numpy()[sections.moving :])
    assert not np.array_equal(trained[: sections.moving], first.numpy()[: sections.moving])


@needs_libraries
def test_a_visit_moves_the_bytes_of_the_adapters_and_the_head(folder: Path) -> None:
    """Five clients, two commits, and a third round that begins; each client also downloads the frozen base once."""
    settings = config(folder, run__max_commits=2, run__horizon=60.0, fleet__link="none")
    sections = make_job(settings, build_world(settings)).model().sections
    result = Experiment.of(settings).run()
    assert result.summary["bytes"]["up"] == 10 * 4 * (ADAPTERS + HEAD)
    assert result.summary["bytes"]["down"] == 15 * 4 * (ADAPTERS + HEAD) + 5 * 4 * sections.frozen
    assert result.records.facts["size_bytes"] == 4 * (ADAPTERS + HEAD)

    named = result.state_dict()
    adapters = sum(value.numel() for name, value in named.items() if "lora_" in name)
    assert adapters == ADAPTERS
    assert all(np.array_equal(value, named[name]) for name, value in result.network().state_dict().items())

    only = run(settings.with_changes({"model.exchange": ["*lora_*"], "run.evaluate_clients": 0}))[0]
    assert only["bytes"]["up"] == 10 * 4 * ADAPTERS


@needs_libraries
def test_the_example_learns(folder: Path) -> None:
    summary, records, _ = run(config(folder))
    about = "classes of 'opinion': bad, good, from 16 tokens of 'review', 5 clients by 'city'"
    assert records.facts["data"]["about"].startswith(about)
    losses = records.evaluations["loss"]
    assert losses[-1] < losses[0] / 2
    assert summary["final_accuracy"] > 0.75


@needs_libraries
def test_executors_and_deployments_give_the_same_bits(folder: Path, tmp_path: Path) -> None:
    settings = config(folder, run__horizon=8.0)
    expected = run(settings)[0]["model_sha256"]
    workers = settings.with_changes({"executor.kind": "processes", "executor.workers": 2})
    assert run(workers)[0]["model_sha256"] == expected

    # Clients share this process and with it the generator of dropout.
    live = {"model.config.hidden_dropout_prob": 0.0, "model.config.attention_probs_dropout_prob": 0.0}
    live |= {"run.max_commits": 2, "fleet.link": "none", "fleet.estimates": {"kind": "observed", "prior_s": 0.1}}
    deployed = settings.with_changes(live)
    names = ["bergen", "ghent", "lyon", "porto", "turin"]
    data = {**settings.given["data"], "clients": 5, "partition": "by-owner"}
    clients = [
        Answers(parse_client({"name": name, "insecure": True, "data": {**data, "part": i}}))
        for i, name in enumerate(names)
    ]
    with closing(Loopback(clients)) as grid:
        summary = deploy_to_folder(deployed, tmp_path / "run", grid)
    assert summary["model_sha256"] == run(deployed)[0]["model_sha256"]


@needs_libraries
def test_a_pretrained_model_is_read_from_a_folder(folder: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    kind = dict(config(folder).given["model"]["config"])
    made = transformers.AutoConfig.for_model(kind.pop("model_type"), num_labels=7, **kind)
    torch.manual_seed(3)
    transformers.AutoModel.from_config(made).save_pretrained(tmp_path / "pretrained")
    tables = {**config(folder).given, "model": {"network": "transformers", "pretrained": str(tmp_path / "pretrained")}}
    settings = parse(tables)
    model = make_job(settings, build_world(settings)).model()
    assert model.sections.frozen == 0
    torch.manual_seed(3)
    reference = transformers.AutoModel.from_config(made)
    ours = model.module.bert.encoder.state_dict()
    for name, value in reference.encoder.state_dict().items():
        assert torch.equal(ours[name], value)
    call = {"network": {**tables["model"]}, "n_classes": 2, "seed": 1, "layout": model.layout}
    data = {**tables["data"], "clients": 5, "partition": "by-owner", "part": 0}
    content = {"stay": 1, "job": call, "client": 0, "visit": 1, "training": {"lr": 0.1}}
    vector = model.vector.numpy().copy()
    refused = Answers(parse_client({"name": "c", "insecure": True, "data": data})).answer("train", content, (vector,))
    assert "is not among `networks` in this client's TOML" in refused[0]["refused"]
    agreed = {"name": "c", "insecure": True, "data": data, "networks": [str(tmp_path / "pretrained")]}
    assert "statistics" in Answers(parse_client(agreed)).answer("train", content, (vector,))[0]


@needs_libraries
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model__config": {}}, r"config: needs model_type, such as 'bert', unless pretrained names a model"),
        ({"model__config__hidden": 3}, r"model.config.hidden: unknown key of bert; did you mean 'hidden_"),
        (
            {"model__config__model_type": "nosuch"},
            "'transformers': Unrecognized model identifier: nosuch",
        ),
        ({"model__config__vocab_size": 8}, r"model.config.vocab_size = 8: table:.* has tokens up to \d+"),
        ({"model__config__max_position_embeddings": 4}, "examples have 16 tokens, but max_position_embeddings is 4"),
        ({"model__lora": {"rank": 2}}, "model.network = 'transformers': .*unexpected keyword argument 'rank'"),
        ({"model__lora": {"target_modules": ["no"]}}, "model.network = 'transformers': No modules were targeted"),
        ({"model__pretrained": "/no/such/folder"}, "model.network = 'transformers': .*no/such/folder"),
        (
            {"data__options": {"label": "opinion", "features": ["review"], "tokenizer": "a/b/c"}},
            "tokenizer = 'a/b/c'",
        ),
        ({"data__source": "digits", "data__options": {}}, "needs tokens, and digits has none; set data.options.tokeni"),
    ],
)
def test_wrong_settings_are_named_in_one_line(folder: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        run(config(folder, **changes))
    assert "\n" not in str(error.value)


def test_without_the_libraries_errors_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    (tmp_path / "texts.csv").write_text("text,label\n" + "one,a\ntwo,b\n" * 10)
    with pytest.raises(ConfigError, match=r"tokenizer = 'x': needs transformers: pip install 'fedtempo\[transf"):
        load(f"table:{tmp_path}/texts.csv", tokenizer="x")
    with pytest.raises(ConfigError, match=r"model.network = 'transformers': .*: pip install 'fedtempo\[transf"):
        Transformer(config={"model_type": "bert"}).build((4,), 2)


def test_a_tokenizer_needs_one_column_of_text(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,other,label\n" + "one,1,a\ntwo,2,b\n" * 10)
    with pytest.raises(ConfigError, match="tokenizer: needs one column of text, not text, other; set features"):
        load(f"table:{tmp_path}/texts.csv", tokenizer="x")
    with pytest.raises(ConfigError, match=r"texts.csv: row 2: 'other' is 1, not text"):
        load(f"table:{tmp_path}/texts.csv", tokenizer="x", features=["other"])

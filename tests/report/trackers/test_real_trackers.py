"""The real TensorBoard, MLflow and Weights & Biases; each is skipped unless installed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fedtempo.record import load_run
from fedtempo.report.trackers import tracking
from tests.report.trackers.test_tracking import run


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer: MLflow creates its database first, which takes a while on a busy machine."""
    monkeypatch.setattr(tracking, "PATIENCE_S", 600.0)


def test_tensorboard_receives_a_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs TensorBoard (extra trackers)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(tmp_path / "run", "tensorboard")
    events = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    records = load_run(tmp_path / "run")
    points = events.Scalars("evaluation/accuracy")
    assert [point.value for point in points] == pytest.approx(records.evaluations["accuracy"].tolist())
    assert [p.wall_time - points[0].wall_time for p in points] == pytest.approx(records.evaluations["time"], abs=1e-3)
    assert points[-1].step == int((records.visits["finished"] <= records.evaluations["time"][-1]).sum())
    assert records.summary is not None
    assert events.Scalars("summary/busy_ratio.mean")[0].value == pytest.approx(records.summary["busy_ratio"]["mean"])
    assert b"clients_per_round" in events.Tensors("configuration/text_summary")[0].tensor_proto.string_val[0]


def test_mlflow_receives_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow.store.tracking.sqlalchemy_store", reason="needs MLflow (extra trackers)")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    from mlflow import MlflowClient

    run(tmp_path / "run", "mlflow")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("fedtempo")
    (logged_run,) = client.search_runs([experiment.experiment_id])
    records = load_run(tmp_path / "run")
    points = client.get_metric_history(logged_run.info.run_id, "evaluation/accuracy")
    assert sorted(p.value for p in points) == pytest.approx(sorted(records.evaluations["accuracy"].tolist()))
    assert logged_run.info.status == "FINISHED"
    assert logged_run.info.run_name == "fedavg-seed1"
    assert logged_run.data.params["strategy.name"] == "fedavg"
    assert records.summary is not None
    assert logged_run.data.metrics["summary/visits"] == records.summary["visits"]
    files = {file.path for file in client.list_artifacts(logged_run.info.run_id)}
    assert files == {"config.toml", "environment.json", "summary.json"}


def test_wandb_receives_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs Weights & Biases (extra trackers)")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run(tmp_path / "run", "wandb")
    (folder,) = (tmp_path / "run/wandb").glob("offline-run-*")
    (written,) = folder.glob("*.wandb")
    until = time.monotonic() + 60
    while (
        b"evaluation/accuracy" not in written.read_bytes()
    ):  # written by a separate process of W&B, a moment after the run has finished
        assert time.monotonic() < until
        time.sleep(0.1)
    assert {"config.toml", "summary.json"} <= {path.name for path in (folder / "files").iterdir()}

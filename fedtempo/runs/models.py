"""The models that a run leaves: in memory, and in its folder as named tensors that plain PyTorch loads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError, RunError
from fedtempo.learning.naming import Naming
from fedtempo.record import Recorder, RunFolder
from fedtempo.record.models import model_sha256, read_arrays, write_arrays
from fedtempo.runs.client_layers import ClientLayers
from fedtempo.runtime.runner import Outcome

Vector = npt.NDArray[np.float32]

KINDS = ("last", "best")
"""The models that `run.keep` names."""


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model as a flat vector, and the names of its parts. layers: what clients keep of it, if the run kept it."""

    vector: Vector
    naming: Naming
    layers: ClientLayers | None = None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return its tensors by name, with ordinary strides, as `torch.nn.Module.load_state_dict` expects them."""
        return self.naming.named(self.vector)


TrainedModels = Mapping[str, TrainedModel]
"""Models by kind (`KINDS`); empty without training."""


def models_of(outcome: Outcome, naming: Naming, layers: ClientLayers | None = None) -> TrainedModels:
    """Return the models of a run that has ended. layers: what clients keep of the last one."""
    vectors = {"last": outcome.model, "best": None if outcome.best is None else outcome.best[1]}
    return {
        kind: TrainedModel(vector, naming, layers if kind == "last" else None)
        for kind, vector in vectors.items()
        if vector is not None
    }


def record_models(recorder: Recorder, outcome: Outcome, layers: ClientLayers | None = None) -> None:
    """Record the facts about a run's models, and about the layers that clients keep."""
    if layers is not None:
        recorder.fact("client_layers", {"clients": len(layers.clients), "sha256": layers.sha256})
    recorder.fact("model_sha256", None if outcome.model is None else model_sha256(outcome.model))
    if outcome.best is not None:
        best, vector = outcome.best
        about = {"version": best.model.version, "time_s": best.time, "accuracy": best.accuracy, "loss": best.loss}
        if best.validation is not None:
            about["validation_accuracy"] = best.validation
        recorder.fact("best_model", {**about, "sha256": model_sha256(vector)})


def model_path(folder: Path, kind: str) -> Path:
    """Return the file of a model in a run folder, whether or not it exists."""
    return RunFolder(folder).models / f"{kind}.safetensors"


def write_models(folder: Path, models: TrainedModels, keep: Collection[str]) -> None:
    """Write the models to keep to their files in a run folder. Raises RunError if one cannot be written."""
    for kind, model in models.items():
        if kind in keep:
            write_arrays(model_path(folder, kind), model.arrays(), model.naming.metadata())
        if model.layers is not None:
            model.layers.write(folder)


def read_model(folder: Path, kind: str, sha256: str) -> TrainedModel:
    """Read a model from a run folder, which may come from anybody.

    sha256: of its flat vector, as recorded. Raises ConfigError if the folder has no such model or its file leads
    elsewhere, RunError if it is damaged.
    """
    path = model_path(folder, kind)
    content = read_arrays(folder, str(path.relative_to(folder)))
    if content is None:
        raise ConfigError(f"{path} does not exist; a run with run.keep = [{kind!r}] keeps it")
    arrays, metadata = content
    try:
        naming = Naming.of_file(arrays, metadata)
        model = TrainedModel(naming.flat(arrays), naming)
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if model_sha256(model.vector) != sha256:
        raise RunError(f"{path} is damaged: its parameters do not have the recorded hash")
    return model

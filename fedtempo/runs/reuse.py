"""Open the store of results for a run, and say what the run's results depend on (`executor.reuse`)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.data.cache_dir import cache_folder
from fedtempo.data.phases import name_and_phase
from fedtempo.errors import ConfigError
from fedtempo.learning.metric_values import Metrics
from fedtempo.learning.metrics import Asked, OwnMetric
from fedtempo.record.folder import processor, versions
from fedtempo.record.result_store import ResultStore
from fedtempo.runs.config import Config
from fedtempo.runs.identity import deciding_files, own_code_sha256
from fedtempo.runs.users_code import modules_in, unchanged, users_code
from fedtempo.runs.world import World
from fedtempo.runtime.executors import Executor, On
from fedtempo.runtime.executors.recipes import Recipes, encoded
from fedtempo.runtime.executors.reusing import Reusing

if TYPE_CHECKING:
    from fedtempo.learning.state import FlatModel
    from fedtempo.learning.training import Training
    from fedtempo.runtime.executors.job import Job

_NOT_COMPUTING = ("ray", "flwr")
"""Packages that bits do not depend on."""

_SWITCHES = ("ATEN_", "DNNL_", "MKL_", "NPY_", "ONEDNN_", "OPENBLAS_", "TORCH_", "CUBLAS_", "NVIDIA_TF32")
"""Beginnings of environment variables that choose instructions or algorithms."""


def reusing(config: Config, world: World, job: Job, make: Callable[[], Executor]) -> Reusing:
    """Return an executor that reuses results, and computes others with the executor that `make` returns.

    Raises ConfigError if the store cannot be used, or code that results depend on has no file.
    """
    settings = config.executor
    model = job.model()
    recipes = recipes_of(config, world, model, job.personalise)
    try:
        store = ResultStore(_folder(settings.reuse_folder), settings.reuse_bytes)
    except ConfigError as error:
        raise ConfigError(f"executor.reuse_folder: {error}") from error
    return Reusing(make, store, recipes, model)


def _folder(configured: str | None) -> Path:
    if configured is not None:
        return Path(configured).expanduser()
    if (caches := cache_folder()) is None:
        raise ConfigError("is missing, and this user has no home folder")
    return caches / "results"


def recipes_of(config: Config, world: World, model: FlatModel, personalise: Training | None = None) -> Recipes:
    """Return what the results of a run's operations depend on.

    That is the whole of `Job`, field by field, and what it is computed with. model: the initial model. personalise: as
    in `Job`.
    """
    dataset, tables = world.dataset, config.tables
    named = modules_in([tables["model"], tables["server"], config.data.augment])
    trains_with = _outside([*named, type(config.network).__module__])

    @cache
    def code() -> bytes:
        return users_code([*trains_with, *_outside([type(config.strategy).__module__])])

    common = {
        "network": config.network_table,
        "fixed": _fixed_sha256(model),
        "layout": model.naming.metadata(),
        "exchange": repr(config.exchange),
        "task": [dataset.task, dataset.n_classes],
        "augment": config.data.augment,
        "compression": tables["server"].get("compression"),
        "drift": repr(config.quality.drift) if world.drifting is not None else None,
        "faults": repr(world.fleet.faults) if world.fleet.faults.total else None,
        "seed": config.run.seed,
        "computed_by": _computed_by(config),
        "users_code": code().hex() if trains_with else None,
    }
    batch, own_tests = config.run.evaluation_batch, world.client_tests or []
    measured = _measured(config.run.metrics, dataset.n_classes)

    n_clients = len(world.clients)

    @cache
    def tests(on: On) -> bytes:
        kind = name_and_phase(on)[0] if isinstance(on, str) else ""
        if kind in ("test", "validation"):
            selected = world.test if kind == "test" else world.validation
            assert selected is not None
            digest = hashlib.sha256(dataset.sha256.encode())
            selected.hash_into(digest.update)
            return encoded([digest.digest(), batch, measured])
        held = own_tests if kind == "clients" else [own_tests[int(on) % n_clients]]
        rows = [_rows_sha256(dataset.sha256, each) for each in held]
        return hashlib.sha256(encoded([rows, world.tests_from_data, batch])).digest()

    return Recipes(
        common=_sha256(json.dumps(common, sort_keys=True, default=str)),
        clients=cache(lambda holder: _rows_sha256(dataset.sha256, world.owned[holder % n_clients])),
        tests=tests,
        data=bytes.fromhex(dataset.sha256),
        users_code=code,
        personalise=personalise,
    )


def _measured(metrics: Sequence[Asked], n_outputs: int) -> list[Any]:
    """Return what decides the values of metrics, besides the test examples and fedtempo's code."""
    functions = [entry.function for entry in metrics if isinstance(entry, OwnMetric)]
    Metrics(metrics, n_outputs)  # loads the modules of functions
    return [*map(repr, metrics), *([users_code(_outside(modules_in(functions)))] if functions else [])]


def _outside(modules: Iterable[str]) -> list[str]:
    """Return the modules that are not fedtempo's."""
    return [module for module in modules if module.partition(".")[0] not in ("fedtempo", "builtins")]


def _computed_by(config: Config) -> dict[str, Any]:
    """Return the code, packages, processor and switches that decide the last bits of a computation."""
    import torch

    facts = {
        **_installed(),
        "precision": [
            str(torch.get_default_dtype()),
            torch.get_float32_matmul_precision(),
            torch.backends.mkldnn.enabled,
        ],
        "switches": {name: value for name, value in os.environ.items() if name.startswith(_SWITCHES)},
    }
    if (device := config.executor.device) != "cpu" and torch.cuda.is_available():
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        facts["device"] = [torch.cuda.get_device_name(device), torch.version.cuda, cudnn, config.executor.graphs]
    return facts


@cache
def _installed() -> dict[str, Any]:
    """Return the part of `_computed_by` that stays the same while a process lives."""
    import torch

    return {
        "code": own_code_sha256() + unchanged(deciding_files()).hex(),
        "packages": {name: version for name, version in versions().items() if name not in _NOT_COMPUTING},
        "torch": torch.__config__.show(),
        "machine": [platform.system(), platform.machine(), processor(), _processor_flags()],
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _processor_flags() -> str | None:
    """Return the instruction sets that the system lists, which a virtual machine may hide."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line for line in lines if line.startswith(("flags", "Features"))), None)


def _fixed_sha256(model: FlatModel) -> str:
    """Return the hash of the parts of a model that do not travel."""
    digest = hashlib.sha256(model.vector[model.sections.moving :].numpy().tobytes())
    for name, constant in sorted(model.naming.constants.items()):
        digest.update(f"{name} {constant.dtype} {constant.shape} ".encode() + np.ascontiguousarray(constant).tobytes())
    return digest.hexdigest()


def _rows_sha256(data_sha256: str, rows: Any) -> bytes:
    return hashlib.sha256(data_sha256.encode() + np.ascontiguousarray(rows, dtype="<i8").tobytes()).digest()


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()

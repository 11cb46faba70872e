"""fedtempo: federated learning on a virtual clock.

`Experiment` does from Python what the command line does; `Federation` and the names around it are all that a strategy
needs. PyTorch, and what else takes long to load, is imported when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedtempo.errors import (
    ConfigError,
    DeadlockError,
    FedtempoError,
    RunError,
    StrategyError,
    UserCodeError,
    WorkerError,
)
from fedtempo.federation import (
    Client,
    ClientUnavailable,
    ConsentError,
    Durations,
    Examples,
    Federation,
    Model,
    Strategy,
    Update,
    Visit,
    Work,
)

if TYPE_CHECKING:
    from fedtempo.api.experiment import Experiment, resume
    from fedtempo.api.results import Comparison, Plan, Result, open_comparison, open_run
    from fedtempo.api.tuning import Tuning
    from fedtempo.studies.advice.recommendation import Advice
    from fedtempo.studies.check import Check
    from fedtempo.studies.papers.reproduce import Reproduction, reproduce, reproducible

__version__ = "0.1.0"

_LATER = {
    "Advice": "studies.advice.recommendation",
    "Check": "studies.check",
    "Comparison": "api.results",
    "Experiment": "api.experiment",
    "Plan": "api.results",
    "Reproduction": "studies.papers.reproduce",
    "Result": "api.results",
    "Tuning": "api.tuning",
    "open_comparison": "api.results",
    "open_run": "api.results",
    "reproduce": "studies.papers.reproduce",
    "reproducible": "studies.papers.reproduce",
    "resume": "api.experiment",
}
"""Names whose modules load PyTorch and much else."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "Advice",
    "Check",
    "Client",
    "ClientUnavailable",
    "Comparison",
    "ConfigError",
    "ConsentError",
    "DeadlockError",
    "Durations",
    "Examples",
    "Experiment",
    "Federation",
    "FedtempoError",
    "Model",
    "Plan",
    "Reproduction",
    "Result",
    "RunError",
    "Strategy",
    "StrategyError",
    "Tuning",
    "Update",
    "UserCodeError",
    "Visit",
    "Work",
    "WorkerError",
    "open_comparison",
    "open_run",
    "reproduce",
    "reproducible",
    "resume",
]

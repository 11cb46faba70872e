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
    from fedtempo.advice import Advice
    from fedtempo.checking import Check
    from fedtempo.experiment import Experiment, Tuning, resume
    from fedtempo.reproducing import Reproduction, reproduce, reproducible
    from fedtempo.results import Comparison, Plan, Result, open_comparison, open_run

__version__ = "0.1.0"

_LATER = {
    "Advice": "advice",
    "Check": "checking",
    "Comparison": "results",
    "Experiment": "experiment",
    "Plan": "results",
    "Reproduction": "reproducing",
    "Result": "results",
    "Tuning": "experiment",
    "open_comparison": "results",
    "open_run": "results",
    "reproduce": "reproducing",
    "reproducible": "reproducing",
    "resume": "experiment",
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

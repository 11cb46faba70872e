"""fedtempo: federated learning on a virtual clock.

`Experiment` does from Python what the command line does; `Federation` and the names around it are all that a strategy
needs. PyTorch, and what else takes long to load, is imported when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from fedtempo.parts.later import exported
from fedtempo.version import __version__ as __version__

if TYPE_CHECKING:
    from fedtempo.api.experiment import Experiment, resume
    from fedtempo.api.results import Comparison, Plan, Result, open_comparison, open_run
    from fedtempo.api.tuning import Tuning
    from fedtempo.studies.advice.recommendation import Advice
    from fedtempo.studies.check import Check
    from fedtempo.studies.papers.reproduce import Reproduction, reproduce, reproducible

_LATER = {
    "Advice": "fedtempo.studies.advice.recommendation",
    "Check": "fedtempo.studies.check",
    "Comparison": "fedtempo.api.results",
    "Experiment": "fedtempo.api.experiment",
    "Plan": "fedtempo.api.results",
    "Reproduction": "fedtempo.studies.papers.reproduce",
    "Result": "fedtempo.api.results",
    "Tuning": "fedtempo.api.tuning",
    "open_comparison": "fedtempo.api.results",
    "open_run": "fedtempo.api.results",
    "reproduce": "fedtempo.studies.papers.reproduce",
    "reproducible": "fedtempo.studies.papers.reproduce",
    "resume": "fedtempo.api.experiment",
}
"""Names whose modules load much; see `exported`."""

__getattr__ = exported(__name__, _LATER)


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

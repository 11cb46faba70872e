"""fedtempo: federated learning on a virtual clock.

The names below are all that a strategy needs; a configuration and `fedtempo.launch.run` do the rest.
"""

from fedtempo.errors import ConfigError, DeadlockError, FedtempoError, RunError, WorkerError
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

__version__ = "0.1.0"

__all__ = [
    "Client",
    "ClientUnavailable",
    "ConfigError",
    "ConsentError",
    "DeadlockError",
    "Durations",
    "Examples",
    "Federation",
    "FedtempoError",
    "Model",
    "RunError",
    "Strategy",
    "Update",
    "Visit",
    "Work",
    "WorkerError",
]

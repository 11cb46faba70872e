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
    from fedtempo.api.catalogue import CatalogueEntry, Description, FieldDescription, catalogue, describe
    from fedtempo.api.clients import make_keys, register_keys, revoke_keys, serve_client, serve_superlink
    from fedtempo.api.experiment import Experiment, resume
    from fedtempo.api.fetching import fetch
    from fedtempo.api.fleets import (
        FittedDistributions,
        ImportedAvailability,
        ImportedFleet,
        fit_distribution,
        import_availability,
        import_fleet,
    )
    from fedtempo.api.installation import Finding, examine_installation
    from fedtempo.api.models import build_network
    from fedtempo.api.new import config_text, new_config, new_part
    from fedtempo.api.reports import compare_with_deployment, report_runs, save_figures, watch
    from fedtempo.api.results import Comparison, Plan, Result, open_comparison, open_run
    from fedtempo.api.sweeps import Sweep, collect_sweep, run_sweep_task
    from fedtempo.api.tables import format_table
    from fedtempo.api.tuning import Tuning
    from fedtempo.runs.data_description import ClientData, DataDescription
    from fedtempo.studies.advice.recommendation import Advice
    from fedtempo.studies.check import Check
    from fedtempo.studies.papers.reproduce import Reproduction, index_results, reproduce, reproducible

_LATER = {
    "Advice": "fedtempo.studies.advice.recommendation",
    "CatalogueEntry": "fedtempo.api.catalogue",
    "Check": "fedtempo.studies.check",
    "ClientData": "fedtempo.runs.data_description",
    "Comparison": "fedtempo.api.results",
    "DataDescription": "fedtempo.runs.data_description",
    "Description": "fedtempo.api.catalogue",
    "Experiment": "fedtempo.api.experiment",
    "FieldDescription": "fedtempo.api.catalogue",
    "Finding": "fedtempo.api.installation",
    "FittedDistributions": "fedtempo.api.fleets",
    "ImportedAvailability": "fedtempo.api.fleets",
    "ImportedFleet": "fedtempo.api.fleets",
    "Plan": "fedtempo.api.results",
    "Reproduction": "fedtempo.studies.papers.reproduce",
    "Result": "fedtempo.api.results",
    "Sweep": "fedtempo.api.sweeps",
    "Tuning": "fedtempo.api.tuning",
    "build_network": "fedtempo.api.models",
    "catalogue": "fedtempo.api.catalogue",
    "collect_sweep": "fedtempo.api.sweeps",
    "compare_with_deployment": "fedtempo.api.reports",
    "config_text": "fedtempo.api.new",
    "describe": "fedtempo.api.catalogue",
    "examine_installation": "fedtempo.api.installation",
    "fetch": "fedtempo.api.fetching",
    "fit_distribution": "fedtempo.api.fleets",
    "format_table": "fedtempo.api.tables",
    "import_availability": "fedtempo.api.fleets",
    "import_fleet": "fedtempo.api.fleets",
    "index_results": "fedtempo.studies.papers.reproduce",
    "make_keys": "fedtempo.api.clients",
    "new_config": "fedtempo.api.new",
    "new_part": "fedtempo.api.new",
    "open_comparison": "fedtempo.api.results",
    "open_run": "fedtempo.api.results",
    "register_keys": "fedtempo.api.clients",
    "report_runs": "fedtempo.api.reports",
    "reproduce": "fedtempo.studies.papers.reproduce",
    "reproducible": "fedtempo.studies.papers.reproduce",
    "resume": "fedtempo.api.experiment",
    "revoke_keys": "fedtempo.api.clients",
    "run_sweep_task": "fedtempo.api.sweeps",
    "save_figures": "fedtempo.api.reports",
    "serve_client": "fedtempo.api.clients",
    "serve_superlink": "fedtempo.api.clients",
    "watch": "fedtempo.api.reports",
}
"""Names whose modules load much; see `exported`."""

__getattr__ = exported(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "Advice",
    "CatalogueEntry",
    "Check",
    "Client",
    "ClientData",
    "ClientUnavailable",
    "Comparison",
    "ConfigError",
    "ConsentError",
    "DataDescription",
    "DeadlockError",
    "Description",
    "Durations",
    "Examples",
    "Experiment",
    "Federation",
    "FedtempoError",
    "FieldDescription",
    "Finding",
    "FittedDistributions",
    "ImportedAvailability",
    "ImportedFleet",
    "Model",
    "Plan",
    "Reproduction",
    "Result",
    "RunError",
    "Strategy",
    "StrategyError",
    "Sweep",
    "Tuning",
    "Update",
    "UserCodeError",
    "Visit",
    "Work",
    "WorkerError",
    "build_network",
    "catalogue",
    "collect_sweep",
    "compare_with_deployment",
    "config_text",
    "describe",
    "examine_installation",
    "fetch",
    "fit_distribution",
    "format_table",
    "import_availability",
    "import_fleet",
    "index_results",
    "make_keys",
    "new_config",
    "new_part",
    "open_comparison",
    "open_run",
    "register_keys",
    "report_runs",
    "reproduce",
    "reproducible",
    "resume",
    "revoke_keys",
    "run_sweep_task",
    "save_figures",
    "serve_client",
    "serve_superlink",
    "watch",
]

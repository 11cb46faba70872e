"""Record runs: rows while a run is in progress, arrays and a summary when it is read."""

from fedtempo.record.compare import comparison
from fedtempo.record.folder import RunFolder, default_name
from fedtempo.record.measures import sustained, time_to_target
from fedtempo.record.recorder import Recorder
from fedtempo.record.run import Records, Run, load_run
from fedtempo.record.strict_json import write_json
from fedtempo.record.summary import summarise

__all__ = [
    "Recorder",
    "Records",
    "Run",
    "RunFolder",
    "comparison",
    "default_name",
    "load_run",
    "summarise",
    "sustained",
    "time_to_target",
    "write_json",
]

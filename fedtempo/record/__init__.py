"""Record runs: rows while a run is in progress, arrays and a summary when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtempo.parts.later import exported

if TYPE_CHECKING:
    from fedtempo.record.compare import comparison as comparison
    from fedtempo.record.folder import RunFolder as RunFolder
    from fedtempo.record.folder import default_name as default_name
    from fedtempo.record.measures import sustained as sustained
    from fedtempo.record.measures import time_to_target as time_to_target
    from fedtempo.record.recorder import Recorder as Recorder
    from fedtempo.record.run import Records as Records
    from fedtempo.record.run import Run as Run
    from fedtempo.record.run import load_run as load_run
    from fedtempo.record.strict_json import write_json as write_json
    from fedtempo.record.summary import summarise as summarise

__getattr__ = exported(
    __name__,
    {
        "Recorder": "fedtempo.record.recorder",
        "Records": "fedtempo.record.run",
        "Run": "fedtempo.record.run",
        "RunFolder": "fedtempo.record.folder",
        "comparison": "fedtempo.record.compare",
        "default_name": "fedtempo.record.folder",
        "load_run": "fedtempo.record.run",
        "summarise": "fedtempo.record.summary",
        "sustained": "fedtempo.record.measures",
        "time_to_target": "fedtempo.record.measures",
        "write_json": "fedtempo.record.strict_json",
    },
)

"""Reads files, each in a process that may map 1 GB, and prints the errors as JSON.

Importing takes seconds: this process imports what reads files, and forks for each of them.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import safetensors.numpy
import scipy.io.wavfile
import scipy.signal
from PIL import Image

from fedtempo.data.sources import load
from fedtempo.errors import FedtempoError
from fedtempo.fleet.devices import read_devices
from fedtempo.fleet.events import read_events
from fedtempo.fleet.traces import Trace
from fedtempo.record import load_run
from fedtempo.record.journal import Journal
from fedtempo.record.models import read_arrays

ADDRESS_SPACE_BYTES = 2**30
LONGEST_S = 100


def read(kind: str, path: Path) -> None:
    """Read a file as a user would."""
    readers: dict[str, Callable[[], object]] = {
        "folder": lambda: load(f"folder:{path}", test_share=0.2),
        "audio": lambda: load(f"audio:{path}", rate=16_000, seconds=1.0, test_share=0.2),
        "table": lambda: load(f"table:{path}", label="kind"),
        "configuration": lambda: load_config(path),
        "client": lambda: load_client(path),
        "devices": lambda: read_devices(path),
        "events": lambda: read_events(path),
        "trace": lambda: Trace(file=str(path)).build(5, None),
        "tensors": lambda: read_tensors(str(path)),
        "model": lambda: read_arrays(path.parent, path.name),
        "run": lambda: load_run(path.parent),
        "journal": lambda: Journal.resume(path),
    }
    readers.get(kind, lambda: load(f"{kind}:{path}"))()


def limited(kind: str, path: Path) -> str:
    """Read a file in a process of its own; return the error."""
    sys.stdout.flush()
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiving)
        said = "it was read"
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        try:
            read(kind, path)
        except FedtempoError as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException:  # noqa: BLE001  whatever it is, the test shows it
            said = traceback.format_exc()[-2000:]
        os.write(sending, said.encode()[:20_000])
        os._exit(0)
    os.close(sending)
    begun = time.monotonic()
    with os.fdopen(receiving, "rb") as file:
        said = file.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    took = time.monotonic() - begun
    return said if status == 0 and took < LONGEST_S else f"{said} (status {status}, {took:.0f} s)"


if __name__ == "__main__":
    Image.init()
    assert all((pyarrow, safetensors, scipy))
    root, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
    paths = [(kind, root / str(number) / file) for number, (kind, file) in enumerate(cases)]
    if any(kind == "tff" for kind, _ in cases):
        importlib.import_module("h5py")
    needs_torch = ("configuration", "client", "tensors")
    said = {path: limited(kind, path) for kind, path in paths if kind not in needs_torch}
    from fedtempo.deploy.client.settings import load_client
    from fedtempo.learning.pretrained import read_tensors
    from fedtempo.runs.config import load as load_config

    import torch  # isort: skip  it takes most of the address space

    assert torch
    said |= {path: limited(kind, path) for kind, path in paths if kind in needs_torch}
    print(json.dumps([said[path] for _, path in paths]))

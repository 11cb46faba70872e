"""Any file is either read or rejected with an error of fedtempo's: no other exception, and no hang.

The default tests take a few mutations of each kind, the slow one ten thousand.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import table
from pyarrow.parquet import write_table
from scipy.io import wavfile

from fedtempo.data.archive import read_npz
from fedtempo.data.idx import read_idx
from fedtempo.data.sources import load as read_source
from fedtempo.errors import FedtempoError
from fedtempo.fleet.devices import Columns, fleet_table, read_devices, write_trace
from fedtempo.fleet.events import EventRules, read_events
from fedtempo.fleet.fitting import fit
from fedtempo.fleet.traces import Trace
from fedtempo.learning.naming import Naming, Piece
from fedtempo.learning.pretrained import read_tensors
from fedtempo.record import load_run, summarise
from fedtempo.record.export import export
from fedtempo.record.models import model_sha256
from fedtempo.report.html import write_report
from fedtempo.runs.client_layers import ClientLayers, layers_path
from fedtempo.runs.config import load, parse
from fedtempo.runs.models import read_model
from fedtempo.runs.without_data import Column
from fedtempo.studies.compare import PLAN
from fedtempo.studies.tables.pivot import pivot
from fedtempo.studies.tables.runs import plan_competitors, table_run
from tests.data.test_idx import encode
from tests.report.fake_runs import fake_run

ROOT = Path(__file__).parents[1]
CONFIG = "\n".join(path.read_text() for path in [ROOT / "configs" / "fedhusky.toml"]).encode()
WIFI = ["battery_charged_on", "wifi", "screen_lock", "55.0%", "screen_unlock"]
TRACE = b"client,begin_s,end_s\n" + b"".join(b"%d,%d.5,%d\n" % (i % 5, 10 * i, 10 * i + 9) for i in range(40))
CAPACITIES = json.dumps({str(i): {"computation": 20.0 + i, "communication": 1e3} for i in range(9)}).encode()
PRESENCES = json.dumps({"a": {"active": [1, 50], "inactive": [9, 70], "finish_time": 100, "model": "x"}}).encode()
DEVICES = b"id,ms,kbps\n" + b"".join(b"%d,%d.25,%d\n" % (i % 7, 20 + i, 100 + i) for i in range(30))
FLEET = b"""[fleet]
estimates = "exact"
compute = { unit = "s/example", speed = [0.1, 0.2], watts = 3.0 }
link = { kind = "rates", download_bps = [1e6, 2e6], upload_bps = 5e5, watts = { kind = "exponential", mean = 2.0 } }
"""
PLANNED = b"""strategies = ["fedavg", "m:S"]
seeds = [1, 2]
[grid]
"training.lr" = [0.1, 0.3]
"data.partition" = [{ kind = "dirichlet", alpha = 0.1 }, "iid"]
[configuration.run]
horizon = 9.0
"""
TABLE = b"x,kind,who\n" + b"".join(b"%d.5,%s,%d\n" % (i, b"ab"[i % 2 :][:1], i % 4) for i in range(40))
EVENTS = json.dumps(
    {
        n: {"messages": "\n".join(f"2020-01-0{d} 0{h}:00:00\t{e}" for d in (1, 2, 3) for h, e in enumerate(WIFI))}
        for n in "ab"
    }
).encode()
LOG = b"client,time,event\n" + b"".join(b"%d,%d,%s\n" % (i % 3, 9000 * i, b"wifi") for i in range(60))
LEAF = json.dumps(
    {
        "users": ["a", "b"],
        "num_samples": [6, 6],
        "user_data": {user: {"x": [[i + 0.5, 2.0] for i in range(6)], "y": [0, 1] * 3} for user in "ab"},
    }
).encode()
MAPPING = b"client_id,sample_path,label_name,label_id\n" + b"".join(
    b"%d,0.png,x%d,%d\n" % (i % 3, i % 2, i % 2) for i in range(20)
)
IDX = encode(np.arange(4 * 5 * 6).reshape(4, 5, 6))
WORDS = [
    *(b"nan", b"inf", b"-1", b"0", b"1e999", b"9" * 400, b"null", b"true", b"[[[[", b"{}", b'""', b"\x00", b"\xff"),
    *(
        b"\n",
        b",",
        b"=",
        b"'",
        b'"',
        b"[",
        b"]",
        b"\x1f\x8b",
        b"a:b",
        b"../..",
        b"1979-05-27",
        b"<script>",
        b"\xf0\x9f",
    ),
]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with bytes changed, or with pieces cut, doubled, moved or replaced by meaningful words."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data) + 1))
        to = min(len(data), at + int(rng.integers(1, 30)))
        match int(rng.integers(6)):
            case 0:
                data[at:to] = rng.bytes(to - at)
            case 1:
                del data[at:to]
            case 2:
                data[at:at] = data[at:to]
            case 3:
                data[at:to] = WORDS[int(rng.integers(len(WORDS)))]
            case 4 if at < len(data):
                data[at] ^= 1 << int(rng.integers(8))
            case 5:
                del data[int(rng.integers(len(data) // 2, len(data) + 1)) :]
        data = data or bytearray(b"x")
    return bytes(data)


def read_config(content: bytes, folder: Path) -> None:
    path = folder / "fuzz.toml"
    path.write_bytes(content)
    load(path).dump()


def read_layers(content: bytes, folder: Path) -> None:
    (folder / "models").mkdir(exist_ok=True)
    layers_path(folder).write_bytes(content)
    ClientLayers.read(folder, NAMING, LAYERS.sha256)


def read_trace(content: bytes, folder: Path) -> None:
    path = folder / "trace.csv"
    path.write_bytes(content)
    for sample in (False, True):
        availability = Trace(file=str(path), sample=sample).build(5, np.random.default_rng(1))
        for client in range(5):
            availability.available_until(client, availability.next_available(client, 1.0))


def read_sizes(content: bytes, folder: Path) -> None:
    path = folder / "sizes.csv"
    path.write_bytes(content)
    Column(file=str(path), column="ms").read()


def read_device_json(content: bytes, folder: Path) -> None:
    path = folder / "devices.json"
    path.write_bytes(content)
    write_trace(read_devices(path), folder / "devices-trace.csv")


def read_events_json(content: bytes, folder: Path) -> None:
    path = folder / "events.json"
    path.write_bytes(content)
    write_trace(read_events(path).devices, folder / "events-trace.csv")


def read_events_csv(content: bytes, folder: Path) -> None:
    path = folder / "events.csv"
    path.write_bytes(content)
    rules = EventRules(ready=("wifi",), period="record", time_zone="Europe/Berlin")
    write_trace(read_events(path, rules).devices, folder / "log-trace.csv")
    read_trace((folder / "log-trace.csv").read_bytes(), folder)


def read_leaf(content: bytes, folder: Path) -> None:
    path = folder / "leaf.json"
    path.write_bytes(content)
    read_source(f"leaf:{path}", length=4)


def read_mapping(content: bytes, folder: Path) -> None:
    path = folder / "fedscale" / "client_data_mapping" / "train.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "fedscale" / "0.png").write_bytes(picture("png"))
    path.write_bytes(content)
    read_source(f"fedscale:{folder / 'fedscale'}")


def read_sound(content: bytes, folder: Path) -> None:
    for number in range(2):
        path = folder / "sounds" / "a" / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    read_source(f"audio:{folder / 'sounds'}", seconds=0.05, rate=8000, test_share=0.5)


def read_medmnist(content: bytes, folder: Path) -> None:
    path = folder / "medmnist.npz"
    path.write_bytes(content)
    read_source(f"npz:{path}")


def read_device_csv(content: bytes, folder: Path) -> None:
    path = folder / "devices.csv"
    path.write_bytes(content)
    devices = read_devices(path, Columns(compute="ms", compute_unit="ms/example", rate="kbps", client="id"))
    fleet_table(devices)
    fit([device.compute or 0.0 for device in devices.devices])


def read_fleet(content: bytes, folder: Path) -> None:
    path = folder / "fleet.toml"
    path.write_bytes(content)
    parse({"run": {"horizon": 9.0}, "strategy": {"name": "fedavg"}, "fleet": {"preset": str(path)}}).dump()


def read_model_file(content: bytes, folder: Path) -> None:
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models/last.safetensors").write_bytes(content)
    read_model(folder, "last", model_sha256(np.arange(12, dtype=np.float32)))


def read_initial(content: bytes, folder: Path) -> None:
    for name in ("initial.safetensors", "initial.pt"):
        (folder / name).write_bytes(content)
        with contextlib.suppress(FedtempoError):
            read_tensors(str(folder / name))


def read_plan(content: bytes, folder: Path) -> None:
    (folder / PLAN).write_bytes(content)
    plan_competitors(folder)


def read_images(content: bytes, folder: Path) -> None:
    path = folder / "images-idx3-ubyte"
    path.write_bytes(content)
    assert read_idx(path, 3).ndim == 3


def read_archive(content: bytes, folder: Path) -> None:
    path = folder / "data.npz"
    path.write_bytes(content)
    read_npz(path)


def read_csv(content: bytes, folder: Path) -> None:
    path = folder / "table.csv"
    path.write_bytes(content)
    read_source(f"table:{path}", label="kind", client="who")


def read_parquet(content: bytes, folder: Path) -> None:
    path = folder / "table.parquet"
    path.write_bytes(content)
    read_source(f"table:{path}", label="kind", client="who")


def read_picture(content: bytes, folder: Path) -> None:
    for number in range(2):
        path = folder / "pictures" / "a" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    read_source(f"folder:{folder / 'pictures'}", side=4, test_share=0.5)


def parquet() -> bytes:
    file = io.BytesIO()
    write_table(table({"x": [0.5, 1.5] * 20, "kind": ["a", "b"] * 20, "who": [1, 2, 3, 4] * 10}), file)
    return file.getvalue()


PIECES = {"0.weight": Piece("0.weight", 0, (1, 2, 1, 2), True), "1.weight": Piece("1.weight", 4, (2, 4))}
NAMING = Naming(12, [*PIECES, "counter"], PIECES, {"counter": np.array(0)})
LAYERS = ClientLayers([1, 3], np.arange(16, dtype=np.float32).reshape(2, 8), 4, NAMING)


def model_file() -> bytes:
    named = NAMING.named(np.arange(12, dtype=np.float32))
    return safetensors.numpy.save(named, NAMING.metadata())


def layers_file() -> bytes:
    with TemporaryDirectory() as folder:
        LAYERS.write(Path(folder))
        return layers_path(Path(folder)).read_bytes()


def saved_state() -> bytes:
    file = io.BytesIO()
    torch.save({"weight": torch.ones(2, 3), "counter": torch.tensor(3)}, file)
    return file.getvalue()


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(file, kind)
    return file.getvalue()


def sound(dtype: str) -> bytes:
    file = io.BytesIO()
    wavfile.write(file, 8000, (100 * np.sin(np.arange(800))).astype(dtype))
    return file.getvalue()


def medmnist(save: Callable[..., None]) -> bytes:
    file = io.BytesIO()
    images, labels = np.arange(6 * 4 * 4).reshape(6, 4, 4).astype(np.uint8), np.array([[0], [1]] * 3, np.uint8)
    arrays = {
        f"{split}_{kind}": part
        for split in ("train", "val", "test")
        for kind, part in (("images", images), ("labels", labels))
    }
    save(file, **arrays)
    return file.getvalue()


def npz(save: Callable[..., None]) -> bytes:
    file = io.BytesIO()
    save(file, x=np.arange(12.0).reshape(3, 4), y=np.arange(3))
    return file.getvalue()


def plain_and_compressed(content: bytes) -> list[bytes]:
    return [content, gzip.compress(content)]


class RunFolders:
    """A small run folder with one changed file at a time."""

    def __init__(self, folder: Path, *, rows: bool = True) -> None:
        self.folder = folder / "run"
        fake_run(self.folder, "hybrid", 1, n_clients=10, horizon=50.0, rows=rows)
        self.files = {
            name: (self.folder / name).read_bytes() for name in ("run.sqlite", "summary.json", "environment.json")
        }
        self.reports = 0

    def read(self, name: str, content: bytes, *, report: bool) -> None:
        for known, original in self.files.items():
            (self.folder / known).write_bytes(content if known == name else original)
        for left in self.folder.glob("run.sqlite-*"):
            left.unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numbers may have any value
            run = load_run(self.folder)
            pivot([table_run(run.label, run.config, summarise(run), str(self.folder))])
            export(run, "csv", self.folder / "tables")
            if report:
                self.reports += 1
                write_report(self.folder / "report.html", [run])


def survives(read: Callable[[], object]) -> bool:
    """Return whether it was read; an error of fedtempo's is also fine, any other is not."""
    try:
        read()
    except FedtempoError:
        return False
    return True


READERS: dict[str, tuple[Callable[[bytes, Path], None], list[bytes]]] = {
    "configuration": (read_config, [CONFIG]),
    "trace": (read_trace, [TRACE]),
    "devices, JSON": (read_device_json, [CAPACITIES, PRESENCES]),
    "events, JSON": (read_events_json, [EVENTS]),
    "events, CSV": (read_events_csv, [LOG]),
    "LEAF": (read_leaf, [LEAF]),
    "FedScale's mapping": (read_mapping, [MAPPING]),
    "sound": (read_sound, [sound("int16"), sound("float32"), sound("uint8")]),
    "MedMNIST": (read_medmnist, [medmnist(np.savez), medmnist(np.savez_compressed)]),
    "devices, CSV": (read_device_csv, [DEVICES]),
    "numbers of examples": (read_sizes, [DEVICES]),
    "fleet": (read_fleet, [FLEET]),
    "model": (read_model_file, [model_file()]),
    "layers of clients": (read_layers, [layers_file()]),
    "initial model": (read_initial, [model_file(), saved_state()]),
    "plan": (read_plan, [PLANNED]),
    "images": (read_images, plain_and_compressed(IDX)),
    "table": (read_csv, [TABLE]),
    "parquet table": (read_parquet, [parquet()]),
    "picture": (read_picture, [picture("png"), picture("gif"), picture("bmp")]),
    "archive": (read_archive, [npz(np.savez), npz(np.savez_compressed)]),
}


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_read_or_rejected(name: str, tmp_path: Path) -> None:
    read, originals = READERS[name]
    assert all(survives(lambda original=original: read(original, tmp_path)) for original in originals)
    rng = np.random.default_rng(7)
    for number in range(150):
        content = mutated(originals[number % len(originals)], rng)
        survives(lambda content=content: read(content, tmp_path))


@pytest.mark.parametrize("rows", [True, False])
def test_mutated_run_folders_are_read_or_rejected(tmp_path: Path, rows: bool) -> None:
    folders = RunFolders(tmp_path, rows=rows)
    rng = np.random.default_rng(8)
    for name, original in folders.files.items():
        assert survives(lambda name=name, original=original: folders.read(name, original, report=True))
        for number in range(60):
            content = mutated(original, rng)
            survives(lambda name=name, c=content, n=number: folders.read(name, c, report=n % 2 == 0))
    assert folders.reports > 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FACTS = (
    *("strategy", "label", "seed", "n_clients", "horizon_s", "elapsed_s", "ended", "target_accuracy", "data", "bytes"),
    *("left_clients", "privacy", "label_histograms", "class_names", "client_names", "positions", "wall_s", "version"),
    *("record", "totals", "watts"),
)


@settings(max_examples=30, deadline=None)
@given(facts=st.dictionaries(st.sampled_from(FACTS), JSON, max_size=3), clusters=JSON)
def test_arbitrary_facts_are_read_or_rejected(facts: dict, clusters: object, folders: RunFolders) -> None:
    path = folders.folder / "facts.sqlite"
    path.write_bytes(folders.files["run.sqlite"])
    connection = sqlite3.connect(path)
    with connection:
        for name, value in facts.items():
            connection.execute("INSERT OR REPLACE INTO facts VALUES(?, ?)", [name, json.dumps(value)])
        connection.execute("INSERT INTO notes VALUES('clusters', ?)", [json.dumps(clusters)])
    connection.close()
    content = path.read_bytes()
    survives(lambda: folders.read("run.sqlite", content, report=True))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> RunFolders:
    return RunFolders(tmp_path_factory.mktemp("facts"))


TABLES = st.dictionaries(
    st.sampled_from(
        ["run", "data", "model", "training", "fleet", "strategy", "executor", "server", "compare", "other"]
    ),
    JSON
    | st.dictionaries(
        st.sampled_from(
            [
                *("seed", "horizon", "clients", "partition", "source", "network", "size_bytes", "lr", "batch_size"),
                *(
                    "compute",
                    "link",
                    "estimates",
                    "availability",
                    "faults",
                    "preset",
                    "name",
                    "kind",
                    "workers",
                    "watts",
                ),
                *("deadline", "privacy", "aggregation"),
            ]
        ),
        JSON,
        max_size=4,
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(TABLES)
def test_arbitrary_tables_are_read_or_rejected(tables: dict) -> None:
    survives(lambda: parse(tables))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode), name=st.sampled_from(sorted(READERS)))
def test_arbitrary_files_are_read_or_rejected(content: bytes, name: str, tmp_path: Path) -> None:
    survives(lambda: READERS[name][0](content, tmp_path))


@pytest.mark.slow
def test_ten_thousand_mutated_files_are_read_or_rejected(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path)
    rng = np.random.default_rng(9)
    readers = [(read, original) for read, originals in READERS.values() for original in originals]
    read_whole = files = 0
    for number in range(10_000):
        kind = number % (len(readers) + len(folders.files))
        if kind < len(readers):
            read, original = readers[kind]
            content = mutated(original, rng)
            read_whole += survives(lambda read=read, content=content: read(content, tmp_path))
        else:
            name = list(folders.files)[kind - len(readers)]
            content = mutated(folders.files[name], rng)
            read_whole += survives(lambda name=name, c=content, n=number: folders.read(name, c, report=n % 10 == 0))
        files += 1
    shutil.rmtree(folders.folder)
    assert files == 10_000
    assert 500 < read_whole < 9_500  # some but not all are read

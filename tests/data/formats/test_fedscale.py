"""FedScale's client-data mappings, with images and sounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

HEADER = "client_id,sample_path,label_name,label_id"


def mapping(root: Path, split: str, *lines: str, header: str = HEADER) -> Path:
    path = root / "client_data_mapping" / f"{split}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def picture(root: Path, name: str, value: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (2, 2), value).save(path)


@pytest.mark.parametrize("folder", ["", "train", "data/train", "data"])
def test_each_line_is_an_example_of_its_client(tmp_path: Path, folder: str) -> None:
    for i in range(5):
        picture(tmp_path / folder, f"{i}.png", 51 * i)
    picture(tmp_path, "test/9.png", 255)
    mapping(tmp_path, "train", "10,0.png,cat,2", "9,1.png,dog,10", "9,2.png,cat,2", "10,3.png,dog,10")
    mapping(tmp_path, "test", "9,9.png,dog,10")
    data = load(f"fedscale:{tmp_path}")
    assert (data.owner_names, data.class_names) == (("9", "10"), ("cat", "dog"))
    assert np.round(data.train_x[:, 0, 0, 0], 3).tolist() == pytest.approx([0, 0.2, 0.4, 0.6])
    assert data.train_owners is not None
    assert data.train_owners.tolist() == [1, 0, 0, 1]
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([0, 1, 0, 1], [1])
    assert data.test_owners is None  # FedScale numbers the clients of each file apart
    assert data.about == "FedScale: grey images of 2 x 2, classes cat, dog, 2 clients: 9, 10"
    mapping(tmp_path, "val", "1,4.png,cat,2")
    picture(tmp_path, "val/4.png", 204)
    held = load(f"fedscale:{tmp_path}")
    assert held.validation_y is not None
    assert (held.validation_y.tolist(), held.test_y.tolist()) == ([0], [1])
    instead = load(f"fedscale:{tmp_path}", test_split="validation")
    assert (instead.validation_y, instead.test_y.tolist()) == (None, [0])
    assert instead.test_x == pytest.approx(0.8)


def test_without_a_test_mapping_each_client_keeps_a_share(tmp_path: Path) -> None:
    lines = []
    for i in range(20):
        picture(tmp_path, f"pic/{i}.png", i)
        lines.append(f"{i % 2},pic/{i}.png,{i // 10}")
    mapping(tmp_path, "train", *lines, header="client_id,sample_path,kind")
    data = load(f"fedscale:{tmp_path}")
    assert (len(data.train_y), data.class_names) == (16, ("0", "1"))
    assert data.test_owners is not None
    assert np.bincount(data.test_owners).tolist() == [2, 2]
    first = load(f"fedscale:{tmp_path}", clients=1)
    assert (first.owner_names, len(first.train_y) + len(first.test_y)) == (("0",), 10)


def test_sounds_become_spectrograms(tmp_path: Path) -> None:
    for i in range(4):
        wavfile.write(tmp_path / f"{i}.wav", 8000, np.zeros(400 + i, np.int16))
    mapping(tmp_path, "train", "0,0.wav,yes,0", "0,1.wav,yes,0", "1,2.wav,no,1", "1,3.wav,no,1")
    data = load(f"fedscale:{tmp_path}", seconds=0.05, test_share=0.5)
    assert data.train_x.shape == (2, 1, 101, 3)
    assert data.class_names == ("yes", "no")
    with pytest.raises(ConfigError, match="side = 8: applies to images, but samples are sounds; remove it"):
        load(f"fedscale:{tmp_path}", seconds=0.05, side=8)


def test_unusable_mappings_are_named(tmp_path: Path) -> None:
    picture(tmp_path, "0.png", 0)
    with pytest.raises(ConfigError, match=r"train\.csv: cannot be read: No such file"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train", header="client_id,path,label_id")
    with pytest.raises(ConfigError, match="has the columns client_id, path, label_id; must have client_id, sample_"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train")
    with pytest.raises(ConfigError, match=r"train\.csv: no samples"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train", "0,0.png,cat,1", "0,0.png,cat")
    with pytest.raises(ConfigError, match=r"train\.csv line 3: must have a value in each of client_id"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train", "0,0.png,cat,1", "0,1.png,cat,1")
    with pytest.raises(ConfigError, match=r"1\.png: no such file, but client_data_mapping/train\.csv names it"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train", "0,/etc/passwd,cat,1")
    with pytest.raises(ConfigError, match="'/etc/passwd': lies outside of"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train", "0,0.png,cat,1")
    with pytest.raises(ConfigError, match="mels = 8: applies to sounds, but samples are images; remove it"):
        load(f"fedscale:{tmp_path}", mels=8)
    (tmp_path / "0.pickle").write_bytes(b"x")
    mapping(tmp_path, "train", "0,0.pickle,cat,1")
    with pytest.raises(ConfigError, match=r"samples are files \.pickle; must be all images, or all WAV files"):
        load(f"fedscale:{tmp_path}")
    mapping(tmp_path, "train", "0,0.png,cat,1")
    mapping(tmp_path, "test", "0,0.png,dog,2")
    with pytest.raises(ConfigError, match=r"test labels not among the training labels: 'dog' \(1\)"):
        load(f"fedscale:{tmp_path}")
    with pytest.raises(ConfigError, match="clients = 0: must be a whole number, 1 or more"):
        load(f"fedscale:{tmp_path}", clients=0)

"""Text as bytes: inputs, their following bytes, and their owners."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedtempo.data.sources import load
from fedtempo.data.texts import encoded, padded
from fedtempo.errors import ConfigError


def test_labels_are_the_following_bytes(tmp_path: Path) -> None:
    text = "".join(chr(97 + i % 26) for i in range(200))
    (tmp_path / "a.txt").write_text(text)
    data = load(f"text:{tmp_path / 'a.txt'}", length=10)
    assert data.task == "tokens"
    assert data.n_classes == 256
    assert bytes(data.train_x[0].tolist()).decode() == text[:10]
    assert bytes(data.train_y[0].tolist()).decode() == text[1:11]
    assert data.train_owners is None
    assert len(data.train_x) == (160 - 11) // 10 + 1
    # The test part follows the training part.
    assert bytes(data.test_x[0].tolist()).decode() == text[160:170]
    assert data.strata[1] == 1


def test_each_file_is_a_client(tmp_path: Path) -> None:
    for name, size in (("b", 300), ("a", 100)):
        (tmp_path / f"{name}.txt").write_bytes(name.encode() * size)
    data = load(f"text:{tmp_path}", length=9, stride=4, test_share=0.5)
    assert data.owner_names == ("a.txt", "b.txt")
    assert data.train_owners is not None
    assert (data.train_x[data.train_owners == 0] == ord("a")).all()
    assert np.bincount(data.train_owners).tolist() == [(50 - 10) // 4 + 1, (150 - 10) // 4 + 1]


def test_text_in_any_language_is_read() -> None:
    assert bytes(encoded(["ü", "日"]).tolist()).decode() == "ü\n日"
    assert padded(["ab", "abcdef"], 4).tolist() == [[97, 98, 0, 0], [97, 98, 99, 100]]


def test_unusable_texts_are_rejected(tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("too short")
    with pytest.raises(ConfigError, match=r"short.txt: \d bytes for one side are too few for an example of 80"):
        load(f"text:{tmp_path}")
    with pytest.raises(ConfigError, match=r"none.txt: cannot be read"):
        load(f"text:{tmp_path / 'none.txt'}")
    with pytest.raises(ConfigError, match="stride = 0"):
        load(f"text:{short}", stride=0)

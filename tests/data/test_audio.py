"""WAV files as spectrograms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

from fedtempo.data.audio import Spectrograms
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

RATE = 8000


def sine(hertz: float, seconds: float = 0.1, rate: int = RATE) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def put(root: Path, name: str, samples: np.ndarray, rate: int = RATE) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, samples)
    return path


def test_a_sine_of_amplitude_1_has_3_decibels_less_than_1_in_its_band() -> None:
    """Its power is 1 / 2: 10 log10(1 / 2) = -3.01 dB, which becomes 1 - 0.0301.

    Hann's window spreads half of the amplitude, a quarter of the power, to each neighbouring band.
    """
    form = Spectrograms(window_s=0.032, step_s=0.016)  # 256 and 128 samples: bands of 31.25 Hz
    bands = form.of(sine(1000, 0.16).astype(np.float32), RATE)
    assert bands.shape == (129, 9)  # 1 + (1280 - 256) / 128 windows
    assert bands[32] == pytest.approx(1 - 0.0301030, abs=1e-5)
    assert bands[31] == pytest.approx(1 - 0.0301030 - 0.0602060, abs=1e-5)
    assert (bands[[0, 16, 64, 128]] < 0.01).all()
    quiet = form.of(np.zeros(256, np.float32), RATE)
    assert quiet.max() == 0


def test_mel_bands_are_ordered_by_frequency() -> None:
    form = Spectrograms(window_s=0.032, step_s=0.016, mels=4)
    # Edges at fifths of 2146.1 mel (4000 Hz): 0, 324, 799, 1493, 2510, 4000 Hz; centres 324 to 2510 Hz.
    assert [int(form.of(sine(hertz).astype(np.float32), RATE)[:, 0].argmax()) for hertz in (324, 799, 1493, 2510)] == [
        0,
        1,
        2,
        3,
    ]
    with pytest.raises(ValueError, match="mels = 100: some bands hold none of the 129 frequencies; lower mels"):
        Spectrograms(window_s=0.032, mels=100).of(sine(500).astype(np.float32), RATE)


@pytest.mark.parametrize(
    "samples",
    [
        np.float32(sine(1000)),
        np.int16(np.round(32767 * sine(1000))),
        np.int32(np.round((2**31 - 1) * sine(1000))),
        np.uint8(np.round(128 + 127 * sine(1000))),
        np.stack([np.int16(np.round(32767 * sine(1000)))] * 2, axis=1),
    ],
)
def test_every_sample_type_means_the_same_loudness(tmp_path: Path, samples: np.ndarray) -> None:
    for number in range(4):
        put(tmp_path, f"a/{number}.wav", samples)
    data = load(f"audio:{tmp_path}", window_s=0.032, step_s=0.016, test_share=0.5)
    assert data.train_x.shape == (2, 1, 129, 5)
    assert data.train_x[:, 0, 32] == pytest.approx(1 - 0.0301, abs=1e-3)


def test_clients_are_folders_or_named_by_files(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path, f"{'no' if number % 2 else 'yes'}/s{number // 5 + 9}_nohash_{number}.wav", sine(1000))
    put(tmp_path, "_background_noise_/long.wav", sine(10, 1.0))
    data = load(f"audio:{tmp_path}", client="(.*)_nohash_")
    assert (data.owner_names, data.class_names) == (("s9", "s10"), ("no", "yes"))
    assert (len(data.train_y), len(data.test_y)) == (8, 2)
    assert "spectrograms of 101 x 8 from 0.1 s at 8,000 Hz (all frequencies, windows of 25 ms every 10 ms" in data.about
    assert data.about.endswith("2 clients by file name ((.*)_nohash_): s9, s10")
    (tmp_path / "testing_list.txt").write_text("no/s9_nohash_1.wav\nyes/s10_nohash_6.wav\n")
    assert load(f"audio:{tmp_path}").test_y.tolist() == [0, 1]
    (tmp_path / "validation_list.txt").write_text("yes/s10_nohash_8.wav\n")
    data = load(f"audio:{tmp_path}")
    assert data.validation_y is not None
    assert (data.validation_y.tolist(), len(data.train_y)) == ([1], 7)
    (tmp_path / "testing_list.txt").write_text("no/other.wav\n")
    with pytest.raises(ConfigError, match=r"testing_list\.txt: names no/other\.wav, which does not exist"):
        load(f"audio:{tmp_path}")
    (tmp_path / "testing_list.txt").unlink()
    (tmp_path / "validation_list.txt").unlink()
    for pattern, says in (("(", "not a regular expression"), ("x", "needs a group"), ("(x)", "has no such name")):
        with pytest.raises(ConfigError, match=says):
            load(f"audio:{tmp_path}", client=pattern)


def test_rates_and_lengths_must_agree_or_be_made_to(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"a/{number}.wav", sine(1000))
    short = put(tmp_path, "a/3.wav", sine(1000, 0.05))
    with pytest.raises(ConfigError, match=rf"{short}: has 400 samples, .* 800; set seconds"):
        load(f"audio:{tmp_path}", test_share=0.5)
    data = load(f"audio:{tmp_path}", seconds=0.05, test_share=0.5)
    assert data.train_x.shape[3] == 3  # 1 + (400 - 200) // 80 windows
    put(tmp_path, "a/3.wav", sine(1000, rate=16000), 16000)
    with pytest.raises(ConfigError, match=r"3\.wav: has 16,000 samples per second, .* 8,000; set rate"):
        load(f"audio:{tmp_path}", test_share=0.5)
    data = load(f"audio:{tmp_path}", rate=8000, test_share=0.5)
    values = np.concatenate([data.train_x, data.test_x])[:, 0, 25, 2:-2]  # 1000 Hz of bands of 40 Hz
    assert values == pytest.approx(1 - 0.0301, abs=2e-3)
    with pytest.raises(ConfigError, match="800 samples are shorter than a window of 1600"):
        load(f"audio:{tmp_path}", rate=8000, window_s=0.2, test_share=0.5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": 0}, "rate = 0: must be a whole number, 1 or more"),
        ({"seconds": -1.0}, "seconds = -1.0: must be a positive number of seconds"),
        ({"step_s": 0.1}, "are 200 and 800 samples"),
        ({"mels": True}, "mels = True"),
        ({"test_share": 1}, "test_share"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    put(tmp_path, "a/1.wav", sine(1000))
    put(tmp_path, "a/2.wav", sine(1000))
    with pytest.raises(ConfigError, match=says):
        load(f"audio:{tmp_path}", **({"test_share": 0.5} | options))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = put(tmp_path, "a/1.wav", sine(1000))
    whole = path.read_bytes()
    put(tmp_path, "a/2.wav", sine(1000))
    for content in (b"", b"RIFF", whole[:60], b"nonsense", whole[:44]):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"{path}: "):
            load(f"audio:{tmp_path}", test_share=0.5)
    (tmp_path / "b").mkdir()
    with pytest.raises(ConfigError, match=r"no sounds \(\.wav\) in it"):
        load(f"audio:{tmp_path / 'b'}")

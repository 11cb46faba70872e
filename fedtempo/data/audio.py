"""Sounds in folders, as spectrograms: one folder per class, optionally within one folder per client."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedtempo.data.class_folders import ClassFile, class_dataset, find_files
from fedtempo.data.dataset import Dataset
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.data.validation import check_test_split
from fedtempo.errors import ConfigError
from fedtempo.parts.sizes import LARGEST_BYTES, must_fit, must_hold
from fedtempo.parts.text_files import read_plain, read_text

FloatArray = npt.NDArray[np.float32]

SUFFIXES = {".wav"}
_NOISE = "_background_noise_"
_LISTS = {"testing_list.txt": "test", "validation_list.txt": "validation"}
_QUIETEST_DB = -100.0
_LOUDEST = 1e6
_FILTER = 20
"""Length of the filter of `resample_poly`, in units of the larger of both rates without their common divisor."""
_SAMPLE_BYTES = 64
"""What a sample takes while it is read, resampled and transformed: windows overlap, and their spectra are complex."""


@dataclass(frozen=True)
class Spectrograms:
    """How sounds become spectrograms.

    rate: samples per second to which sounds are resampled; None: all must have the same. seconds: the length to which
    sounds are cut, or padded with silence; None: all must have the same. window_s, step_s: length of a window and time
    from one to the next, seconds. mels: number of bands on the mel scale; None: all frequencies.
    """

    rate: int | None = None
    seconds: float | None = None
    window_s: float = 0.025
    step_s: float = 0.01
    mels: int | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "seconds", "window_s", "step_s", "mels"):
            value, whole = getattr(self, name), name in ("rate", "mels")
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not 0 < value < 1e9:
                kind = "a whole number, 1 or more" if whole else "a positive number of seconds"
                raise ConfigError(f"{name} = {value!r}: must be {kind}")

    def of(self, samples: FloatArray, rate: int) -> FloatArray:
        """Return the spectrogram of one sound in [-1, 1], shape (bands, windows), in [0, 1].

        Power in decibels, -100 dB and less as 0, 0 dB as 1; a sine of amplitude 1 has -3 dB. Bands go from low to high
        frequencies. Raises ValueError if the sound is shorter than a window, or there are too many bands.
        """
        from scipy.signal import spectrogram

        length, step = round(self.window_s * rate), round(self.step_s * rate)
        if not 1 <= step <= length or length < 2:
            what = f"window_s = {self.window_s:g} and step_s = {self.step_s:g}"
            raise ValueError(f"{what} are {length} and {step} samples; a step must be 1 or more, and within the window")
        if len(samples) < length:
            raise ValueError(f"{len(samples)} samples are shorter than a window of {length}; set seconds, or window_s")
        hertz, _, power = spectrogram(
            samples, rate, "hann", length, length - step, detrend=False, scaling="spectrum", mode="psd"
        )
        if self.mels is not None:
            power = _mel_filters(self.mels, hertz) @ power
        decibels = 10 * np.log10(np.maximum(power, 10 ** (_QUIETEST_DB / 10)))
        scaled: FloatArray = np.clip(1 - decibels / _QUIETEST_DB, 0, 1).astype(np.float32)
        return scaled

    def __str__(self) -> str:
        bands = "all frequencies" if self.mels is None else f"{self.mels} mel bands"
        windows = f"windows of {1000 * self.window_s:g} ms every {1000 * self.step_s:g} ms"
        return f"{bands}, {windows}, -100 to 0 dB as 0 to 1"


def audio(
    path: str,
    rate: int | None = None,
    seconds: float | None = None,
    window_s: float = 0.025,
    step_s: float = 0.01,
    mels: int | None = None,
    client: str | None = None,
    test_share: float = TEST_SHARE,
    test_split: str | None = None,
) -> Dataset:
    """WAV files stored as `<class>/<file>` or `<client>/<class>/<file>`, below `train`, `test`, `validation` or not.

    Each becomes a spectrogram (1, bands, windows): power in decibels, -100 to 0 dB as 0 to 1; channels are averaged.
    rate: resample to this number of samples per second (default: all must have the same). seconds: cut, or pad with
    silence, to this length (default: all must have the same). window_s, step_s: length of a window, and time from one
    to the next. mels: number of bands on the mel scale (default: all frequencies). client: regular expression for the
    beginning of a file's name, whose first group names the client, such as "(.*)_nohash_" in Speech Commands. The
    files testing_list.txt and validation_list.txt name test and validation files; without the first, and without
    `test`, test_share of the files of each client and class are for testing. test_split: as for `folder:`. The folder
    _background_noise_ is left out.

    Raises ConfigError naming the unusable file.
    """
    check_share(test_share)
    check_test_split(test_split)
    form = Spectrograms(rate, seconds, window_s, step_s, mels)
    root = Path(path).expanduser()
    files = [one for one in find_files(root, SUFFIXES, "sounds") if one.kind != _NOISE]
    if not files:
        raise ConfigError(f"{root}: no sounds but those of {_NOISE}")
    files = _listed(root, files)
    whose = "a folder for each of {n} clients"
    if client is not None:
        files, whose = _named_by(client, files), f"{{n}} clients by file name ({client})"
    return class_dataset(
        f"audio:{path}", root, files, "sounds", lambda paths: read_sounds(paths, form), test_share, test_split, whose
    )


def read_sounds(files: Sequence[Path], form: Spectrograms) -> tuple[FloatArray, str]:
    """Return WAV files as spectrograms (n, 1, bands, windows), and a description of them.

    Raises ConfigError naming a file that cannot be read, or that has another rate or length than the first.
    """
    spectrograms: FloatArray = np.empty((0,), np.float32)
    first_rate = first_length = 0
    for number, file in enumerate(files):
        samples, rate = _read(file)
        if form.rate is not None and rate != form.rate:
            samples, rate = _resampled(file, samples, rate, form.rate), form.rate
        if form.seconds is not None:
            length = round(form.seconds * rate)
            must_fit(file, _SAMPLE_BYTES * length, "set a lower seconds")
            samples = np.pad(samples[:length], (0, max(0, length - len(samples))))
        if number == 0:
            first_rate, first_length = rate, len(samples)
        if rate != first_rate:
            raise ConfigError(f"{file}: has {rate:,} samples per second, {files[0]} {first_rate:,}; set rate")
        if len(samples) != first_length:
            raise ConfigError(f"{file}: has {len(samples):,} samples, {files[0]} {first_length:,}; set seconds")
        try:
            spectrogram = form.of(samples, rate)
        except ValueError as error:
            raise ConfigError(f"{file}: {error}") from None
        if number == 0:
            size = 4 * len(files) * spectrogram.size
            must_fit(f"{file.parent}: {len(files)} sounds", size, "set mels", LARGEST_BYTES)
            spectrograms = np.empty((len(files), 1, *spectrogram.shape), np.float32)
        spectrograms[number, 0] = spectrogram
    shape = " x ".join(map(str, spectrograms.shape[2:]))
    return spectrograms, f"spectrograms of {shape} from {first_length / first_rate:g} s at {first_rate:,} Hz ({form})"


def _read(file: Path) -> tuple[FloatArray, int]:
    """Return samples in [-1, 1], averaged over channels, and their number per second."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            must_hold("its samples take", _SAMPLE_BYTES * file.stat().st_size)
            content = read_plain(file)
            _must_be_whole(content)
            rate, values = wavfile.read(io.BytesIO(content))
        if any("EOF" in str(warning.message) for warning in caught):
            raise ValueError("it ends too early")
    except Exception as error:  # a damaged file raises errors of many types
        raise ConfigError(f"{file}: cannot be read as a WAV file: {error}") from error
    if values.dtype == np.uint8:
        samples = (values.astype(np.float32) - 128) / 128
    elif values.dtype.kind == "i":
        samples = values.astype(np.float32) / np.float32(2.0 ** (8 * values.dtype.itemsize - 1))
    else:
        samples = values.astype(np.float32)
    if not len(samples) or not (np.abs(samples) <= _LOUDEST).all() or rate < 1:
        raise ConfigError(f"{file}: has no samples, or some that are far from -1 to 1, or not finite")
    return (samples if samples.ndim == 1 else samples.mean(axis=1)), int(rate)


def _must_be_whole(content: bytes) -> None:
    """Raise ValueError if a chunk of a WAV file announces more bytes than there are; RF64 has no sizes here."""
    order: Literal["little", "big"] = "big" if content.startswith(b"RIFX") else "little"
    at = len(content) if content.startswith(b"RF64") else 12
    while at + 8 <= len(content):
        name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], order)
        at += 8 + size
        if name == b"data" and at > len(content):
            raise ValueError("it ends too early")
        at += size % 2


def _resampled(file: Path, samples: FloatArray, rate: int, wanted: int) -> FloatArray:
    from scipy.signal import resample_poly

    common = math.gcd(rate, wanted)
    longer = len(samples) * wanted // rate + _FILTER * max(wanted, rate) // common
    must_fit(f"{file}: resampling from {rate:,} to {wanted:,} samples per second", _SAMPLE_BYTES * longer)
    resampled: FloatArray = resample_poly(samples, wanted // common, rate // common).astype(np.float32)
    return resampled


def _mel_filters(bands: int, hertz: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return triangular filters of equal width on the mel scale, shape (bands, frequencies)."""
    highest = 2595 * np.log10(1 + hertz[-1] / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, bands + 2) / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = np.maximum(0, np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)))
    if not filters.any(axis=1).all():
        raise ValueError(f"mels = {bands}: some bands hold none of the {len(hertz)} frequencies; lower mels")
    return np.asarray(filters, np.float64)


def _listed(root: Path, files: list[ClassFile]) -> list[ClassFile]:
    """Return the files with their splits as the lists of Speech Commands say, if there are any."""
    if files[0].split or not any((root / name).is_file() for name in _LISTS):
        return files
    split: dict[Path, str] = {one.file: "train" for one in files}
    for name, purpose in _LISTS.items():
        try:
            lines = read_text(root / name).splitlines() if (root / name).is_file() else []
        except (OSError, ValueError) as error:
            raise ConfigError(f"{root / name}: cannot be read: {error}") from error
        for line in filter(None, map(str.strip, lines)):
            if root / line not in split:
                raise ConfigError(f"{root / name}: names {line}, which does not exist")
            split[root / line] = purpose
    return [replace(one, split=split[one.file]) for one in files]


def _named_by(pattern: str, files: list[ClassFile]) -> list[ClassFile]:
    """Return the files with clients as their names say. Raises ConfigError for an unusable pattern or name."""
    try:
        expression = re.compile(pattern)
    except (re.error, RecursionError, TypeError) as error:
        raise ConfigError(f"client = {pattern!r}: not a regular expression: {error}") from error
    if expression.groups < 1:
        raise ConfigError(f"client = {pattern!r}: needs a group that names the client, such as '(.*)_nohash_'")
    named = []
    for one in files:
        match = expression.match(one.file.name)
        if one.client or match is None or not match[1]:
            why = "already lies in the folder of a client" if one.client else "has no such name"
            raise ConfigError(f"client = {pattern!r}: {one.file} {why}")
        named.append(replace(one, client=match[1]))
    return named

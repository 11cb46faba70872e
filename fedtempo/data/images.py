"""Images in folders: one folder per class, optionally within one folder per client."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.class_folders import class_dataset, find_files
from fedtempo.data.dataset import Dataset
from fedtempo.data.pictures import Format, Header, check_form, common_format, header, pixels
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.data.validation import check_test_split
from fedtempo.errors import ConfigError
from fedtempo.parts.sizes import LARGEST_BYTES, must_fit, must_hold

# Formats that Pillow decodes by itself: none that start another program.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp"}
_DECODED_BYTES = 12
"""What decoding takes for each pixel: 4 bytes, and as much again to convert and to scale them."""


def image_folder(
    path: str,
    side: int | None = None,
    test_share: float = TEST_SHARE,
    test_split: str | None = None,
    channels: int | None = None,
) -> Dataset:
    """Return images stored as `<class>/<file>`, or as `<client>/<class>/<file>` with one folder per client.

    Both may lie below folders `train`, `test` and `validation` (or `val`); without `test`, test_share of the images of
    each client and class are for testing. test_split: "validation" to test on those images, "train" to leave out the
    folder `test`. Classes and clients are in natural order. side: scale images to this height and width,
    pixels (bilinear); without it all must have the same size. channels: 1 (grey), 3 (colour) or 4 (colour and
    transparency); without it images are grey if all are, otherwise in colour. Bytes are divided by 255, grey of 16 bits
    by 65535.

    Raises ConfigError naming a file that cannot be read or lies in the wrong folder.
    """
    check_share(test_share)
    check_test_split(test_split)
    check_form(side, channels)
    root = Path(path).expanduser()
    files = find_files(root, SUFFIXES, "images", " and no .npz file")
    return class_dataset(
        f"folder:{path}",
        root,
        files,
        "images",
        lambda paths: read_images(paths, side, channels),
        test_share,
        test_split,
    )


def read_images(
    files: Sequence[Path], side: int | None, channels: int | None
) -> tuple[npt.NDArray[np.uint8] | npt.NDArray[np.float32], str]:
    """Return image files as an array (n, channels, height, width), and a description of it.

    side, channels: as for `image_folder`. The array holds bytes, or float32 for pixels of more than 8 bits. Raises
    ConfigError naming a file that cannot be read, or two that do not fit together.
    """
    form = common_format([_opened(file) for file in files], files, side, channels)
    size = len(files) * math.prod(form.shape) * np.dtype(form.dtype).itemsize
    must_fit(f"{files[0].parent}: {len(files)} images", size, "set a smaller side", LARGEST_BYTES)
    images: npt.NDArray[Any] = np.empty((len(files), *form.shape), dtype=form.dtype)
    for target, file in zip(images, files):
        target[...] = _decoded(file, form)
    return images, form.about


def _opened(file: Path) -> Header:
    """Return what the header of an image says."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata, which are not used
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as image:
                must_hold("decoding it takes", _DECODED_BYTES * math.prod(image.size))
                return header(image)
    except Exception as error:  # a damaged image raises errors of many types
        raise ConfigError(f"{file}: cannot be read as an image: {error or type(error).__name__}") from error


def _decoded(file: Path, form: Format) -> npt.NDArray[Any]:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(file, formats=_FORMATS) as image:
                return pixels(image, form)
    except Exception as error:
        raise ConfigError(f"{file}: cannot be read as an image: {error or type(error).__name__}") from error


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder. Raises ConfigError if the name leads out of the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{name!r}: lies outside of {folder}")
    return path

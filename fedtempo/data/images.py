"""Images in folders: one folder per class, optionally within one folder per client."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.labels import must_be_trained
from fedtempo.data.splitting import both, check_share, spread
from fedtempo.data.validation import NAMES as VALIDATION_NAMES
from fedtempo.data.validation import Split, check_test_split
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural

# Formats that Pillow decodes by itself: none that start another program.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp"}
MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}
_PURPOSES = {"train": "train", "test": "test", **dict.fromkeys(VALIDATION_NAMES, "validation")}
_LARGEST_BYTES = 2**31


@dataclass(frozen=True)
class _Image:
    """An image file and what its folders say. split, client: empty if no folder names them; kind: the class."""

    file: Path
    split: str
    client: str
    kind: str


def image_folder(path: str, side: int | None = None, test_share: float = 0.2, test_split: str | None = None) -> Dataset:
    """Return images stored as `<class>/<file>`, or as `<client>/<class>/<file>` with one folder per client.

    Both may lie below folders `train`, `test` and `validation` (or `val`); without `test`, test_share of the images of
    each client and class are for testing. test_split: "validation" to test on those images, "train" to leave out the
    folder `test`. Classes are sorted by name, clients in natural order. Images are grey if all are, otherwise in
    colour. side: scale images to this height and width, pixels (bilinear); without it all must have the same size.

    Raises ConfigError naming a file that cannot be read or lies in the wrong folder.
    """
    check_share(test_share)
    check_test_split(test_split)
    if side is not None and (not isinstance(side, int) or isinstance(side, bool) or side < 1):
        raise ConfigError(f"side = {side!r}: must be a whole number of pixels, 1 or more")
    root = Path(path).expanduser()
    images = _find_images(root)
    if test_split == "train":
        images = [image for image in images if image.split != "test"]
    kinds = sorted({image.kind for image in images}, key=natural)
    trained = [image for image in images if image.split in ("", "train")]
    clients = sorted({image.client for image in trained} - {""}, key=natural)
    y = np.array([kinds.index(image.kind) for image in images], dtype=np.int64)
    number = {client: i for i, client in enumerate(clients)}
    owners = np.array([number.get(image.client, -1) for image in images], dtype=np.int64)
    splits = np.array([image.split or "train" for image in images])
    train = np.flatnonzero(splits == "train")
    if not len(train):
        raise ConfigError(f"{root}: no training images; put them into {root / 'train'}")
    if "test" not in splits and test_split != "validation":
        held = spread([owners[train], y[train]], test_share, len(train))
        both(held, str(root))
        splits[train[held]] = "test"
        train = train[~held]
    rows = {split: np.flatnonzero(splits == split) for split in ("test", "validation")}
    for split, of_split in rows.items():
        if images[0].split and len(of_split):
            try:
                must_be_trained(y[train], y[of_split], kinds)
            except ValueError as error:
                raise ConfigError(f"{root}: {split}: {error}") from None
    x = _pixels(images, side)
    colours = "grey" if x.shape[1] == 1 else "colour"
    validation = Split(x[rows["validation"]], y[rows["validation"]], owners[rows["validation"]] if clients else None)
    whose = f", a folder for each of {len(clients)} clients: {listed(clients)}" if clients else ""
    return from_arrays(
        f"folder:{path}",
        x[train],
        y[train],
        x[rows["test"]],
        y[rows["test"]],
        len(kinds),
        owners[train] if clients else None,
        owners[rows["test"]] if clients else None,
        validation=validation if len(validation.y) else None,
        test_split=None if test_split == "train" else test_split,
        owner_names=tuple(clients),
        class_names=tuple(kinds),
        about=f"{colours} images of {x.shape[2]} x {x.shape[3]}, classes by folder: {', '.join(kinds)}{whose}",
    )


def _find_images(root: Path) -> list[_Image]:
    """Return all images below a folder except hidden ones, sorted by path."""
    if not root.is_dir():
        raise ConfigError(f"{root}: no such folder")
    candidates = (file for file in root.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    files = sorted(file for file in candidates if not any(part[0] == "." for part in file.relative_to(root).parts))
    if not files:
        raise ConfigError(f"{root}: no images ({', '.join(sorted(_SUFFIXES))}) and no .npz file in it")
    folders = [file.relative_to(root).parts[:-1] for file in files]
    split = all(len(names) > 1 and names[0] in _PURPOSES for names in folders)
    images = []
    for file, names in zip(files, folders):
        part, rest = (_PURPOSES[names[0]], names[1:]) if split else ("", names)
        if len(rest) not in (1, 2):
            raise ConfigError(
                f"{file}: images must lie in <class>/ or <client>/<class>/, optionally below train/, test/ and "
                "validation/"
            )
        images.append(_Image(file, part, rest[0] if len(rest) == 2 else "", rest[-1]))
    for part in {image.split for image in images}:
        same = [image for image in images if image.split == part]
        odd = next((image for image in same if bool(image.client) != bool(same[0].client)), None)
        if odd is not None:
            raise ConfigError(f"{odd.file}: not at the same depth as {same[0].file}; move it")
    return images


def _pixels(images: Sequence[_Image], side: int | None) -> npt.NDArray[np.uint8]:
    """Return all images as bytes, shape (n, channels, height, width)."""
    sizes = [_opened(image.file) for image in images]
    for image, (mode, _, _) in zip(images, sizes):
        if mode not in MODES:
            raise ConfigError(f"{image.file}: pixels of mode {mode} are not supported; convert the image to 8 bits")
    grey = all(mode in ("1", "L") for mode, _, _ in sizes)
    _, width, height = sizes[0]
    if side is not None:
        width = height = side
    else:
        odd = next((i for i, (_, w, h) in enumerate(sizes) if (w, h) != (width, height)), None)
        if odd is not None:
            _, w, h = sizes[odd]
            raise ConfigError(
                f"{images[odd].file}: is {w} x {h}, {images[0].file} is {width} x {height}; set side to scale images"
            )
    channels = 1 if grey else 3
    if (size := len(images) * channels * height * width) > _LARGEST_BYTES:
        raise ConfigError(f"{len(images)} images take {size:,} bytes, more than {_LARGEST_BYTES:,}; set a smaller side")
    pixels = np.empty((len(images), channels, height, width), dtype=np.uint8)
    for target, image in zip(pixels, images):
        target[...] = _decoded(image.file, "L" if grey else "RGB", (width, height))
    return pixels


def _opened(file: Path) -> tuple[str, int, int]:
    """Return mode, width and height of an image, read from its header."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as image:
                return image.mode, *image.size
    except Exception as error:  # a damaged image raises errors of many types
        raise ConfigError(f"{file}: cannot be read as an image: {error}") from error


def _decoded(file: Path, mode: str, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file, formats=_FORMATS) as image:
            converted = image.convert(mode)
            if converted.size != size:
                converted = converted.resize(size, Image.Resampling.BILINEAR)
            values = np.asarray(converted, dtype=np.uint8)
    except Exception as error:
        raise ConfigError(f"{file}: cannot be read as an image: {error}") from error
    return values[np.newaxis] if mode == "L" else values.transpose(2, 0, 1)

"""Pictures of any mode, depth and size as arrays with one number of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError

if TYPE_CHECKING:
    from PIL.Image import Image

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_COLOURS = {1: "grey", 3: "colour", 4: "colour, with transparency,"}
_GREY = {"1", "L", "LA"}
_BYTES = _GREY | {"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV"}
_DEEPEST = 65535


class Header(NamedTuple):
    """What the header of a picture says.

    mode: Pillow's mode. depth: "bytes"; "deep" for grey of 16 bits, from 0 to 65535; "numbers" for integers of 32 bits
    and floats, whose range is unknown. transparent: it has transparent pixels. reduced: it has 16 bits for each colour,
    of which Pillow reads the upper 8.
    """

    mode: str
    width: int
    height: int
    depth: Literal["bytes", "deep", "numbers"]
    transparent: bool
    reduced: bool


def header(picture: Image) -> Header:
    """Return what the header of an opened picture says. Raises ValueError for a mode that cannot be read."""
    mode = str(picture.mode)
    tiles = getattr(picture, "tile", None)  # pictures that come from a file say how they are stored
    raw = str(tiles[0][3]) if tiles else ""
    if mode.startswith("I;16") or (mode == "I" and picture.format in ("PNG", "PPM")):
        depth: Literal["bytes", "deep", "numbers"] = "deep"
    elif mode in ("I", "F"):
        depth = "numbers"
    elif mode in _BYTES:
        depth = "bytes"
    else:
        raise ValueError(f"pixels of mode {mode} are not supported; convert it to RGB")
    transparent = mode in ("LA", "PA", "RGBA") or "transparency" in picture.info
    return Header(mode, *picture.size, depth, transparent, depth == "bytes" and (";16" in raw or "65535" in raw))


@dataclass(frozen=True)
class Format:
    """The form in which all pictures of a data set are read.

    channels: 1 (grey), 3 (red, green, blue) or 4 (and opacity). depth: as in `Header`. "bytes" are read as uint8,
    "deep" as float32 in [0, 1], "numbers" as float32, unchanged. about: a description for people, such as "grey images
    of 28 x 28".
    """

    channels: int
    depth: Literal["bytes", "deep", "numbers"]
    width: int
    height: int
    about: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.channels, self.height, self.width

    @property
    def dtype(self) -> type[np.uint8] | type[np.float32]:
        """The type of the arrays that `pixels` returns."""
        return np.uint8 if self.depth == "bytes" else np.float32


def check_form(side: object, channels: object) -> None:
    """Raise ConfigError unless both are None or usable."""
    if side is not None and (not isinstance(side, int) or isinstance(side, bool) or side < 1):
        raise ConfigError(f"side = {side!r}: must be a whole number of pixels, 1 or more")
    if channels is not None and (isinstance(channels, bool) or channels not in tuple(_MODES)):
        raise ConfigError(f"channels = {channels!r}: must be 1 (grey), 3 (colour) or 4 (colour and transparency)")


def common_format(
    headers: Sequence[Header], names: Sequence[object], side: int | None = None, channels: int | None = None
) -> Format:
    """Return the form in which to read pictures.

    names: of the pictures, for errors. side: height and width, pixels; None: all have the same size. channels: 1, 3 or
    4; None: 1 if all pictures are grey, otherwise 3.

    Raises ConfigError naming two pictures that cannot be read in one form.
    """
    check_form(side, channels)
    _, width, height, *_ = headers[0]
    if side is not None:
        width = height = side
    elif odd := [i for i, picture in enumerate(headers) if (picture.width, picture.height) != (width, height)]:
        _, w, h, *_ = headers[odd[0]]
        raise ConfigError(f"{names[odd[0]]}: is {w} x {h}, {names[0]} is {width} x {height}; set side to scale images")
    depths = {picture.depth for picture in headers}
    if "numbers" in depths:
        if len(depths) > 1 or channels not in (None, 1):
            odd = [i for i, picture in enumerate(headers) if picture.depth == "numbers"]
            raise ConfigError(
                f"{names[odd[0]]}: pixels of mode {headers[odd[0]].mode}, whose range is unknown, cannot be combined "
                "with other modes or several channels; convert it"
            )
        return Format(1, "numbers", width, height, f"grey images of {height} x {width}, numbers not scaled")
    if channels is None:
        grey = all(picture.mode in _GREY or picture.depth == "deep" for picture in headers)
        channels = 1 if grey else 3
    about = f"{_COLOURS[channels]} images of {height} x {width}"
    if "deep" in depths:
        about += ", 16 bits divided by 65535"
    if channels != 4 and (ignored := sum(picture.transparent for picture in headers)):
        about += f", transparency of {ignored:,} ignored (channels = 4 keeps it)"
    if reduced := sum(picture.reduced for picture in headers):
        about += f", {reduced:,} with 16 bits for each colour read with 8"
    return Format(channels, "deep" if "deep" in depths else "bytes", width, height, about)


def pixels(picture: Image, form: Format) -> npt.NDArray[np.uint8] | npt.NDArray[np.float32]:
    """Return a picture as an array of `form.shape` and `form.dtype`, scaled to the size of the form (bilinear)."""
    from PIL import Image

    size = (form.width, form.height)
    if header(picture).depth != "bytes":
        values = np.asarray(picture).astype(np.float32) / np.float32(_DEEPEST if form.depth == "deep" else 1)
        if picture.size != size:
            values = np.asarray(Image.fromarray(values).resize(size, Image.Resampling.BILINEAR))
        planes = np.broadcast_to(values, form.shape).copy()
        planes[3:] = 1.0
        return planes
    converted = picture.convert(_MODES[form.channels])
    if converted.size != size:
        converted = converted.resize(size, Image.Resampling.BILINEAR)
    array = np.asarray(converted, dtype=np.uint8)
    array = array[np.newaxis] if array.ndim == 2 else array.transpose(2, 0, 1)
    return array if form.depth == "bytes" else array.astype(np.float32) / np.float32(255)

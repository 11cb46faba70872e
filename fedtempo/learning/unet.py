"""The network "unet", a small U-Net for segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.parts.fields import STRICT, Count, Doc

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, config=STRICT)
class UNet:
    """A small U-Net (Ronneberger et al., MICCAI 2015) for masks: 109,410 parameters for grey images and two classes.

    Two 3x3 convolutions at each scale, each with group normalisation and ReLU, and a shortcut from each scale on the
    way down to the same scale on the way up. It differs from the paper in its widths, its padding (outputs are as large
    as the images, of any size), its normalisation, which keeps no statistics of the clients' batches, and in scaling up
    by repeating pixels.
    """

    channels: Annotated[
        tuple[Count, ...], Field(strict=False, min_length=1), Doc("filters at each scale, from full size down by 2")
    ] = (16, 32, 64)
    groups: Annotated[Count, Doc("groups of channels that are normalised together; must divide all channels")] = 4

    def __post_init__(self) -> None:
        if uneven := [width for width in self.channels if width % self.groups]:
            raise ValueError(f"groups = {self.groups}: must divide the channels of every scale, including {uneven[0]}")

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, channels, height, width), output (batch, n_classes, height, width)."""
        from fedtempo.learning.unet_module import UNetModule

        if len(input_shape) != 3:
            raise ConfigError(
                f"model.network = 'unet': needs images (channels, height, width), got examples of shape {input_shape}"
            )
        return UNetModule(input_shape[0], self.channels, self.groups, n_classes)

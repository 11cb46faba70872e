"""Networks by name: the components that a configuration names, and the PyTorch modules that they build.

A network is a frozen component with `build(input_shape, n_classes)`. `NETWORKS` maps names to components; a user's
network is `UserNetwork("module:Class")`. PyTorch is not imported before a network is built.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError, FedtempoError, UserCodeError
from fedtempo.learning.sequence_networks import Cnn1d, Gru
from fedtempo.learning.transformer import Transformer
from fedtempo.learning.unet import UNet
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Lt
from fedtempo.parts.inputs import InputShape
from fedtempo.parts.plugins import imported
from fedtempo.parts.user_code import is_ours, part_name, user_code, user_error

if TYPE_CHECKING:
    from torch import nn

Channels = Annotated[tuple[Count, ...], Field(strict=False, min_length=1), Doc("filters of each convolution")]
Kernel = Annotated[Count, Doc("side of the square filters")]
Padding = Annotated[
    Literal["valid", "same"],
    Doc("'valid': no padding, so that images shrink with each convolution; 'same': they keep their size"),
]
PoolAfter = Annotated[
    tuple[Count, ...],
    Field(strict=False),
    Doc("numbers, from 1, of the convolutions followed by 2x2 max pooling (stride 2, floor)"),
]
BatchNorm = Annotated[bool, Doc("batch normalisation after each convolution's ReLU")]
RunningStatistics = Annotated[
    bool,
    Doc(
        "batch normalisation keeps running means and variances, which are sent and averaged with the weights and used "
        "in evaluations; false: evaluations normalise by their own batches (run.evaluation_batch)"
    ),
]
Dropout = Annotated[float, Ge(0), Lt(1), Doc("share of each hidden layer's outputs that a training step drops")]
Hidden = Annotated[tuple[Count, ...], Field(strict=False), Doc("widths of the hidden fully connected layers")]


class Network(Protocol):
    """A component that builds a module from the shape of one example and the number of outputs."""

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module: ...


def create(network: Network, input_shape: InputShape, n_classes: int, seed: int) -> nn.Module:
    """Return the network's module with initial weights that depend only on `seed`, 0 <= seed < 2**63.

    input_shape: of one example; of each input by name, or in order, if it has several. PyTorch's random state is the
    same afterwards as before.
    """
    from fedtempo.learning.numerics import torch_seed

    with torch_seed(seed):
        shape: Any = input_shape if isinstance(input_shape, dict) else tuple(input_shape)
        return network.build(shape, n_classes)


def network_error(error: Exception, network: Network) -> UserCodeError | None:
    """Return the error to raise in place of one in using the network; None if no user code took part in it."""
    if isinstance(error, MemoryError):
        return None
    if isinstance(network, UserNetwork):
        return user_error(error, f"model.network = {network.target!r}", imported(network.target, "model.network"))
    where = "training" if is_ours(network) else f"model.network = {part_name(network)!r}"
    return user_error(error, where, network)


@contextlib.contextmanager
def network_code(network: Network) -> Iterator[None]:
    """Build or use the network's module; errors that are no FedtempoError become those of `network_error`."""
    try:
        yield
    except FedtempoError:
        raise
    except Exception as error:
        if (wrapped := network_error(error, network)) is None:
            raise
        raise wrapped from error


@dataclass(frozen=True, config=STRICT)
class Cnn:
    """Convolutions with ReLU, max pooling after some of them, then fully connected layers with ReLU."""

    channels: Channels = (32, 64)
    kernel: Kernel = 3
    padding: Padding = "same"
    pool_after: PoolAfter = (1, 2)
    batch_norm: BatchNorm = False
    running_statistics: RunningStatistics = True
    hidden: Hidden = (128,)
    dropout: Dropout = 0.0

    def __post_init__(self) -> None:
        beyond = [layer for layer in self.pool_after if layer > len(self.channels)]
        if beyond:
            raise ValueError(f"pool_after: no convolution {beyond[0]}; channels defines {len(self.channels)}")

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, channels, height, width), output (batch, n_classes)."""
        from fedtempo.learning import layers

        if len(input_shape) != 3:
            raise ConfigError(
                f"model.network: needs images (channels, height, width), got examples of shape {input_shape}"
            )
        depth, height, width = input_shape
        sides = [self._side_after(side, self.padding) for side in (height, width)]
        if min(sides) < 1:
            raise ConfigError(
                f"padding = {self.padding!r}: images of {height} x {width} are too small; 'valid' needs at least "
                f"{self._smallest_side('valid')} x {self._smallest_side('valid')}, 'same' "
                f"{self._smallest_side('same')} x {self._smallest_side('same')}"
            )
        stack = layers.convolutional(
            depth,
            self.channels,
            self.kernel,
            self.padding,
            self.pool_after,
            self.batch_norm,
            self.running_statistics,
        )
        return stack.append(
            layers.dense((self.channels[-1] * sides[0] * sides[1], *self.hidden, n_classes), self.dropout)
        )

    def _side_after(self, side: int, padding: str) -> int:
        """Return the side of the image after all convolutions and poolings; 0 or less if it is too small."""
        for layer in range(1, len(self.channels) + 1):
            if padding == "valid":
                side -= self.kernel - 1
            if layer in self.pool_after:
                side //= 2
        return side

    def _smallest_side(self, padding: str) -> int:
        side = 1
        while self._side_after(side, padding) < 1:
            side += 1
        return side


@dataclass(frozen=True, config=STRICT)
class LeNet(Cnn):
    """FedHusky's network: 422,474 parameters (1.7 MB) at 28 x 28.

    The paper does not print the widths of the layers; these are one reading.
    """

    channels: Channels = (32, 64)
    kernel: Kernel = 5
    padding: Padding = "valid"
    pool_after: PoolAfter = (1, 2)
    hidden: Hidden = (320, 128)


@dataclass(frozen=True, config=STRICT)
class CnnMcMahan(Cnn):
    """McMahan et al. 2017 and CS-GD: 1,663,370 parameters at 28 x 28."""

    channels: Channels = (32, 64)
    kernel: Kernel = 5
    hidden: Hidden = (512,)


@dataclass(frozen=True, config=STRICT)
class CnnPsfl(Cnn):
    """PSFL's network for CIFAR: 62,006 parameters at 3 x 32 x 32. Channels are those of NIID-Bench, one reading."""

    channels: Channels = (6, 16)
    kernel: Kernel = 5
    padding: Padding = "valid"
    hidden: Hidden = (120, 84)


@dataclass(frozen=True, config=STRICT)
class CnnHam10000(Cnn):
    """PSFL's network for HAM10000: three convolutions with dropout.

    The paper prints neither widths nor dropout; these are one reading.
    """

    channels: Channels = (32, 64, 128)
    pool_after: PoolAfter = (1, 2, 3)
    hidden: Hidden = (128,)
    dropout: Dropout = 0.5


@dataclass(frozen=True, config=STRICT)
class CnnFedcs(Cnn):
    """FedCS and Hybrid-FL: six convolutions with batch normalisation; 18.3 MB at 3 x 32 x 32.

    The stated size requires padding and only two of the three poolings after pairs of convolutions.
    """

    channels: Channels = (32, 32, 64, 64, 128, 128)
    pool_after: PoolAfter = (2, 4)
    batch_norm: BatchNorm = True
    hidden: Hidden = (512, 192)


@dataclass(frozen=True, config=STRICT)
class Mlp:
    """Fully connected layers with ReLU; CS-GD's 200-200 by default."""

    hidden: Hidden = (200, 200)

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, *input_shape), output (batch, n_classes)."""
        from fedtempo.learning import layers

        return layers.dense((_size(input_shape), *self.hidden, n_classes))


@dataclass(frozen=True, config=STRICT)
class Logistic:
    """Multinomial logistic regression: one linear layer."""

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, *input_shape), output (batch, n_classes)."""
        from fedtempo.learning import layers

        return layers.dense((_size(input_shape), n_classes))


@dataclass(frozen=True, config=STRICT)
class CharLstm:
    """CS-GD's next-character model for Shakespeare: 819,920 parameters with 80 characters."""

    embedding: Annotated[Count, Doc("length of a character's vector")] = 8
    hidden: Annotated[Count, Doc("units of each LSTM layer")] = 256
    n_layers: Annotated[Count, Doc("LSTM layers")] = 2
    bias_vectors: Annotated[Literal[1, 2], Doc("bias vectors a layer: 2 as in PyTorch, 1 as in TensorFlow")] = 2
    every_step: Annotated[
        bool,
        Doc(
            "predict the character after each position, for data with a label per position; false: after the last only"
        ),
    ] = False

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, length) of character numbers below n_classes, output (batch, n_classes).

        With every_step the output is (batch, length, n_classes).
        """
        from fedtempo.learning import layers

        if len(input_shape) != 1:
            raise ConfigError(
                f"model.network = 'char-lstm': needs sequences (length,), got examples of shape {input_shape}"
            )
        return layers.CharLstm(
            n_classes, self.embedding, self.hidden, self.n_layers, self.bias_vectors, self.every_step
        )


@dataclass(frozen=True, config=STRICT)
class ResNet18:
    """ResNet-18 (He et al. 2016) for images of 28 or 32 pixels, with group instead of batch normalisation.

    11,173,962 parameters with three channels and ten classes. Group normalisation keeps no statistics of the
    clients' batches (Hsieh et al., The Non-IID Data Quagmire of Decentralized Machine Learning, ICML 2020).
    """

    channels: Annotated[Channels, Doc("filters of each stage of two blocks")] = (64, 128, 256, 512)
    groups: Annotated[Count, Doc("groups of channels that are normalised together; 2 in Reddi et al. 2021")] = 2

    def __post_init__(self) -> None:
        if uneven := [width for width in self.channels if width % self.groups]:
            raise ValueError(f"groups = {self.groups}: must divide the channels of every stage, including {uneven[0]}")

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, channels, height, width), output (batch, n_classes)."""
        from fedtempo.learning import residual

        if len(input_shape) != 3:
            raise ConfigError(
                f"model.network: needs images (channels, height, width), got examples of shape {input_shape}"
            )
        return residual.residual(input_shape[0], self.channels, self.groups, n_classes)


@dataclass(frozen=True, config=STRICT)
class UserNetwork:
    """A user's own `torch.nn.Module` class, or a function that returns a module.

    It is called with (input_shape, n_classes) if it takes two positional arguments, otherwise without any.
    """

    target: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$"), Doc("'module:Class', as Python imports it")]
    options: Annotated[dict[str, Any], Doc("keyword arguments that it is called with")] = dataclasses.field(
        default_factory=dict
    )

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, *input_shape), output (batch, n_classes)."""
        from torch import nn

        make = imported(self.target, "model.network")
        if not callable(make):
            raise ConfigError(
                f"model.network = {self.target!r}: must be a class or a function, not {type(make).__name__}"
            )
        arguments: tuple[Any, ...] = (input_shape, n_classes)
        try:
            inspect.signature(make).bind(*arguments, **self.options)
        except (TypeError, ValueError):  # it does not take them, or is built in and has no signature
            arguments = ()
        try:
            with user_code(f"model.network = {self.target!r}", make):
                module = make(*arguments, **self.options)
        except UserCodeError as error:
            if not isinstance(cause := error.__cause__, TypeError) or error.frames:
                raise
            raise ConfigError(f"model.network = {self.target!r}: cannot be built: {cause}") from cause
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"model.network = {self.target!r} returned {type(module).__name__}; it must return a torch.nn.Module"
            )
        return module


NETWORKS: dict[str, type[Network]] = {
    "lenet": LeNet,
    "mlp": Mlp,
    "logistic": Logistic,
    "cnn": Cnn,
    "cnn-mcmahan": CnnMcMahan,
    "cnn-psfl": CnnPsfl,
    "cnn-ham10000": CnnHam10000,
    "cnn-fedcs": CnnFedcs,
    "char-lstm": CharLstm,
    "resnet18-gn": ResNet18,
    "unet": UNet,
    "gru": Gru,
    "cnn-1d": Cnn1d,
    "transformers": Transformer,
}


def _size(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size

"""Networks as PyTorch modules, and trained models as files for other programs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError, RunError, nearest
from fedtempo.learning.networks import create, network_code
from fedtempo.parts.inputs import shape_of_json
from fedtempo.record.models import write_arrays, write_file
from fedtempo.runs.config import NOT_OF_NETWORK, network_from
from fedtempo.runs.models import KINDS, TrainedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMATS = ("safetensors", "pt", "onnx")
"""Formats of exported models."""

_ONNX_PACKAGES = ("onnx", "onnxscript")


def build_network(
    network: str,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | Mapping[str, Sequence[int]],
    outputs: int,
    *,
    seed: int = 0,
    **options: Any,
) -> nn.Module:
    """Return a network of fedtempo's, or your own "module:Class", as a PyTorch module with random weights.

    network: as `model.network` in a configuration (`fedtempo list networks`). input_shape: of one example, without the
    batch; if it has several inputs, a dict or a tuple of shapes. outputs: number of classes, tokens or predicted
    numbers. seed: of the initial weights. options: further keys of `[model]`, such as `hidden=[64]`.

    Raises ConfigError for an unknown network or option.
    """
    return _built(network, input_shape, outputs, seed, options)


def build_recorded_network(config: Mapping[str, Any], facts: Mapping[str, Any]) -> nn.Module:
    """Return the network of a run's configuration and facts, with random weights; imports a user's own module.

    Raises ConfigError if the run does not say how to build it.
    """
    table, shape = config.get("model"), facts.get("network")
    if not isinstance(table, dict) or shape is None:
        raise ConfigError("this run does not record its network; build the module yourself and use load_into")
    options = {key: value for key, value in table.items() if key not in ("network", *NOT_OF_NETWORK)}
    return _built(str(table.get("network", "mlp")), shape["input_shape"], shape["outputs"], 0, options)


def _built(network: str, shape: Any, outputs: int, seed: int, options: Mapping[str, Any]) -> nn.Module:
    component = network_from(network, dict(options))
    with network_code(component):
        return create(component, shape_of_json(shape), outputs, seed)


def checked_kind(kind: str) -> str:
    """Return the kind of a model. Raises ConfigError unless it is one of `KINDS`."""
    if kind not in KINDS:
        raise ConfigError(f"model = {kind!r}: no such model{nearest(kind, KINDS)}")
    return kind


def tensors(model: TrainedModel) -> dict[str, Tensor]:
    """Return a model's state by name, with ordinary strides."""
    import torch

    return {name: torch.from_numpy(array) for name, array in model.arrays().items()}


def export_model(
    model: TrainedModel, to: str, path: Path, network: Callable[[], nn.Module], facts: Mapping[str, Any]
) -> Path:
    """Write a model to a file in one of `FORMATS`; return the file.

    network: builds its module, for ONNX. facts: of its run. Raises ConfigError if a package is missing, or for ONNX and
    several inputs; RunError if the file cannot be written.
    """
    if to == "safetensors":
        write_arrays(path, model.arrays(), model.naming.metadata())
    elif to == "pt":
        import torch

        write_file(path, lambda new: torch.save(tensors(model), new))
    else:
        if (facts.get("network") or {}).get("inputs") == "several":
            raise ConfigError("to = 'onnx': networks with several inputs cannot be exported; use 'safetensors' or 'pt'")
        missing = [name for name in _ONNX_PACKAGES if find_spec(name) is None]
        if missing:
            raise ConfigError(f"to = 'onnx': {' and '.join(missing)} not installed; pip install 'fedtempo[onnx]'")
        module = network().eval()
        write_file(path, lambda new: _write_onnx(module, facts["network"], new))
    return path


def check_format(to: str) -> None:
    """Raise ConfigError unless models can be exported in this format."""
    if to not in FORMATS:
        raise ConfigError(f"to = {to!r}: models are exported as {', '.join(FORMATS)}")


def _write_onnx(module: nn.Module, about: Mapping[str, Any], path: Path) -> None:
    """Write a module for inputs of any batch size, named "input" and "output"."""
    import torch

    dtype = torch.int64 if about["inputs"] == "symbols" else torch.float32
    example = torch.zeros(2, *about["input_shape"], dtype=dtype)
    batch = torch.export.Dim("batch")
    log = logging.getLogger("torch.onnx")
    level = log.level
    try:
        log.setLevel(logging.ERROR)  # it warns about operators of packages that are not installed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module,
                (example,),
                input_names=["input"],
                output_names=["output"],
                dynamic_shapes=({0: batch},),
                verbose=False,
            )
        assert program is not None
        program.save(str(path), external_data=False)
    except OSError:
        raise
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        raise RunError(
            f"to = 'onnx': PyTorch cannot export this network: {type(error).__name__}: {first_line}"
        ) from error
    finally:
        log.setLevel(level)

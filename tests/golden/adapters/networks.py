"""Every layer of the named networks: parameters and output shapes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fedtempo.learning.networks import CharLstm, Cnn, CnnFedcs, CnnMcMahan, CnnPsfl, LeNet, Mlp, create
from tests.golden.compare import same

FAMILIES: dict[str, Cnn] = {
    "FedHusky": LeNet(),
    "CS-GD": CnnMcMahan(),
    "PSFL": CnnPsfl(),
    "FedCS": CnnFedcs(),
    "Hybrid-FL": CnnFedcs(),
}


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    layers = expected["layers"]
    if "vocabulary" in given:
        biases = 2 if given["two_bias_vectors"] else 1
        network: Any = CharLstm(given["embedding"], given["hidden"], given["layers"], biases)
        shape, classes = (80,), given["vocabulary"]
        inputs = torch.zeros(2, *shape, dtype=torch.int64)
    else:
        network, classes = _image_network(given["paper"], layers)
        shape = tuple(given["input_shape"])
        inputs = torch.zeros(2, *shape)
    module = create(network, shape, classes, seed=0)
    rows = _rows(module, inputs)
    same([row["parameters"] for row in rows], [layer["parameters"] for layer in layers], "parameters of layers")
    outputs = [layer["output"] for layer in layers if "output" in layer]
    if outputs:
        same([row["output"] for row in rows], outputs, "outputs of layers")
    parameters = sum(parameter.numel() for parameter in module.parameters())
    floats = sum(buffer.numel() for buffer in module.state_dict().values() if buffer.is_floating_point()) - parameters
    counters = sum(not value.is_floating_point() for value in module.state_dict().values())
    found = {
        "parameters": parameters,
        "bytes_float32": 4 * parameters,
        "megabytes_decimal": round(4 * parameters / 1e6, 3),
        "batch_norm_buffers_float32": floats,
        "batch_norm_counters_int64": counters,
        "bytes_with_float_buffers": 4 * (parameters + floats),
    }
    for key in expected.keys() - {"layers"}:
        if key == "megabytes_decimal":
            digits = len(str(expected[key]).partition(".")[2])
            same(round(4 * parameters / 1e6, digits), expected[key], key)
        else:
            same(found[key], expected[key], key)


def _image_network(paper: str, layers: list[dict[str, Any]]) -> tuple[Any, int]:
    """The paper's network, with the case's layers where they differ; number of classes."""
    names = [layer["layer"] for layer in layers]
    widths = [int(match[2]) for text in names if (match := re.fullmatch(r"linear (\d+)->(\d+)", text))]
    convolutions = [
        match for text in names if (match := re.fullmatch(r"conv (\d+)x\1 (\d+)->(\d+) (valid|same)", text))
    ]
    if not convolutions:
        return Mlp(tuple(widths[:-1])), widths[-1]
    pools, seen = [], 0
    for text in names:
        seen += text.startswith("conv")
        if text.startswith("max pool"):
            pools.append(seen)
    family = next(network for prefix, network in FAMILIES.items() if paper.startswith(prefix))
    wanted = {
        "channels": tuple(int(match[3]) for match in convolutions),
        "kernel": int(convolutions[0][1]),
        "padding": convolutions[0][4],
        "pool_after": tuple(pools),
        "batch_norm": any(text.startswith("batch norm") for text in names),
        "hidden": tuple(widths[:-1]),
    }
    return replace(family, **{key: value for key, value in wanted.items() if getattr(family, key) != value}), widths[-1]


def _rows(module: nn.Module, inputs: torch.Tensor) -> list[dict[str, Any]]:
    """Parameters and output of each layer in the order in which they run; an LSTM is a row a layer."""
    rows: list[dict[str, Any]] = []

    def record(part: nn.Module, _: Any, output: Any) -> None:
        if isinstance(part, nn.LSTM):
            for layer in range(part.num_layers):
                named = [value for key, value in part.named_parameters() if key.endswith(f"_l{layer}")]
                rows.append({"parameters": sum(value.numel() for value in named), "output": None})
        else:
            count = sum(parameter.numel() for parameter in part.parameters())
            rows.append({"parameters": count, "output": list(output.shape[1:])})

    kinds = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.Linear, nn.Embedding, nn.LSTM)
    for part in module.modules():
        if isinstance(part, kinds):
            part.register_forward_hook(record)
    with torch.no_grad():
        module(inputs)
    return rows

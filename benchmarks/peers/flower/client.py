"""What each of Flower's clients does: a visit as Flower's PyTorch tutorial writes it, with the data at hand."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from functools import lru_cache

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from benchmarks.peers.work import BATCH, EXAMPLES, LR, client_tensors, counting, network

app = ClientApp()


@lru_cache(maxsize=1)
def data() -> list[tuple[Tensor, Tensor]]:
    """Of all clients; once a process."""
    torch.set_num_threads(1)
    return client_tensors()


@app.train()
def train(message: Message, context: Context) -> Message:
    x, y = data()[int(context.node_config["partition-id"])]
    module = network()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    with counting() if message.content["config"]["count"] else contextlib.nullcontext() as count:
        module.train()
        optimizer = torch.optim.SGD(module.parameters(), lr=LR)
        for rows in torch.split(torch.randperm(EXAMPLES), BATCH):
            optimizer.zero_grad()
            F.cross_entropy(module(x[rows]), y[rows]).backward()
            optimizer.step()
    metrics = MetricRecord({"num-examples": EXAMPLES, **({} if count is None else asdict(count))})
    content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)

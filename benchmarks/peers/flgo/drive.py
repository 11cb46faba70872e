"""flgo: its FedAvg with clients one after the other, on a data set and a model given in a file, without evaluation.

flgo 0.4.4 is older than the PyTorch here, which asks subclasses of Subset for one more method: it is given here, as
PyTorch's error proposes it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.absent import pretend

pretend("torchvision")  # for networks and transformations that are not used here

import flgo  # noqa: E402
from flgo.algorithm import fedavg  # noqa: E402
from flgo.benchmark.partition import IIDPartitioner  # noqa: E402
from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe  # noqa: E402

from benchmarks.peers.work import BATCH, CLIENTS, LR, ROUNDS, serve  # noqa: E402

SETTING = """
import torch.utils.data
from benchmarks.peers.work import network, tensors

train_data = torch.utils.data.TensorDataset(*tensors())
train_data.classes = list(range(10))

def get_model():
    return network()
"""


def items(dataset: FromDatasetPipe.TaskDataset, indices: list[int]) -> list[object]:
    return [dataset[index] for index in indices]


FromDatasetPipe.TaskDataset.__getitems__ = items


class Simulation:
    """In the current folder, where flgo puts what it makes."""

    def __init__(self) -> None:
        Path("setting.py").write_text(SETTING)
        benchmark = flgo.gen_benchmark_from_file("lenet", "setting.py")
        sys.path.append(os.getcwd())  # flgo imports what it made by name
        flgo.gen_task(
            {"benchmark": {"name": benchmark}, "partitioner": IIDPartitioner(num_clients=CLIENTS)}, task_path="task"
        )
        options = {
            "num_rounds": 0,
            "proportion": 1.0,
            "sample": "full",
            "aggregate": "uniform",
            "num_epochs": 1,
            "batch_size": BATCH,
            "learning_rate": LR,
            "train_holdout": 0.0,
            "eval_interval": -1,
            "no_log_console": True,
            "no_tqdm": True,
        }
        self.runner = flgo.init("task", fedavg, option=options)

    def prepare(self) -> None:
        self.runner.num_rounds += ROUNDS

    def rounds(self) -> None:
        self.runner.run()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        simulation = Simulation()
        serve(simulation.rounds, lambda: simulation.runner.model, prepare=simulation.prepare)

"""pfl (Apple): FederatedAveraging on a SimulatedBackend.

pfl takes each client's batches in the same order every epoch, where others shuffle. Its first iteration evaluates
every client before and after training, whatever the frequency; it is made before the clock starts.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.peers.work import BATCH, CLIENTS, LR, ROUNDS, client_tensors, network, serve


class LeNet(nn.Module):
    """With the methods that pfl asks of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        self.train()
        return F.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
        return {"loss": Weighted(F.cross_entropy(self(x), y, reduction="sum").item(), len(x))}


class Simulation:
    def __init__(self) -> None:
        users = {client: Dataset(list(data), user_id=client) for client, data in enumerate(client_tensors())}
        cohort = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", list(users)))
        self.backend = SimulatedBackend(cohort, cohort)
        self.module = LeNet()

    def prepare(self) -> None:
        """A new model and algorithm, and the first iteration."""
        self.module = LeNet()
        self.model = PyTorchModel(
            self.module, torch.optim.SGD, torch.optim.SGD(self.module.parameters(), lr=1.0), use_torch_compile=False
        )
        self.algorithm = FederatedAveraging()
        self.run(until=1)

    def rounds(self) -> None:
        self.run(until=1 + ROUNDS)

    def run(self, until: int) -> None:
        self.algorithm.run(
            NNAlgorithmParams(
                central_num_iterations=until,
                evaluation_frequency=np.iinfo(int).max,
                train_cohort_size=CLIENTS,
                val_cohort_size=0,
            ),
            self.backend,
            self.model,
            NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LR, local_batch_size=BATCH),
            send_metrics_to_platform=False,
        )


if __name__ == "__main__":
    simulation = Simulation()
    serve(simulation.rounds, lambda: simulation.module, prepare=simulation.prepare)

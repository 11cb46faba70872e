"""fluke: CentralizedFL, which is FedAvg, with everything in memory and no evaluation."""

from __future__ import annotations

from benchmarks.peers.absent import pretend

# Data sets, pictures, loggers and algorithms that are not used here.
pretend("clearml", "datasets", "opacus", "seaborn", "torch.utils.tensorboard", "torchvision", "wandb")

from fluke import DDict, FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.data import DataContainer, DataSplitter  # noqa: E402
from torch.nn import CrossEntropyLoss  # noqa: E402

from benchmarks.peers.work import BATCH, CLIENTS, LR, ROUNDS, SEED, network, serve, tensors  # noqa: E402


def federation() -> CentralizedFL:
    environment = FlukeENV()
    environment.set_seed(SEED)
    environment.set_device("cpu")
    environment.set_inmemory(True)
    environment.set_eval_cfg(pre_fit=False, post_fit=False, server=False, locals=False)
    x, y = tensors()
    settings = DDict(
        model=network(),
        client=DDict(
            batch_size=BATCH,
            local_epochs=1,
            loss=CrossEntropyLoss,
            optimizer=DDict(name="SGD", lr=LR),
            scheduler=DDict(name="StepLR", step_size=1, gamma=1.0),
        ),
        server=DDict(weighted=True),
    )
    container = DataContainer(x, y, x[:10], y[:10], num_classes=10)
    return CentralizedFL(CLIENTS, DataSplitter(container, distribution="iid"), settings)


if __name__ == "__main__":
    algorithm = federation()
    serve(lambda: algorithm.run(ROUNDS, eligible_perc=1.0), lambda: algorithm.server.model)

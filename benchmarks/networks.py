"""The networks of the benchmarks as PyTorch users write them. Nothing here needs fedtempo."""

from __future__ import annotations

from torch import Tensor, nn

VOCABULARY = 80


def lenet() -> nn.Module:
    """Pooling after ReLU."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(1024, 320), nn.ReLU(), nn.Linear(320, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def mlp() -> nn.Module:
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(784, 200), nn.ReLU()),
        *(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)),
    )


def cnn6() -> nn.Module:
    """Six convolutions, each with ReLU and batch normalisation, pooling after every other one."""
    parts: list[nn.Module] = []
    depth = 3
    for layer, width in enumerate((32, 32, 64, 64, 128, 128)):
        parts += [nn.Conv2d(depth, width, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(width)]
        parts += [nn.MaxPool2d(2)] if layer % 2 else []
        depth = width
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(2048, 10))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(VOCABULARY, 8), nn.Linear(256, VOCABULARY)
        self.recurrent = nn.LSTM(8, 256, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.output(self.recurrent(self.embedding(tokens))[0][:, -1])
        return logits

"""Networks that are no transformers, as `hotlap training memory file.py:function` takes them: a function of the batch that returns a
module whose call gives the loss, and what it is called with."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


class _WithLoss(nn.Module):
    """Cross-entropy of 10 classes behind a network."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.inner(x), targets)


def _classes(batch: int) -> torch.Tensor:
    return torch.randint(0, 10, (batch,))


def perceptron(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    sizes = (784, 512, 1024, 1024, 256)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.1))]
    return _WithLoss(nn.Sequential(*layers, nn.Linear(256, 10))), (torch.randn(batch, 784), _classes(batch))


def convolutions(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return _WithLoss(net), (torch.randn(batch, 3, 32, 32), _classes(batch))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.norms[1](self.second(functional.relu(self.norms[0](self.first(x))))))


def residual(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    blocks = [_Residual(48) for _ in range(4)]
    net = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))
    return _WithLoss(net), (torch.randn(batch, 3, 32, 32), _classes(batch))


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTMCell(64, 256), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        h, c = torch.zeros(x.shape[0], 256), torch.zeros(x.shape[0], 256)
        for step in x.unbind(1):
            h, c = self.cells(step, (h, c))
        return functional.cross_entropy(self.head(h), targets)


def recurrent(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return _Recurrent(), (torch.randn(batch, 32, 64), _classes(batch))


def embeddings(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    net = nn.Sequential(nn.EmbeddingBag(20_000, 64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
    return _WithLoss(net), (torch.randint(0, 20_000, (batch, 40)), _classes(batch))


class _Mixer(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.along = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norms[1](x))


def mixer(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    blocks = [_Mixer(64, 128) for _ in range(4)]
    net = nn.Sequential(nn.Conv2d(3, 128, 4, 4), nn.Flatten(2), _Transposed(), *blocks, _Mean(), nn.Linear(128, 10))
    return _WithLoss(net), (torch.randn(batch, 3, 32, 32), _classes(batch))


class _Transposed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


class _Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)

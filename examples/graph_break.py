"""A module with a branch on a tensor's value, which no graph can hold; `fixed` does the same without it.

hotlap kernel compiled examples/graph_break.py:make --against eager
hotlap kernel compiled examples/graph_break.py:fixed --against eager
"""

from __future__ import annotations

import torch


class Gate(torch.nn.Module):
    """A layer whose output is halved where its sum is positive."""

    def __init__(self, branch: bool) -> None:
        super().__init__()
        self.first, self.second, self.branch = torch.nn.Linear(256, 256), torch.nn.Linear(256, 256), branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.first(x)) * 2 + 1
        if self.branch:
            if y.sum() > 0:
                y = y * 0.5
        else:
            y = torch.where(y.sum() > 0, y * 0.5, y)
        return torch.softmax(self.second(y), -1) + torch.tanh(x) * torch.sigmoid(x)


def make() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return Gate(branch=True), (torch.randn(64, 256),)


def fixed() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return Gate(branch=False), (torch.randn(64, 256),)

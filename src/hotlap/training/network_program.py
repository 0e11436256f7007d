"""A network as a program that trains: `python -m hotlap.training.network_program NAME MODE [width=value …]`.

The module is made from the network's shape alone, with random weights and one batch of random tokens that is made once. It stands for
the network's kernels, not for what it learns.
"""

from __future__ import annotations

import sys
from typing import Any

from hotlap.core.work.networks.shape import Network
from hotlap.training.conventions import network_of
from hotlap.training.stepping import Steps

INDUCTOR_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def module(network: Network) -> Any:
    """A `torch.nn.Module` of that shape: tokens (batch, context) → logits (batch, context, vocabulary)."""
    import torch
    from torch import nn
    from torch.nn import functional

    biased, every = network.bias in ("qkv", "all"), network.bias == "all"

    def norm(width: int) -> nn.Module:
        return nn.RMSNorm(width) if network.gated else nn.LayerNorm(width)

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self, windowed: bool) -> None:
            super().__init__()
            width, groups, values = network.head_dim, network.kv_heads, network.value_dim or network.head_dim
            self.qkv = nn.Linear(network.hidden, (network.heads + groups) * width + groups * values, bias=biased)
            self.out = nn.Linear(network.heads * values, network.hidden, bias=every)
            self.sizes = (network.heads * width, groups * width, groups * values)
            self.norms = nn.ModuleList([norm(width), norm(width)]) if network.qk_norm else None
            self.window = network.window if windowed else 0

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                part.view(batch, length, heads, -1).transpose(1, 2)
                for part, heads in zip(self.qkv(x).split(self.sizes, -1), (network.heads, network.kv_heads, network.kv_heads), strict=True)
            )
            if self.norms is not None:
                q, k = self.norms[0](q), self.norms[1](k)
            if network.rotary:
                q, k = turned(q), turned(k)
            again = network.heads // network.kv_heads
            if again > 1:
                k, v = k.repeat_interleave(again, 1), v.repeat_interleave(again, 1)
            mask = None
            if self.window:
                place = torch.arange(length, device=x.device)
                apart = place[:, None] - place[None, :]
                mask = (apart >= 0) & (apart < self.window)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=network.causal and mask is None)
            return self.out(y.transpose(1, 2).reshape(batch, length, -1))

    def turned(x: Any) -> Any:
        """Rotary positions: halves of each head turned against each other."""
        length, width = x.shape[-2:]
        rates = 10_000.0 ** (-torch.arange(0, width, 2, device=x.device) / width)
        angle = torch.arange(length, device=x.device)[:, None] * rates
        sine, cosine = angle.sin().to(x.dtype), angle.cos().to(x.dtype)
        a, b = x[..., : width // 2], x[..., width // 2 :]
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)

    class FeedForward(nn.Module):  # type: ignore[misc]
        def __init__(self, inter: int) -> None:
            super().__init__()
            self.up = nn.Linear(network.hidden, inter * (2 if network.gated else 1), bias=every)
            self.down = nn.Linear(inter, network.hidden, bias=every)

        def forward(self, x: Any) -> Any:
            y = self.up(x)
            if network.gated:
                gate, y = y.chunk(2, -1)
                return self.down(functional.silu(gate) * y)
            return self.down(functional.gelu(y))

    class Experts(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(network.hidden, network.experts, bias=every)
            self.each = nn.ModuleList(FeedForward(network.expert_inter) for _ in range(network.experts))
            shared = network.shared_experts * network.expert_inter
            self.shared = FeedForward(shared) if shared else None

        def forward(self, x: Any) -> Any:
            flat = x.reshape(-1, network.hidden)
            weight, which = self.router(flat).softmax(-1).topk(network.topk, -1)
            made = self.shared(flat) if self.shared is not None else torch.zeros_like(flat)
            for place, expert in enumerate(self.each):
                row, slot = torch.where(which == place)
                if len(row):
                    made = made.index_add(0, row, expert(flat[row]) * weight[row, slot][:, None])
            return made.view_as(x)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, place: int) -> None:
            super().__init__()
            self.attention = Attention(place < network.windowed_layers)
            self.feed = Experts() if network.experts and place >= network.dense_layers else FeedForward(network.inter)
            self.norms = nn.ModuleList(norm(network.hidden) for _ in range(network.norms))

        def forward(self, x: Any) -> Any:
            y = self.attention(self.norms[0](x))
            x = x + (self.norms[2](y) if network.norms > 2 else y)
            y = self.feed(self.norms[1](x))
            return x + (self.norms[3](y) if network.norms > 3 else y)

    class Whole(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(network.vocabulary, network.hidden)
            self.positions = nn.Embedding(network.positions, network.hidden) if network.positions else None
            self.blocks = nn.ModuleList(Block(place) for place in range(network.layers))
            self.pooler = nn.Linear(network.hidden, network.hidden, bias=False) if network.pooled else None
            self.norm = norm(network.hidden)
            self.head = nn.Linear(network.hidden, network.vocabulary, bias=False)
            if network.tied:
                self.head.weight = self.tokens.weight

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens)
            if self.positions is not None:
                x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
            return self.head(x if self.pooler is None else functional.gelu(self.pooler(x)))

    return Whole()


def main(argv: list[str]) -> None:
    """Trains until whoever measures ends it."""
    import torch

    name, mode, *given = argv
    network, batch, context = network_of(name, dict(pair.split("=", 1) for pair in given))
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = module(network).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    run: Any = model
    if mode != "off":
        run = torch.compile(model, mode=mode) if mode in INDUCTOR_MODES else torch.compile(model, backend=mode)
    tokens = torch.randint(network.vocabulary, (batch, context + 1), device=device)
    while True:
        with Steps() as steps:
            logits = run(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            steps.step(tokens=batch * context, samples=batch)


if __name__ == "__main__":
    main(sys.argv[1:])

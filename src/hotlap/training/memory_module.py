"""A transformer of `core/work/networks` as a PyTorch module, in the shape that its training scripts commonly have. Imported only where
PyTorch runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from hotlap.core.work.networks.shape import Network


class Attention(nn.Module):  # type: ignore[misc]
    """Queries, keys and values, scaled dot products, a product behind them."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net, biased = net, net.bias in ("all", "qkv")
        wide, narrow = net.heads * net.head_dim, net.kv_heads * net.head_dim
        self.query, self.key, self.value = (nn.Linear(net.hidden, size, bias=biased) for size in (wide, narrow, narrow))
        self.out = nn.Linear(wide, net.hidden, bias=net.bias == "all")
        if net.qk_norm:
            self.query_norm, self.key_norm = nn.LayerNorm(net.head_dim), nn.LayerNorm(net.head_dim)

    def forward(self, x: Any, rotation: Any) -> Any:
        batch, length, _ = x.shape
        net = self.net
        q = self.query(x).view(batch, length, net.heads, net.head_dim)
        k, v = (part(x).view(batch, length, net.kv_heads, net.head_dim) for part in (self.key, self.value))
        if net.qk_norm:
            q, k = self.query_norm(q), self.key_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if rotation is not None:
            q, k = _rotated(q, *rotation), _rotated(k, *rotation)
        groups = net.heads // net.kv_heads
        if groups > 1:
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=net.causal)
        return self.out(attended.transpose(1, 2).reshape(batch, length, -1))


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Wide(nn.Module):  # type: ignore[misc]
    """The two or three products of a layer's inner width."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        biased = net.bias == "all"
        self.up, self.down = nn.Linear(net.hidden, net.inter, bias=biased), nn.Linear(net.inter, net.hidden, bias=biased)
        self.gate = nn.Linear(net.hidden, net.inter, bias=biased) if net.gated else None

    def forward(self, x: Any) -> Any:
        if self.gate is None:
            return self.down(functional.gelu(self.up(x)))
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, net: Network) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(net.hidden), Attention(net)
        self.between, self.wide = nn.LayerNorm(net.hidden), Wide(net)

    def forward(self, x: Any, rotation: Any) -> Any:
        x = x + self.attention(self.before(x), rotation)
        return x + self.wide(self.between(x))


class Transformer(nn.Module):  # type: ignore[misc]
    """Embedding, layers, norm, head and loss: `forward` returns the mean cross-entropy."""

    def __init__(self, net: Network, length: int, checkpointing: bool = False) -> None:
        super().__init__()
        self.net, self.checkpointing = net, checkpointing
        self.embedding = nn.Embedding(net.vocabulary, net.hidden)
        self.places = None if net.rotary else nn.Embedding(net.positions or length, net.hidden)
        self.layers = nn.ModuleList(Layer(net) for _ in range(net.layers))
        self.last = nn.LayerNorm(net.hidden)
        self.head = None if net.tied else nn.Linear(net.hidden, net.vocabulary, bias=False)
        if net.rotary:
            angles = torch.outer(torch.arange(length), 10000.0 ** -(torch.arange(0, net.head_dim, 2) / net.head_dim)).repeat(1, 2)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.embedding(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        rotation = (self.cos, self.sin) if self.net.rotary else None
        for layer in self.layers:
            x = checkpoint(layer, x, rotation, use_reentrant=False) if self.checkpointing else layer(x, rotation)
        x = self.last(x)
        logits = functional.linear(x, self.embedding.weight) if self.head is None else self.head(x)
        return functional.cross_entropy(logits.view(-1, self.net.vocabulary), targets.view(-1))

"""A network's shape as a PyTorch module with random weights: its kernels, not what it learns. It imports PyTorch: for children alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hotlap.core.work.networks.shape import Network


def norm(network: Network, width: int) -> nn.Module:
    return nn.RMSNorm(width) if network.norm_op == "rmsnorm" else nn.LayerNorm(width, bias=not network.gated)


class SelfAttention(nn.Module):  # type: ignore[misc]
    """Of grouped heads, with a window or without, x (batch, tokens, hidden)."""

    def __init__(self, network: Network, windowed: bool) -> None:
        super().__init__()
        width, groups, values = network.head_dim, network.kv_heads, network.value_dim or network.head_dim
        self.network, self.window = network, network.window if windowed else 0
        self.qkv = nn.Linear(network.hidden, (network.heads + groups) * width + groups * values, bias=network.bias in ("qkv", "all"))
        self.out = nn.Linear(network.heads * values, network.hidden, bias=network.bias == "all")
        self.sizes = (network.heads * width, groups * width, groups * values)
        self.norms = nn.ModuleList([norm(network, width), norm(network, width)]) if network.qk_norm else None

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        network, heads = self.network, (self.network.heads, self.network.kv_heads, self.network.kv_heads)
        parts = self.qkv(x).split(self.sizes, -1)
        q, k, v = (part.view(batch, length, count, -1).transpose(1, 2) for part, count in zip(parts, heads, strict=True))
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
    """Up, activation, down; gated where the network is."""

    def __init__(self, network: Network, inter: int) -> None:
        super().__init__()
        self.gated = network.gated
        self.up = nn.Linear(network.hidden, inter * (2 if network.gated else 1), bias=network.bias == "all")
        self.down = nn.Linear(inter, network.hidden, bias=network.bias == "all")

    def forward(self, x: Any) -> Any:
        y = self.up(x)
        if not self.gated:
            return self.down(functional.gelu(y))
        gate, y = y.chunk(2, -1)
        return self.down(functional.silu(gate) * y)


class RoutedExperts(nn.Module):  # type: ignore[misc]
    """Each token through the experts of its choice."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.topk = network.topk
        self.router = nn.Linear(network.hidden, network.experts, bias=network.bias == "all")
        self.each = nn.ModuleList(FeedForward(network, network.expert_inter) for _ in range(network.experts))
        shared = network.shared_experts * network.expert_inter
        self.shared = FeedForward(network, shared) if shared else None

    def forward(self, x: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        weight, which = self.router(flat).softmax(-1).topk(self.topk, -1)
        y = self.shared(flat) if self.shared is not None else torch.zeros_like(flat)
        for place, expert in enumerate(self.each):
            row, slot = torch.where(which == place)
            if len(row):
                y = y.index_add(0, row, expert(flat[row]) * weight[row, slot][:, None])
        return y.view_as(x)


class TransformerBlock(nn.Module):  # type: ignore[misc]
    """Attention and feed-forward, normed before, and after where the network has four norms."""

    def __init__(self, network: Network, place: int) -> None:
        super().__init__()
        self.attention = SelfAttention(network, place < network.windowed_layers)
        experts = network.experts and place >= network.dense_layers
        self.feed = RoutedExperts(network) if experts else FeedForward(network, network.inter)
        self.norms = nn.ModuleList(norm(network, network.hidden) for _ in range(network.norms))

    def forward(self, x: Any) -> Any:
        y = self.attention(self.norms[0](x))
        x = x + (self.norms[2](y) if len(self.norms) > 2 else y)
        y = self.feed(self.norms[1](x))
        return x + (self.norms[3](y) if len(self.norms) > 3 else y)


class NetworkModule(nn.Module):  # type: ignore[misc]
    """Tokens (batch, context) → logits (batch, context, vocabulary)."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.tokens = nn.Embedding(network.vocabulary, network.hidden)
        self.positions = nn.Embedding(network.positions, network.hidden) if network.positions else None
        self.blocks = nn.ModuleList(TransformerBlock(network, place) for place in range(network.layers))
        self.pooler = nn.Linear(network.hidden, network.hidden, bias=False) if network.pooled else None
        self.norm = norm(network, network.hidden)
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

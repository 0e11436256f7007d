"""The model of scripts/quality_check.sh: its reader, tokenizer, forward pass and rounding, on a small file of the same form."""

from __future__ import annotations

import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import smollm2  # noqa: E402 (a script, not a package)

pytestmark = pytest.mark.slow("imports PyTorch")
RNG = np.random.default_rng(2)
HIDDEN, HEADS, GROUPS, INTER, VOCABULARY = 64, 4, 2, 96, 260


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def field(name: str, value: Any) -> bytes:
    if isinstance(value, list):
        body = struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    elif isinstance(value, str):
        body = struct.pack("<I", 8) + text(value)
    else:
        body = struct.pack("<IF"[:2] + ("f" if isinstance(value, float) else "I"), 6 if isinstance(value, float) else 4, value)
    return text(name) + body


def packed(values: np.ndarray, kind: int) -> tuple[bytes, np.ndarray]:
    """Blocks of 32, and what they stand for, by loops."""
    if kind == smollm2.F32:
        return values.astype("<f4").tobytes(), values.astype(np.float32)
    out, back = b"", []
    for block in values.reshape(-1, 32):
        if kind == smollm2.Q4_1:
            scale, least = np.float16((block.max() - block.min()) / 15), np.float16(block.min())
            levels = np.clip(np.round((block - np.float32(least)) / np.float32(scale)), 0, 15).astype(np.uint8)
            out += scale.tobytes() + least.tobytes() + bytes(int(levels[i]) | int(levels[i + 16]) << 4 for i in range(16))
            back.append(levels * np.float32(scale) + np.float32(least))
        else:
            scale = np.float16(np.abs(block).max() / 127)
            levels = np.round(block / np.float32(scale)).astype(np.int8)
            out += scale.tobytes() + levels.tobytes()
            back.append(levels * np.float32(scale))
    return out, np.array(back, np.float32).reshape(values.shape)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A model of two layers whose tokens are bytes and a few pairs."""
    widths = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN // 2, HIDDEN), "attn_v": (HIDDEN // 2, HIDDEN), "attn_output": (HIDDEN, HIDDEN)}
    widths |= {"ffn_gate": (INTER, HIDDEN), "ffn_up": (INTER, HIDDEN), "ffn_down": (HIDDEN, INTER)}
    shapes = {"token_embd.weight": (VOCABULARY, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(2):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in widths.items()}
        shapes |= {f"blk.{layer}.{name}.weight": (HIDDEN,) for name in ("attn_norm", "ffn_norm")}
    infos, data, truth = b"", b"", {}
    for name, shape in shapes.items():
        kind = smollm2.F32 if "norm" in name else smollm2.Q8_0 if name.startswith("token") else smollm2.Q4_1
        values = 1 + RNG.normal(size=shape) / 10 if "norm" in name else RNG.normal(size=shape) / 8
        raw, truth[name] = packed(values, kind)
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1]) + struct.pack("<IQ", kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown = [chr(byte) for byte in plain] + [chr(256 + place) for place in range(256 - len(plain))]
    fields = {
        "general.architecture": "llama", "llama.block_count": 2, "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": GROUPS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": [*shown, "th", "the", "Ġthe", "Ġt"], "tokenizer.ggml.merges": ["t h", "th e", "Ġ t", "Ġ the"],
    }  # fmt: skip
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields)) + b"".join(field(*each) for each in fields.items()) + infos
    path = tmp_path_factory.mktemp("smollm2") / "small.gguf"
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path, truth


@pytest.fixture
def place(file: tuple[Path, dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_SMOLLM2", str(file[0]))
    monkeypatch.delenv("HOTLAP_SMOLLM2_KEEP", raising=False)
    smollm2.model.cache_clear()
    return file[0]


def test_blocks_are_what_they_stand_for(file: tuple[Path, dict[str, np.ndarray]]) -> None:
    read = smollm2.Gguf(str(file[0]))
    assert set(read.infos) == set(file[1])
    for name, values in file[1].items():
        assert np.allclose(read.tensor(name).numpy(), values, atol=1e-6), name


def test_tokens_are_the_merged_pairs(place: Path) -> None:
    fields = smollm2.Gguf(str(place)).fields
    tokenizer, names = smollm2.Tokenizer(fields), fields["tokenizer.ggml.tokens"]
    assert [names[token] for token in tokenizer.tokens("the then the 42é")] == ["the", "Ġthe", "n", "Ġthe", "Ġ", "4", "2", "Ã", "©"]


def by_hand(weights: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """The forward pass in float64, position by position and head by head."""
    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights[name]

    def turned(x: np.ndarray, position: int) -> np.ndarray:
        y = x.copy()
        for pair in range(len(x) // 2):
            angle = position * 10000.0 ** (-2 * pair / len(x))
            a, b = x[2 * pair], x[2 * pair + 1]
            y[2 * pair], y[2 * pair + 1] = a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)
        return y

    x, width = weights["token_embd.weight"][tokens].astype(float), HIDDEN // HEADS
    for layer in range(2):
        at = f"blk.{layer}."
        y = norm(x, at + "attn_norm.weight")
        q, k, v = (y @ weights[f"{at}attn_{part}.weight"].T for part in "qkv")
        seen = np.zeros_like(x)
        for head in range(HEADS):
            own, shared = slice(head * width, (head + 1) * width), slice(head // 2 * width, (head // 2 + 1) * width)
            for place in range(len(x)):
                scores = [turned(q[place, own], place) @ turned(k[other, shared], other) / math.sqrt(width) for other in range(place + 1)]
                share = np.exp(scores) / np.exp(scores).sum()
                seen[place, own] = share @ v[: place + 1, shared]
        x = x + seen @ weights[at + "attn_output.weight"].T
        y = norm(x, at + "ffn_norm.weight")
        gate = y @ weights[at + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weights[at + "ffn_up.weight"].T)) @ weights[at + "ffn_down.weight"].T
    logits: np.ndarray = norm(x, "output_norm.weight") @ weights["token_embd.weight"].T
    return logits


def test_the_forward_pass_is_that_by_hand(file: tuple[Path, dict[str, np.ndarray]], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [5, 200, 17, 256, 9]
    logits = smollm2.reference(np.array(tokens)).numpy()
    assert np.allclose(logits, by_hand(file[1], tokens), atol=1e-4)
    monkeypatch.setenv("HOTLAP_SMOLLM2_KEEP", str(tmp_path))
    assert (smollm2.reference(np.array(tokens)).numpy() == logits).all()
    assert len(list(tmp_path.iterdir())) == 1
    assert (smollm2.reference(np.array(tokens)).numpy() == logits).all()  # read again
    assert np.allclose(smollm2.bf16(np.array(tokens)).float().numpy(), logits, atol=0.1)


def test_rounding_is_to_the_nearest_of_its_grid() -> None:
    weights = torch.tensor([[0.7, -0.31, 0.04, 0.349] * 16])
    assert smollm2.symmetric(4, 64)(weights)[0, :4].tolist() == pytest.approx([0.7, -0.3, 0.0, 0.3])
    assert (smollm2.symmetric(8, 64)(weights) - weights).abs().max() <= 0.7 / 127 / 2 + 1e-7


def test_the_grid_of_the_file_is_refused_as_evidence(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for variant, code in (("int4_aligned", 1), ("int4", 0), ("int8", 0), ("bf16", 0)):
        monkeypatch.setattr(sys, "argv", ["smollm2.py", "evidence", variant])
        assert smollm2.main() == code, variant
    assert "int4_aligned: refused as evidence" in capsys.readouterr().out

"""The shape of a network: one TOML file each, with its source."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Notice

AS_STORED = {"fp8": "fp8_block", "mxfp4": "mxfp4"}  # how weights are published → the type of a step that takes them so
_FOLDER = Path(__file__).parent / "shapes"


@dataclass(frozen=True)
class Network:
    """A transformer. Widths are elements; a figure of 0 means that it has no such part."""

    name: str
    about: str
    source: str
    parameters: float  # as published
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int  # of queries and keys
    inter: int  # of a dense layer
    vocabulary: int
    aliases: tuple[str, ...] = ()
    gated: bool = True  # gate and up, not up alone
    tied: bool = False  # embedding and head share their weights
    causal: bool = True
    window: int = 0  # keys that a query of a windowed layer sees
    windowed_layers: int = 0
    value_dim: int = 0  # of a head's values, where it differs
    kv_rank: int = 0  # multi-head latent attention: width of the keys' and values' latent
    q_rank: int = 0  # and of the queries', where they have one
    rope_dim: int = 0  # part of head_dim that is rotated and shared by all heads
    experts: int = 0
    topk: int = 0
    expert_inter: int = 0
    shared_experts: int = 0
    dense_layers: int = 0  # first layers without experts
    rotary: bool = True  # positions are rotations of queries and keys
    positions: int = 0  # rows of a table of positions
    pooled: bool = False  # an encoder with a square matrix over its first token
    bias: str = ""  # of products: none, qkv or all
    qk_norm: bool = False  # every head's query and key is normed
    activation: str = ""  # of the inner width, where it is not SiLU and product of gated networks, GELU of others
    norms: int = 2  # of a layer
    norm: str = ""  # layernorm or rmsnorm; "": rmsnorm of gated networks, layernorm of others
    in_out: bool = False  # matrices lie (in, out) in memory; else (out, in), as PyTorch's linear layers have them
    longest: int = 0  # context that it can take; 0: as long as one likes
    remarks: tuple[Notice, ...] = ()  # how its configuration was read, and what of it is left out
    stored: str = ""  # how its weights are published, where that is no 16-bit type: fp8, mxfp4

    def taken_as(self, dtype: str) -> str:
        """What to know of a step in that type, where it is not how the weights are stored."""
        if dtype.startswith(self.stored):
            return ""
        as_stored = f": --dtype {AS_STORED[self.stored]} takes them as they are" if self.stored in AS_STORED else ""
        return f"the weights of {self.name} are stored in {self.stored}; taken as {dtype}{as_stored}"

    @property
    def norm_op(self) -> str:
        return self.norm or ("rmsnorm" if self.gated else "layernorm")

    @property
    def latent(self) -> bool:
        """Whether it has multi-head latent attention."""
        return self.kv_rank > 0

    @property
    def expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def attention_parameters(self) -> int:
        """Of one layer."""
        if not self.latent:
            return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        nope, value = self.head_dim - self.rope_dim, self.value_dim
        queries = self.heads * self.head_dim
        queries_up = self.q_rank * (self.hidden + queries) if self.q_rank else self.hidden * queries
        down = self.hidden * (self.kv_rank + self.rope_dim)
        return queries_up + down + self.heads * (self.kv_rank * (nope + value) + value * self.hidden)

    def feed_forward_parameters(self, inter: int) -> int:
        return (3 if self.gated else 2) * self.hidden * inter

    @property
    def routed_parameters(self) -> int:
        """Of one layer, all experts that tokens choose from."""
        return self.experts * self.feed_forward_parameters(self.expert_inter)

    @property
    def expert_parameters(self) -> int:
        """Of one layer, all experts and the shared ones with the router."""
        shared = self.shared_experts * self.feed_forward_parameters(self.expert_inter)
        return self.routed_parameters + shared + self.hidden * self.experts

    @property
    def embedding_parameters(self) -> int:
        ends = self.vocabulary * (1 if self.tied else 2) + self.positions + (self.hidden if self.pooled else 0)
        return self.hidden * ends

    @property
    def counted(self) -> int:
        """Parameters of its matrices: norms and biases left out."""
        dense = (self.layers - self.expert_layers) * self.feed_forward_parameters(self.inter)
        experts = self.expert_layers * self.expert_parameters
        return self.layers * self.attention_parameters + dense + experts + self.embedding_parameters

    @property
    def cached_per_token(self) -> int:
        """Elements that one token leaves in the cache of keys and values, all layers, window not counted."""
        each = self.kv_rank + self.rope_dim if self.latent else 2 * self.kv_heads * self.head_dim
        return self.layers * each


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@functools.cache
def load(name: str) -> Network:
    """A network by name or alias. Raises InputError with the nearest name."""
    for slug in names():
        if name == slug or name in _read(slug).aliases:
            return _read(slug)
    raise InputError(unknown(name, names()))


def unknown(name: str, valid: Collection[str]) -> str:
    """That there is no such network, with the nearest; a name on Hugging Face, as meta-llama/Llama-3-8B, is compared by its last part."""
    return f"there is no network '{name}'; {nearest(name.rpartition('/')[2], valid)}"


@functools.cache
def _read(slug: str) -> Network:
    return from_document(tomllib.loads((_FOLDER / f"{slug}.toml").read_text("utf-8")), slug)


def from_document(given: Mapping[str, Any], name: str) -> Network:
    """A network from the keys of its file. Raises InputError for one that is unknown, missing or of the wrong kind."""
    known = {field.name: field for field in fields(Network) if field.name not in ("name", "remarks")}
    for key, value in given.items():
        if key not in known:
            raise InputError(f"{name}.toml: no key '{key}'; {nearest(key, known)}")
        kind = str(known[key].type).partition("[")[0]
        if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"{name}.toml: '{key}' is {_SAID[kind]}, not {value!r:.40}")
        if isinstance(value, (int, float)) and value < 0:
            raise InputError(f"{name}.toml: '{key}' is {_SAID[kind]} from 0, not {value}")
    missing = [key for key, field in known.items() if field.default is MISSING and not given.get(key)]
    if missing:
        said = ", ".join(repr(key) for key in missing)
        raise InputError(f"{name}.toml: {said} missing; a transformer needs these, another network a list of 'layers'")
    network = Network(**{**given, "name": name, "aliases": tuple(given.get("aliases", ()))})
    if network.windowed_layers > network.layers:
        raise InputError(f"{name}.toml: 'windowed_layers' is {network.windowed_layers}, more than its {network.layers} layers")
    if bool(network.window) != bool(network.windowed_layers):
        raise InputError(f"{name}.toml: 'window' and 'windowed_layers' go together: keys that a query sees, and layers where that is so")
    return network


_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "tuple": (list,)}
_SAID = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "tuple": "a list of names"}

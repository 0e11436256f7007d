"""Every kernel that one GPU runs in one step of any network: forward, backward, exchanges, optimizer, as cases with their calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.core.work.networks import calls, layered, replicas, shape, transformer
from hotlap.core.work.networks.backward import backward
from hotlap.core.work.networks.calls import Call, Setting
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.replicas import Shard
from hotlap.core.work.networks.shape import Network
from hotlap.core.work.networks.walk import walk

PHASES = ("prefill", "decode", "forward", "train")
USUAL_CONTEXT = 2048
MOST = 2**24  # of a count

Source = Network | Layered
DTYPES = (*calls.DTYPES, "fp16", "fp32")  # of any network
LAYERED_DTYPES = ("bf16", "fp16", "fp32")
_COUNTS = ("batch", "context", "tp", "pp", "dp", "ep", "micro_batch")  # of a Choice


@dataclass(frozen=True)
class Choice:
    """How a step is asked for; `context` 0: as the network is usually run."""

    phase: str
    batch: int = 1
    context: int = 0
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    dtype: str = "bf16"
    micro_batch: int = 0  # training: sequences that pass together; 0: one of a causal network, all of another


def count(text: str, option: str, several: bool = True) -> int:
    """A whole number from 1; k is 1024. `several`: whether the option takes more, with commas."""
    digits = text[:-1] if text[-1:] in ("k", "K") else text
    if not digits.isdecimal() or not 1 <= int(digits) <= MOST:
        commas = ", several with commas" if several else ""
        raise InputError(f"{option} is a whole number from 1{commas}, 1k for 1024, not '{text}'")
    return int(digits) * (1 if digits == text else 1024)


def names() -> list[str]:
    return sorted({*shape.names(), *layered.names()})


def find(name: str) -> Source:
    """A network by name or alias. Raises InputError with the nearest names."""
    if (found := layered.load(name)) is not None:
        return found
    if name in shape.names() or any(name in shape.load(slug).aliases for slug in shape.names()):
        return shape.load(name)
    raise InputError(shape.unknown(name, names()))


def phases(network: Source) -> tuple[str, ...]:
    """That it can be run in."""
    if isinstance(network, Layered):
        return network.phases
    return ("prefill", "decode", "train") if network.causal else ("forward", "train")


def remarks(network: Source) -> tuple[Notice, ...]:
    """How its configuration was read, what of it is left out, and what has no workload."""
    if isinstance(network, Network) or not network.no_workload:
        return network.remarks
    missing = (f"not counted: the {part} of {network.name} (no model yet); the true time is higher" for part in network.no_workload)
    return (*network.remarks, *(Notice("no_workload", text) for text in missing))


def label(network: Source, choice: Choice) -> str:
    """A step in words: llama-3-8b decode batch=8 context=1024 tp=1; what is 1 or usual is left out, but batch, context and tp."""
    words = [network.name, choice.phase, f"batch={choice.batch}"]
    if isinstance(network, Network) or network.has_context:
        words.append(f"context={context_of(network, choice)}")
    if isinstance(network, Network) or choice.tp > 1:
        words.append(f"tp={choice.tp}")
    words += [f"{name}={value}" for name in ("pp", "dp", "ep") if (value := getattr(choice, name)) > 1]
    words += [f"dtype={choice.dtype}"] if choice.dtype != "bf16" else []
    return " ".join([*words, *([f"micro_batch={choice.micro_batch}"] if choice.micro_batch and choice.phase == "train" else [])])


def choice_of(label: str) -> Choice | None:
    """How a step is run, as `label` says it; None for the name of another step, as of a trace or a module. A context of 0: it has none."""
    _, _, run = label.partition(" ")
    phase, *words = run.split(" ")
    given = dict(word.split("=", 1) for word in words if "=" in word)
    counts = {name: int(value) for name, value in given.items() if name in _COUNTS and value.isdecimal()}
    if phase not in PHASES or "batch" not in counts or len(counts) + ("dtype" in given) < len(words):
        return None
    return Choice(phase, dtype=given.get("dtype", "bf16"), **counts)


def context_of(network: Source, choice: Choice) -> int:
    if isinstance(network, Layered):
        return choice.context or int(network.inputs.get("context", 0))
    return choice.context or min(USUAL_CONTEXT, network.longest or USUAL_CONTEXT)


def step(network: Source, choice: Choice) -> list[Call]:
    """What one GPU runs in one step. Raises InputError for what cannot be, as widths that cannot be cut."""
    if choice.phase not in phases(network):
        raise InputError(f"has no phase {choice.phase}", f"valid: {', '.join(phases(network))}", f"{network.name} ")
    check_context(network, context_of(network, choice))
    return _layers(network, choice) if isinstance(network, Layered) else _transformer(network, choice)


# ---------------------------------------------------------------- networks by their layers


def _layers(network: Layered, choice: Choice) -> list[Call]:
    if max(choice.tp, choice.pp, choice.ep) > 1:
        raise InputError("is not cut over GPUs: tp, pp and ep are 1", "dp makes replicas", f"{network.name} ")
    if choice.dtype not in LAYERED_DTYPES:
        raise InputError(f"is described in bf16, fp16 or fp32, not {choice.dtype}", about=f"{network.name} ")
    train = choice.phase == "train"
    section = "decode" if choice.phase == "decode" else "layers"
    walked = walk(network, section, choice.batch, context_of(network, choice), choice.dtype, train)
    forward = [_typed(call, choice.dtype) for call in walked.calls]
    if not train:
        return forward
    back = [_typed(call, choice.dtype) for call in backward(forward)]
    held = Shard(walked.parameters - walked.looked_up, choice.dp, calls.nodes(choice.dp))
    return [*forward, *back, *replicas.exchanges([held]), replicas.update(network.optimizer, held.parameters)]


def _typed(call: Call, dtype: str) -> Call:
    """In the network's type, where a kernel's own default is another."""
    has = {"attention": ("dtype", "kv_dtype"), "routing": (), "collective": ()}.get(call.workload, ("dtype",))
    return replace(call, params={**call.params, **{name: dtype for name in has if name not in call.params}})


# ---------------------------------------------------------------- transformers


def _transformer(network: Network, choice: Choice) -> list[Call]:
    check_dtype(network, choice.dtype)
    setting = _setting(network, choice)
    found = transformer.forward(network, setting)
    once = transformer.after(network, setting, found) if setting.phase == "train" else []
    passes = [*found, *backward(found)] if setting.phase == "train" else found
    return [*(replace(call, times=call.times * setting.micro_batches) for call in passes), *once]


def check_context(network: Source, context: int) -> None:
    """Raises InputError for more tokens than a network can take."""
    if network.longest and context > network.longest:
        raise InputError(f"takes a context of at most {network.longest}, not {context}", about=f"{network.name} ")


def check_dtype(network: Network, dtype: str) -> None:
    """Raises InputError for a type that a transformer is not described in."""
    valid = calls.DTYPES if network.experts else calls.PRODUCT_DTYPES
    if dtype not in valid:
        raise InputError(f"is described in {', '.join(valid)}, not {dtype}", about=f"{network.name} ")


def asked(network: Source, choice: Choice) -> tuple[Source, Setting | Choice]:
    """What the memory of a step follows from, as far as it is known."""
    return network, (_setting(network, choice) if isinstance(network, Network) else choice)


def _setting(network: Network, choice: Choice) -> Setting:
    given: dict[str, Any] = {name: getattr(choice, name) for name in ("batch", "tp", "pp", "dp", "ep", "dtype")}
    micro = choice.micro_batch or (1 if network.causal else choice.batch)
    phase: calls.Phase = "prefill" if choice.phase in ("forward", "prefill") else "decode" if choice.phase == "decode" else "train"
    return Setting(phase, context=context_of(network, choice), micro_batch=micro, **given)

"""What a training step needs of memory: by formula, by fake tensors, and by the allocator; whether that fits, and what to switch first."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import InputError, MachineError, nearest
from hotlap.core.measure.supervisor import Process
from hotlap.core.model import machines
from hotlap.core.work.networks import shape
from hotlap.core.work.networks.shape import Network
from hotlap.training import memory_formula, memory_snapshot
from hotlap.training.memory_record import Fit, MemoryAccount, MemoryReport, Switch, SwitchSet, TrainingVariant
from hotlap.training.memory_step import MemoryJob, StepsFailed

CLOSE = 0.9  # of a GPU's memory: from here on a context (about 0.5 GB of CUDA), workspaces and fragments decide
OF_FREE = 0.5  # of the memory that is free here, which a real step may take
CHANGEABLE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "inter", "vocabulary", "positions")
COSTS = {
    "checkpointing": "a third more computing: activations are made again", "autocast": "products in bf16",
    "sgd": "no moments: another optimizer, other results", "batch": "more steps, or gradients added up over them",
}  # fmt: skip


class MemoryAsked(NamedTuple):
    """What to look at. `arguments`: of a script; of a network its changed sizes."""

    target: str
    arguments: tuple[str, ...] = ()
    variant: TrainingVariant = TrainingVariant()
    steps: int = 2
    machine: str = ""
    measure: bool = True
    limit_s: float = 600.0
    threads: int = 1


Listener = Callable[[str], None]


def report(asked: MemoryAsked, listen: Listener = lambda _: None) -> MemoryReport:
    """Raises InputError for what is no network, script or function, and for one that does not come to its steps."""
    spec = machines.load(asked.machine) if asked.machine else None
    if memory_snapshot.is_snapshot(asked.target):
        return _of_snapshot(asked, spec)
    variant = replace(asked.variant, foreach=spec is not None)
    network = None if _is_code(asked.target) else _network(asked)
    job = _job(asked, network, variant)
    accounts, failed = list[MemoryAccount](), dict[str, str]()
    if network:
        accounts.append(memory_formula.account(network, variant))
    listen("by fake tensors")
    fake = _run(job, asked.limit_s)
    _sort_in(fake, "fake tensors", accounts, failed)
    why_not = "" if asked.measure else "it was not asked for"
    why_not = why_not or _too_large(accounts)
    if why_not:
        failed["allocator"] = why_not
    else:
        listen("by the allocator")
        _sort_in(_run(msgspec.structs.replace(job, mode="real"), asked.limit_s), "allocator", accounts, failed)
    if not accounts:
        raise InputError(f"{asked.target}: {next(iter(failed.values()))}")
    order = {"fake tensors": 0, "allocator": 1, "formula": 2}
    accounts.sort(key=lambda account: order[account.how])
    fit = _fit(spec, accounts[0].peak_bytes) if spec else None
    switches = _switches(asked, network, variant, accounts, fit, listen)
    together = _needed_together(asked, network, variant, switches, fit, listen)
    return MemoryReport(
        target=asked.target, arguments=list(asked.arguments), variant=None if job.script else variant, accounts=accounts, failed=failed,
        fit=fit, switches=switches, together=together,
    )  # fmt: skip


def _of_snapshot(asked: MemoryAsked, spec: Any) -> MemoryReport:
    """What a recorded history says; nothing runs. Raises InputError for a file that is no snapshot."""
    if asked.arguments:
        raise InputError(f"'{asked.arguments[0]}': a snapshot takes no sizes and no arguments, it is of a step that was")
    snapshot, sha256 = memory_snapshot.read(Path(asked.target))
    account = memory_snapshot.account(snapshot)
    fit = _fit(spec, _whole(account)) if spec else None
    return MemoryReport(target=asked.target, sha256=sha256, accounts=[account], fit=fit, switches=_at_most(account, fit))


def _whole(account: MemoryAccount) -> int:
    return max(account.peak_bytes, account.wanted_bytes or 0)


def _at_most(account: MemoryAccount, fit: Fit | None) -> list[Switch]:
    """What a snapshot's kinds allow at most: which optimizer and which types it was of, it does not say."""
    parts, whole = account.parts, _whole(account)
    activations = parts.get("activations", 0)
    saved = {
        ("checkpointing", "checkpointing of its blocks"): activations, ("sgd", "an optimizer without moments"): parts.get("moments", 0),
        ("batch", "half the batch"): (activations + parts.get("temporaries", 0)) // 2, ("autocast", "bf16 autocast"): activations // 2,
    }  # fmt: skip
    switches = [
        Switch(
            what=what, peak_bytes=whole - bytes_, saved_bytes=bytes_, cost=COSTS[key], at_most=True,
            fits=_fit(machines.load(fit.machine), whole - bytes_).state if fit else "",
        )
        for (key, what), bytes_ in saved.items() if bytes_
    ]  # fmt: skip
    return sorted(switches, key=lambda switch: -switch.saved_bytes)


def _is_code(target: str) -> bool:
    return target.endswith(".py") or ".py:" in target


def _network(asked: MemoryAsked) -> Network:
    network = shape.load(asked.target)
    changes: dict[str, int] = {}
    for text in asked.arguments:
        name, _, value = text.partition("=")
        if name not in CHANGEABLE:
            raise InputError(f"'{text}': a network's sizes are changed as in layers=2; {nearest(name, CHANGEABLE)}")
        if not value.isdecimal() or not 1 <= int(value) <= 10**7:
            raise InputError(f"'{text}': {name} is a whole number from 1 to 10^7")
        changes[name] = int(value)
    changed = dataclasses.replace(network, **changes)  # type: ignore[arg-type]
    if "head_dim" not in changes and changed.heads * changed.head_dim != changed.hidden and ("hidden" in changes or "heads" in changes):
        changed = dataclasses.replace(changed, head_dim=max(changed.hidden // changed.heads // 2 * 2, 2))
    if changed.kv_heads > changed.heads or changed.heads % changed.kv_heads:
        kv_heads = max(size for size in range(1, min(changed.kv_heads, changed.heads) + 1) if changed.heads % size == 0)
        changed = dataclasses.replace(changed, kv_heads=kv_heads)
    memory_formula.supported(changed)
    longest = changed.longest or changed.positions
    if longest and asked.variant.context > longest:
        raise InputError(f"{asked.target} takes at most {longest} tokens at once: give --context {longest} or fewer")
    return changed


def _job(asked: MemoryAsked, network: Network | None, variant: TrainingVariant) -> MemoryJob:
    common: dict[str, Any] = {"mode": "fake", "steps": asked.steps, "variant": variant, "threads": asked.threads}
    if network:
        given = {name: value for name, value in dataclasses.asdict(network).items() if name not in ("aliases", "remarks")}
        return MemoryJob(network=given, **common)
    path, _, function = asked.target.partition(".py:") if ".py:" in asked.target else (asked.target, "", "")
    path = f"{path}.py" if function else path
    if not Path(path).is_file():
        raise InputError(f"'{path}' is no file; give a script, file.py:function, or a network: {', '.join(shape.names()[:6])} …")
    if function and asked.arguments:
        raise InputError(f"{asked.target} takes no arguments, not '{asked.arguments[0]}': its batch is --batch")
    return MemoryJob(function=f"{path}:{function}", **common) if function else MemoryJob(script=path, arguments=asked.arguments, **common)


def _run(job: MemoryJob, limit_s: float) -> MemoryAccount | StepsFailed:
    """A process of its own: what it allocates and patches ends with it."""
    with Process("hotlap.training.memory_step", job, limit_s, threading.Event()) as process:
        for line in process.lines():
            document = msgspec.json.decode(line)
            if "failed" in document:
                return msgspec.convert(document, StepsFailed)
            return msgspec.convert(document, MemoryAccount)
        process.process.poll()
        return StepsFailed(failed=f"the process {process.ending()}: {process.last_words()}")


def _sort_in(answer: MemoryAccount | StepsFailed, how: str, accounts: list[MemoryAccount], failed: dict[str, str]) -> None:
    if isinstance(answer, StepsFailed):
        failed[how] = f"{answer.where + ': ' if answer.where else ''}{answer.failed}"
    elif answer.steps == 0:
        failed[how] = f"no optimizer took a step ({answer.ended}): a step ends at an optimizer's step()"
    else:
        accounts.append(answer)


def _too_large(accounts: list[MemoryAccount]) -> str:
    """Why a real step is not taken here; "" where it may be."""
    free = _free_bytes()
    needed = max((account.peak_bytes for account in accounts), default=0)
    if free is None or needed <= OF_FREE * free:
        return ""
    return f"it needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free here, of which half may be taken"


def _free_bytes() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _fit(spec: Any, peak: int) -> Fit:
    if not spec.memory_bytes:
        raise MachineError(f"of {spec.slug} no memory size is known")
    share = peak / spec.memory_bytes
    state: Any = "fits" if share < CLOSE else "too close" if share <= 1 else "does not fit"
    return Fit(machine=spec.slug, memory_bytes=spec.memory_bytes, state=state)


def _switches(
    asked: MemoryAsked, network: Network | None, variant: TrainingVariant, accounts: list[MemoryAccount], fit: Fit | None, listen: Listener
) -> list[Switch]:
    """One change at a time, by formula where there is one and else by fake tensors, the one that saves most first."""
    how = "formula" if network else "fake tensors"
    now = next((account.peak_bytes for account in accounts if account.how == how), None)
    if now is None or not (network or ".py:" in asked.target):
        return []
    switches = []
    for key, what, changed in _changes(variant, network is not None):
        listen(what)
        peak = _peak(asked, network, changed)
        if peak is not None and peak < now:
            fits = _fit(machines.load(fit.machine), peak).state if fit else ""
            switches.append(Switch(what=what, peak_bytes=peak, saved_bytes=now - peak, cost=COSTS[key], fits=fits))
    return sorted(switches, key=lambda switch: -switch.saved_bytes)


def _peak(asked: MemoryAsked, network: Network | None, variant: TrainingVariant) -> int | None:
    """By formula where there is one and else by fake tensors; None where those came to no step."""
    account = memory_formula.account(network, variant) if network else _run(_job(asked, None, variant), asked.limit_s)
    return account.peak_bytes if isinstance(account, MemoryAccount) and account.steps else None


def _changes(variant: TrainingVariant, network: bool) -> Iterator[tuple[str, str, TrainingVariant]]:
    """The cheapest first: what changes results and time least."""
    if not variant.autocast:
        yield "autocast", "bf16 autocast", replace(variant, autocast=True)
    if network and not variant.checkpointing:
        yield "checkpointing", "checkpointing of each layer", replace(variant, checkpointing=True)
    if variant.batch > 1:
        yield "batch", f"batch {variant.batch // 2}", replace(variant, batch=variant.batch // 2)
    if variant.optimizer != "sgd":
        yield "sgd", "SGD instead of AdamW", replace(variant, optimizer="sgd")


def _needed_together(
    asked: MemoryAsked, network: Network | None, variant: TrainingVariant, switches: Sequence[Switch], fit: Fit | None, listen: Listener
) -> SwitchSet | None:
    """None where the step fits, or one switch alone does."""
    if fit is None or not switches or fit.state == "fits" or any(one.fits == "fits" for one in switches):
        return None
    return _together(fit, variant, network is not None, lambda changed: _peak(asked, network, changed), listen)


def _together(
    fit: Fit, variant: TrainingVariant, network: bool, peak_of: Callable[[TrainingVariant], int | None], listen: Listener
) -> SwitchSet | None:
    """The cheapest switch that lowers the peak, and the next, until it fits; then without those that are no longer needed, the dearest
    first. None where no peak is known."""
    known: dict[TrainingVariant, int | None] = {}

    def peak(changed: TrainingVariant) -> int | None:
        if changed not in known:
            listen(changed.name)
            known[changed] = peak_of(changed)
        return known[changed]

    def fits(changed: TrainingVariant) -> bool:
        bytes_ = peak(changed)
        return bytes_ is not None and _fit(spec, bytes_).state == "fits"

    spec, now, before = machines.load(fit.machine), variant, peak(variant)
    useless = set[str]()
    while not fits(now) and (change := next((one for one in _changes(now, network) if one[0] not in useless), None)):
        key, _, changed = change
        lower, least = peak(changed), peak(now)
        if lower is not None and least is not None and lower < least:
            now = changed
        else:
            useless.add(key)
    if fits(now):
        now = _needed(variant, now, fits)
    after = peak(now)
    if before is None or after is None or now == variant:
        return None
    switched = [(key, what) for key, what, wanted in _changes(variant, network) if _differs(key, wanted, variant, now)]
    names = [f"batch {now.batch}" if key == "batch" else what for key, what in switched]
    state = _fit(spec, after).state
    return SwitchSet(switches=names, peak_bytes=after, saved_bytes=before - after, costs=[COSTS[key] for key, _ in switched], fits=state)


PUT_BACK: dict[str, Callable[[TrainingVariant, TrainingVariant], TrainingVariant]] = {  # the dearest first
    "sgd": lambda now, to: replace(now, optimizer=to.optimizer),
    "batch": lambda now, to: replace(now, batch=to.batch),
    "checkpointing": lambda now, to: replace(now, checkpointing=to.checkpointing),
    "autocast": lambda now, to: replace(now, autocast=to.autocast),
}


def _differs(key: str, wanted: TrainingVariant, first: TrainingVariant, now: TrainingVariant) -> bool:
    back = PUT_BACK[key]
    return back(wanted, first) != wanted and back(now, first) != now


def _needed(first: TrainingVariant, now: TrainingVariant, fits: Callable[[TrainingVariant], bool]) -> TrainingVariant:
    """What still fits with as little switched as it takes."""
    for put_back in PUT_BACK.values():
        if fits(back := put_back(now, first)):
            now = back
    while now.batch < first.batch and fits(larger := replace(now, batch=min(2 * now.batch, first.batch))):
        now = larger
    return now

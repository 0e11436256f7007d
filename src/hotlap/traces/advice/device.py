"""Rules about the device: chains of tiny kernels, exposed communication and copies, matrix units, small grids."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import units
from hotlap.core.model import machines
from hotlap.traces import breakdown, intervals, memory, roofline
from hotlap.traces.advice.base import Tip, percent, rules
from hotlap.traces.events import COPY, KERNEL, OPERATOR, SET
from hotlap.traces.idle import QUEUED_NS
from hotlap.traces.replay import ReplayChange
from hotlap.traces.study import Study

POINTWISE = re.compile(
    r"elementwise|vectorized|unrolled|CUDAFunctor|multi_tensor|foreach|fill|cat_array|CatArray|copy_kernel|triton_poi", re.IGNORECASE
)
PRODUCT = re.compile(r"gemm|cutlass|convolve|conv2d|winograd|implicit_con|cudnn.*fprop|dgrad|wgrad|xmma|Cijk_", re.IGNORECASE)
PLAIN = re.compile(r"sgemm|fp32|f32f32_f32f32|ffma|scudnn|volta_s|simt|winograd|_s884gemm_fp32|implicit_convolve_sgemm", re.IGNORECASE)
WITHIN = re.compile(r"DtoD|DeviceToDevice|Device -> Device|memset", re.IGNORECASE)
MATRIX = re.compile(r"16816|1688|884|s?hmma|tensorop|tf32|bf16|f16|h884|e4m3|e5m2|wgmma|sm90.*gmma|i8i8|imma|MFMA|_MI\d", re.IGNORECASE)
PINNED = re.compile(r"Pinned", re.IGNORECASE)
LARGE_COPY, OF_LINK = 1 << 20, 0.8  # bytes of a copy that shows a rate; what pinned copies reach of a link's rate, at least
HALF_REMEDY = (
    "The matrix units of this device (compute capability 7) take fp16 only, neither bf16 nor TF32: torch.autocast('cuda', "
    "dtype=torch.float16) with torch.amp.GradScaler; sides that are multiples of 8."
)
CALLS_REMEDY = (
    "Allocate the host's side pinned (cudaHostAlloc, cudaHostRegister) and copy with cudaMemcpyAsync on a stream of its own; move data "
    "once; make it where it is used."
)
WITHIN_REMEDY = (
    "These copies stay on the device: write results where they are read (out=, views in place of cat, clone and contiguous), keep one "
    "layout and type through the model, reuse buffers; gradients as views of buckets (gradient_as_bucket_view=True)."
)
CHAIN_NS, CHAIN_GAP_NS, CHAIN_LEAST = 20_000, 20_000, 3


def _flags(study: Study, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.search(name) is not None for name in study.events.names], bool)


def _ones(study: Study) -> NDArray[np.float64]:
    return np.ones(len(study.tasks.start))


def _longest(study: Study, which: NDArray[np.bool_], share: NDArray[np.float64] | None = None) -> Counter[str]:
    """Nanoseconds of these tasks by name, or of a share of each."""
    found = study.tasks
    length = found.length[which] * (1.0 if share is None else share[which])
    names, inverse = np.unique(study.events.name[found.place[which]], return_inverse=True)
    total = np.bincount(inverse, weights=length, minlength=len(names))
    return Counter({study.events.names[int(name)]: int(ns) for name, ns in zip(names, total, strict=True)})


def tiny_kernels(study: Study) -> list[Tip]:
    """Runs of short pointwise kernels, one after another on a stream."""
    events, tasks = study.events, study.tasks
    work = np.flatnonzero(tasks.on_device)
    if not len(work):
        return []
    place = tasks.place[work]
    order = np.lexsort((tasks.start[work], events.stream[place], events.device[place]))
    work, place = work[order], place[order]
    length = tasks.length[work]
    fits = _flags(study, POINTWISE)[events.name[place]] & (events.kind[place] == KERNEL) & (length < CHAIN_NS)
    same = (events.stream[place][1:] == events.stream[place][:-1]) & (events.device[place][1:] == events.device[place][:-1])
    near = tasks.start[work[1:]] - (tasks.start[work[:-1]] + length[:-1]) <= CHAIN_GAP_NS
    breaks = np.concatenate([[True], ~(fits[1:] & fits[:-1] & same & near)])
    chain = np.cumsum(breaks) - 1
    size = np.bincount(chain)[chain]
    inside = fits & (size >= CHAIN_LEAST)
    if not inside.any():
        return []
    factor, host, turn = _ones(study), _ones(study), _ones(study)
    factor[work[inside]] = turn[work[inside]] = 1 / size[inside]
    calls = tasks.cause[work[inside]]
    known = calls >= 0
    host[calls[known]] = 1 / size[inside][known]
    factor[calls[known]] = 1 / size[inside][known]
    # What stands between two of a chain, and the host's time before and in its calls: more than that fusing cannot take away.
    between = np.maximum(tasks.start[work[1:]] - (tasks.start[work[:-1]] + length[:-1]), 0)[~breaks[1:] & inside[1:]]
    spent = np.unique(calls[known])
    host_ns = (np.maximum(tasks.lag[spent], 0) + tasks.length[spent]).sum()
    cap = min(float(between.sum() + host_ns) / 1e9 / study.window_s, 1.0) if known.any() else 1.0
    best = ReplayChange(factor=factor, host=host, turn=turn)
    half = ReplayChange(factor=(1 + factor) / 2, host=(1 + host) / 2, turn=(1 + turn) / 2)
    chains = len(np.unique(chain[inside]))
    busy = float(length[inside].sum()) / max(float(length.sum()), 1.0)
    names = _roots(study, place[inside])
    evidence: dict[str, Any] = {
        "kernels": int(inside.sum()),
        "chains": chains,
        "median_s": float(np.median(length[inside])) / 1e9,
        "busy_share": busy,
        "by_operator": dict(names.most_common(4)),
    }
    detail = (
        f"{int(inside.sum()):,} pointwise kernels of {evidence['median_s'] * 1e6:.0f} µs stand in {chains:,} chains of "
        f"{int(inside.sum()) / chains:.0f} on average: {percent(busy)} of the busy time"
    )
    where = ", ".join(name for name, _ in names.most_common(3) if name)
    return [Tip("tiny-kernels", detail, evidence, best, half, "medium", where, cap=cap)]


def _roots(study: Study, places: NDArray[np.int64]) -> Counter[str]:
    """How many of these pieces of work each outermost operator launched."""
    order = np.argsort(study.events.work)
    roots = study.links.root[order[np.searchsorted(study.events.work[order], places)]]
    names, counts = np.unique(study.events.name[roots[roots >= 0]], return_counts=True)
    return Counter({study.events.names[int(name)]: int(count) for name, count in zip(names, counts, strict=True)})


def exposed_communication(study: Study) -> list[Tip]:
    """Communication behind which nothing computes."""
    if not study.devices:
        return []
    whole = study.breakdown()
    exposed = whole.exposed_communication_share or 0.0
    if exposed < rules()["exposed-communication"].least:
        return []
    talks = study.work_named(breakdown.communicating(study.events))
    factor, low = _hidden(study, talks)
    names = _longest(study, talks, 1 - factor)
    evidence = {
        "exposed_share": exposed,
        "communication_share": whole.communication_share,
        "overlap": whole.overlap,
        "exposed_s": {name[:80]: value / 1e9 for name, value in names.most_common(4)},
    }
    overlap = f"{percent(whole.overlap or 0.0)} of the communication is hidden behind compute"
    detail = f"communication with nothing computing beside it takes {percent(exposed)} of the window; {overlap}"
    return [
        Tip(
            "exposed-communication",
            detail,
            evidence,
            ReplayChange(factor=factor),
            ReplayChange(factor=low),
            "medium",
            names.most_common(1)[0][0][:80] if names else "",
            cap=exposed * whole.window_s / study.window_s,
        )
    ]


def _hidden(study: Study, which: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factors that leave of these pieces of work only the part behind which something computes, and half of the rest."""
    tasks = study.tasks
    factor = _ones(study)
    for device in study.devices:
        computing = breakdown.busy(study.events, device).compute
        mine = np.flatnonzero(which & (study.events.device[tasks.place] == device))
        covered = intervals.covered(computing, tasks.start[mine], tasks.start[mine] + tasks.length[mine])
        factor[mine] = covered / np.maximum(tasks.length[mine], 1)
    return factor, (1 + factor) / 2


def copies(study: Study) -> list[Tip]:
    """Copies behind which nothing computes."""
    if not study.devices:
        return []
    whole = study.breakdown()
    exposed = whole.exposed_copy_share or 0.0
    if exposed < rules()["copies"].least:
        return []
    tasks, events = study.tasks, study.events
    moving = tasks.on_device & np.isin(events.kind[tasks.place], (COPY, SET))
    factor, low = _hidden(study, moving)
    pageable = moving & _flags(study, re.compile("pageable", re.IGNORECASE))[events.name[tasks.place]]
    left, pinned_b_s = _pinned(study, pageable)
    low = np.minimum(low, np.maximum(factor, left))
    by = _longest(study, moving)
    moved = events.bytes[tasks.place[moving]]
    taken_s = float(tasks.length[moving].sum()) / 1e9
    evidence: dict[str, Any] = {
        "exposed_share": exposed,
        "copies": int(moving.sum()),
        "pageable": int(pageable.sum()),
        "by_kind_s": {n: v / 1e9 for n, v in by.most_common(4)},
    }
    if (moved > 0).any():
        evidence["bandwidth_Bps"] = float(moved[moved > 0].sum()) / max(taken_s, 1e-12)
    worst = by.most_common(1)[0][0] if by else ""
    detail = (
        f"copies with nothing computing beside them take {percent(exposed)} of the window; "
        f"{int(pageable.sum()):,} of {int(moving.sum()):,} use pageable memory"
    )
    if pinned_b_s:
        evidence["pinned_Bps"] = pinned_b_s
        part = 1 - float((tasks.length * left)[pageable].sum()) / max(float(tasks.length[pageable].sum()), 1.0)
        detail += f", which pinned at {units.show(pinned_b_s, 'B/s')} would take {percent(part)} less time"
    turns = np.where(moving & (tasks.cause >= 0), np.clip(tasks.lag, 0, QUEUED_NS) * (1 - factor), 0).sum()
    cap = (exposed * whole.window_s + float(turns) / 1e9 / len(study.devices)) / study.window_s
    within = sum(spent for name, spent in by.items() if WITHIN.search(name)) > 0.5 * sum(by.values())
    remedy = WITHIN_REMEDY if within else "" if len(events.of_kind(OPERATOR)) else CALLS_REMEDY
    best = ReplayChange(factor=factor, turn=factor)
    return [Tip("copies", detail, evidence, best, ReplayChange(factor=low), "medium", worst, remedy, cap=cap)]


def _pinned(study: Study, pageable: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float | None]:
    """What pageable copies would take in pinned memory, as shares of what they took, and its rate: that of pinned copies of the trace,
    else of the machine's link to the host; None where neither is known."""
    events, tasks = study.events, study.tasks
    left = _ones(study)
    moved = events.bytes[tasks.place].astype(np.float64)
    pinned = tasks.on_device & _flags(study, PINNED)[events.name[tasks.place]] & (moved >= LARGE_COPY) & (tasks.length > 0)
    if pinned.any():
        rate = float(np.median(moved[pinned] / tasks.length[pinned])) * 1e9
    else:
        slug = roofline.machine(study)
        spec = machines.load(slug) if slug else None
        rate = (spec.pcie_b_s or 0.0) * OF_LINK if spec else 0.0
    known = pageable & (moved > 0) & (tasks.length > 0)
    if not rate or not known.any():
        return left, None
    left[known] = np.minimum(1e9 * moved[known] / rate / tasks.length[known], 1.0)
    return left, rate


def tensor_cores(study: Study) -> list[Tip]:
    """Products of matrices by kernels that do not use the matrix units, on devices that have them."""
    capable = [one for one in study.events.head.devices if _capability(one) >= 7.0]
    if study.events.head.devices and not capable:
        return []
    found, events = study.tasks, study.events
    products, plain, matrix = (_flags(study, one) for one in (PRODUCT, PLAIN, MATRIX))
    slow = study.work_named(products & plain & ~matrix) & (events.kind[found.place] == KERNEL)
    busy = float(found.length[found.on_device].sum())
    share = float(found.length[slow].sum()) / busy if busy else 0.0
    if share < rules()["tensor-cores"].least:
        return []
    names = _longest(study, slow)
    best, least = np.where(slow, _matrix_part(study), 1.0), np.where(slow, 0.5, 1.0)
    evidence = {"busy_share": share, "kernels": int(slow.sum()), "most_s": {name[:80]: value / 1e9 for name, value in names.most_common(4)}}
    detail = f"{percent(share)} of the busy time is products in plain 32 bit arithmetic, though the device has matrix units"
    worst = names.most_common(1)[0][0][:80]
    half_only = bool(capable) and all(_capability(one) < 8.0 for one in capable)  # of compute capability 7: no bf16, no TF32
    remedy = HALF_REMEDY if half_only else ""
    return [
        Tip(
            "tensor-cores",
            detail,
            evidence,
            ReplayChange(factor=best),
            ReplayChange(factor=least),
            "low",
            worst,
            remedy=remedy,
            switch=not half_only,
        )
    ]


def _matrix_part(study: Study) -> float:
    """What a product in 32 bit takes at the least on the matrix units, as a share of what it takes without: TF32's rate, else fp16's, of
    the machine table; a quarter where the machine is not known."""
    slug = roofline.machine(study)
    rates = machines.load(slug).flop_per_clock if slug else {}
    plain, matrix = rates.get("fma.fp32"), rates.get("matrix.tf32") or rates.get("matrix.fp16")
    return min(plain / matrix, 0.25) if plain and matrix else 0.25


def _capability(device: dict[str, Any]) -> float:
    """Compute capability as the profiler writes it; 0 unknown."""
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    return float(major) + float(minor or 0) / 10 if isinstance(major, int | float) and isinstance(minor, int | float | None) else 0.0


def small_grid(study: Study) -> list[Tip]:
    """Kernels with fewer blocks than the device has multiprocessors."""
    events, tasks = study.events, study.tasks
    units = {one.get("id", i): one.get("numSms") for i, one in enumerate(events.head.devices)}
    launch = events.launch[tasks.place]
    known = tasks.on_device & (launch >= 0)
    if not known.any() or not any(units.values()):
        return []
    blocks = np.array([np.prod(one.grid) for one in events.launches], float)
    have = np.array([float(units.get(int(d)) or 0) for d in events.device[tasks.place]])
    part = np.where(known & (have > 0), blocks[np.maximum(launch, 0)] / np.maximum(have, 1), 1.0)
    talks = study.work_named(breakdown.communicating(events))
    small = (part < 1) & (part > 0) & known & ~talks & (tasks.length > 5_000)
    busy = float(tasks.length[tasks.on_device].sum())
    share = float(tasks.length[small].sum()) / busy if busy else 0.0
    if share < rules()["small-grid"].least:
        return []
    names = _longest(study, small)
    best = np.where(small, part, 1.0)
    evidence = {"busy_share": share, "kernels": int(small.sum()), "median_part": float(np.median(part[small]))}
    detail = (
        f"kernels with fewer blocks than multiprocessors take {percent(share)} of the busy time; "
        f"the median one fills {percent(evidence['median_part'])}"
    )
    return [
        Tip(
            "small-grid",
            detail,
            evidence,
            ReplayChange(factor=best, turn=best),
            ReplayChange(factor=(1 + best) / 2),
            "low",
            names.most_common(1)[0][0][:80],
        )
    ]


def below_limit(study: Study) -> list[Tip]:
    """Operators whose recorded shapes should take less time on this machine, and those that take less than is possible."""
    if not study.devices:
        return []
    rows = roofline.rows(study)
    tasks = study.tasks
    best, least = _ones(study), _ones(study)
    slow = [row for row in rows if row.headroom_s > 0]
    order = np.argsort(tasks.place)
    for row in slow:
        at = np.searchsorted(tasks.place[order], row.places)
        inside = at < len(order)
        mine = order[at[inside]]
        mine = mine[tasks.place[mine] == row.places[inside]]  # work outside of the window is no task
        best[mine] = (row.expected_s or 0.0) / row.median_s
        least[mine] = (row.high_s or 0.0) / row.median_s if row.beyond else 1.0
    tips = []
    if slow:
        slow.sort(key=lambda row: -row.headroom_s)
        first = slow[0]
        evidence = {
            "operators": len(slow),
            "could_save_s": sum(row.headroom_s for row in slow),
            "most": {f"{row.operator} {row.work.label}": round(row.median_s / (row.expected_s or 1.0), 2) for row in slow[:4]},
        }
        detail = (
            f"{len(slow)} operators take more than {roofline.SLOW:g} times what is expected of {roofline.machine(study)}; "
            f"{first.operator} ({first.work.label}) {first.median_s / (first.expected_s or 1.0):.1f} times"
        )
        sure = all(row.beyond for row in slow[:3])
        tips.append(
            Tip(
                "below-limit",
                detail,
                evidence,
                ReplayChange(factor=best),
                ReplayChange(factor=least),
                "medium" if sure else "low",
                first.operator,
            )
        )
    wrong = [row for row in rows if row.impossible]
    share = sum(row.total_s for row in wrong) * 1e9 / max(float(tasks.length[tasks.on_device].sum()), 1.0)
    if share >= rules()["impossible"].least:
        first = wrong[0]
        detail = (
            f"{len(wrong)} operators, {percent(share)} of the busy time, beat the bound of {roofline.machine(study)}; "
            f"{first.operator} ({first.work.label}) takes {first.median_s * 1e6:.1f} µs, the bound is {(first.sure_s or 0) * 1e6:.1f} µs"
        )
        tips.append(Tip("impossible", detail, {"busy_share": share}, 0.0, 0.0, "high", first.operator))
    return tips


def memory_growth(study: Study) -> list[Tip]:
    """Memory that every step leaves behind."""
    tips = []
    for usage in memory.of(study.events):
        growth = usage.growth_per_step or 0.0
        if usage.peak and growth >= rules()["memory-growth"].least * usage.peak:
            which = f"device {usage.device}" if usage.device >= 0 else "the host"
            holders = {holder.operator or "outside of any operator": holder.bytes for holder in usage.holders[:4]}
            detail = f"each step leaves {units.size(growth)} more allocated on {which}, whose peak is {units.size(usage.peak)}"
            evidence = {"growth_per_step_B": growth, "peak_B": usage.peak, "holders_B": holders}
            tips.append(Tip("memory-growth", detail, evidence, 0.0, 0.0, "high", ", ".join(list(holders)[:2])))
    return tips

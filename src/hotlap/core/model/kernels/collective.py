"""Collectives within a node and across nodes: protocols of NCCL as candidates, of which one is chosen by size.

Each candidate is an additive model: launch + protocol + hops × latency + bytes on the link ÷ its share of the link + copies that
the SMs make + filling the pipeline. The protocols are NCCL's (its guide, NCCL_PROTO and NCCL_ALGO): LL writes 4 bytes of flag
beside 4 of data, LL128 8 in 128, Simple synchronises whole chunks, NVLS adds in the switch. Between LL and LL128 the quicker runs;
NCCL's tuner goes over to Simple by size, measurably too early, so that switch has a size of its own (`switch_us` × link).

Sizes: `bytes` is the whole buffer of one rank: what an all-reduce reduces, an all-gather receives, a reduce-scatter or all-to-all
sends. In the published data `message_size` is that, in elements. Assumed, no data: broadcast and send use all-gather's
coefficients; beyond about 16 GPUs an all-reduce goes by trees; networks between nodes are bandwidth and latency only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.base import Chip, Demand, Estimate, Floats, stored

OPS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "send")
CHAINS = ("broadcast", "send")  # the whole buffer passes each link once
PROTOCOLS = ("LL", "LL128", "Simple", "NVLS")
ITEM_BYTES = {"half": 2, "fp16": 2, "bf16": 2, "int8": 1, "fp8": 1, "fp32": 4}
PARTS = ("launch", "protocol", "hops", "link", "copy", "reduction", "pipeline fill", "network")
CLOCK_REFERENCE_HZ = 1.66e9  # geometric mean of A100 and H100: coefficients in µs hold there
CLOCKS_HZ = (1.2e9, 2.2e9)  # start-up is scaled with the clock no further than this
NVLS_LINK_B_S = 400e9  # NVLink generations whose switches add in flight (NVLink 4 and later)
NVLS_COPY_B_PER_SM_CLOCK = 3.7  # what joins 446 GB/s of bus bandwidth on 8 × H100 to 704 on 8 × B200 (aiconfigurator), whose links double
TREE_HOPS = 2.4  # a hop up or down a tree against a hop of a ring: where trees begin to win just beyond 8 GPUs
SWITCH_STEEPNESS = 8.0  # of the tuner's switch, per doubling
SOFTNESS = 6.0  # power of the soft minimum
NETWORK_B_S, NETWORK_LATENCY_S = 50e9, 5e-6  # of one GPU's 400 Gb/s NIC and one hop of it: assumed
DEFAULTS: Mapping[str, Any] = {"dtype": "bf16", "nodes": 1, "network_b_s": NETWORK_B_S, "network_latency_s": NETWORK_LATENCY_S}


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "",
    coefficients: Mapping[str, Mapping[str, float]] | None = None,
) -> Estimate:
    """Expected times of cases `op`, `gpus`, `bytes`, and optionally `dtype`, `nodes`, `network_b_s`, `network_latency_s`.

    `implementation` is taken and ignored: only NCCL has been measured. Raises InputError.
    """
    if not chip.link_b_s:
        raise InputError("a collective needs the link between the GPUs, and none is published for this machine")
    cases = _cases(params)
    names, which = np.unique(cases["op"], return_inverse=True)
    table = _coefficients(names, coefficients or stored("collective"))
    c = {name: values[which] for name, values in table.items()}
    local = np.where(cases["op"] == "send", 2.0, np.maximum(cases["gpus"] / cases["nodes"], 1.0))
    hops, steps = _hops(cases["op"], local)
    chain = np.isin(cases["op"], CHAINS)
    share = cases["bytes"] / np.where(chain, 1.0, local)
    cases |= {"local": local, "hops": hops, "steps": steps, "share": share}
    parts, seconds = _candidates(cases, chip, c)
    weights, total = _choose(cases, chip, c, seconds)
    mixed = _mixed(parts, seconds, weights, total) | {"network": _network(cases)}
    demand = _demand(cases)
    choice = {"protocol": np.array(PROTOCOLS)[np.argmax(weights, axis=0)], "hops": hops, "steps": steps}
    return Estimate(np.sum(list(mixed.values()), axis=0), mixed, demand, choice, _inside(cases, chip))


# ---------------------------------------------------------------- cases and coefficients


def _cases(params: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    valid = ("op", "gpus", "bytes", *DEFAULTS)
    for name in params:
        if name not in valid:
            raise InputError(f"collective has no parameter '{name}'; {nearest(name, valid)}")
    for name in ("op", "gpus", "bytes"):
        if name not in params:
            raise InputError(f"collective needs '{name}'")
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v)) for v in {**DEFAULTS, **params}.values()))
    cases = {name: np.ravel(a) for name, a in zip({**DEFAULTS, **params}, arrays, strict=True)}
    for name, among in (("op", OPS), ("dtype", tuple(ITEM_BYTES))):
        cases[name] = cases[name].astype(str)
        for one in set(cases[name].tolist()) - set(among):
            raise InputError(f"collective has no {name} '{one}'; {nearest(one, among)}")
    for name in ("gpus", "bytes", "nodes", "network_b_s", "network_latency_s"):
        cases[name] = _numbers(name, cases[name])
    if np.any(cases["gpus"] % cases["nodes"]):
        raise InputError("'gpus' are all GPUs together and must be a multiple of 'nodes'", about="collective: ")
    return cases


def _numbers(name: str, values: NDArray[Any]) -> Floats:
    try:
        found: Floats = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"'{name}' must be a number", about="collective: ") from None
    if not np.all((found > 0) & (found < 1e18)):
        raise InputError(f"'{name}' must be above 0 and below 1e18", about="collective: ")
    return found


def _coefficients(ops: NDArray[np.str_], given: Mapping[str, Mapping[str, float]]) -> dict[str, Floats]:
    rows = [given[op if op in given else "all_gather"] for op in ops.tolist()]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# ---------------------------------------------------------------- the candidates


def _hops(op: NDArray[np.str_], gpus: Floats) -> tuple[Floats, Floats]:
    """Hops that a message waits for, and steps of a share each that cross one GPU's link."""
    ring = gpus - 1.0
    tree = TREE_HOPS * 2.0 * np.log2(np.maximum(gpus, 1.0))
    reduce = op == "all_reduce"
    hops = np.where(reduce, np.minimum(2.0 * ring, tree), ring)
    steps = np.select([reduce, np.isin(op, CHAINS)], [2.0 * ring, np.minimum(ring, 1.0)], ring)
    return hops, steps


def _candidates(cases: Mapping[str, NDArray[Any]], chip: Chip, c: Mapping[str, Floats]) -> tuple[dict[str, Floats], Floats]:
    """Parts of each candidate, arrays of protocols × cases, and their sums. Protocols that cannot run take forever."""
    assert chip.link_b_s
    clock = CLOCK_REFERENCE_HZ / np.clip((chip.original or chip).clock_max_hz, *CLOCKS_HZ)
    slow, hop = 1e-6 * clock ** c["clock_power"], 1e-6 * clock * cases["hops"]
    wire = cases["share"] * cases["steps"] / chip.link_b_s
    flagged = np.where(cases["op"] == "alltoall", cases["share"] / chip.link_b_s, wire)
    narrow = _adds(cases["op"]) & np.isin(cases["dtype"], ("int8", "fp8"))
    simple, zero = wire / c["simple_share"], np.zeros_like(wire)
    cycles = chip.units * chip.clock_max_hz
    copy = np.where(np.isin(cases["op"], CHAINS), 0.0, cases["share"] / (c["copy_b_per_sm_clock"] * cycles))
    fill = 1e-6 * clock * c["fill_us"] * cases["bytes"] / (cases["bytes"] + c["fill_bytes"])
    through = cases["bytes"] / np.maximum(1.0 - 1.0 / cases["local"], 0.5)
    spokes = 1e-6 * clock * c["nvls_hop_us"] * cases["local"]
    parts = {
        "launch": np.stack([c["launch_us"] * slow] * 4),
        "protocol": np.stack([zero, c["ll128_us"] * slow, c["simple_us"] * slow, c["nvls_us"] * slow]),
        "hops": np.stack([c["ll_hop_us"] * hop, c["ll128_hop_us"] * hop, c["simple_hop_us"] * hop, spokes]),
        "link": np.stack([flagged / c["ll_share"], wire / c["ll128_share"], simple, through / (chip.link_b_s * c["nvls_share"])]),
        "copy": np.stack([zero, zero, copy, through / (NVLS_COPY_B_PER_SM_CLOCK * cycles)]),
        "reduction": np.stack([zero, zero, np.where(narrow, c["narrow_factor"] - 1.0, 0.0) * simple, zero]),
        "pipeline fill": np.stack([zero, zero, fill, zero]),
    }
    seconds = np.sum(list(parts.values()), axis=0)
    seconds[3] = np.where(_in_switch(cases, chip), seconds[3], np.inf)
    return parts, seconds


def _adds(op: NDArray[np.str_]) -> NDArray[np.bool_]:
    return np.isin(op, ("all_reduce", "reduce_scatter"))


def _in_switch(cases: Mapping[str, NDArray[Any]], chip: Chip) -> NDArray[np.bool_]:
    """Whether NVLS can run: all-reduce of floating-point numbers of 2 bytes and more, over a switch that adds."""
    able = bool(chip.facts.get("link_multicast", (chip.link_b_s or 0.0) >= NVLS_LINK_B_S))
    found: NDArray[np.bool_] = (cases["op"] == "all_reduce") & ~np.isin(cases["dtype"], ("int8", "fp8")) & (cases["local"] > 2) & able
    return found


def _soft(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Soft minimum of two, and the weight of the first."""
    ratio = np.where(np.isinf(second), 0.0, first / np.where(np.isinf(second), 1.0, second)) ** SOFTNESS
    return first * (1.0 + ratio) ** (-1.0 / SOFTNESS), 1.0 / (1.0 + ratio)


def _choose(cases: Mapping[str, NDArray[Any]], chip: Chip, c: Mapping[str, Floats], seconds: Floats) -> tuple[Floats, Floats]:
    """Weights of the protocols, and the expected time.

    By size from the flagged protocols to Simple and NVLS, but never to stay with what is slower than both: so more bytes never
    take less time. All-to-all has no such switch in the data: there the quicker runs.
    """
    assert chip.link_b_s
    flagged, of_ll = _soft(seconds[0], seconds[1])
    bulk, of_simple = _soft(seconds[2], seconds[3])
    early, of_flagged = _soft(flagged, bulk)
    at = 1e-6 * c["switch_us"] * chip.link_b_s * cases["local"] ** c["switch_power"]
    doublings = np.log2(cases["bytes"] / at) * SWITCH_STEEPNESS
    gone = np.where(cases["op"] == "alltoall", 0.0, 1.0 / (1.0 + np.exp(-np.clip(doublings, -60.0, 60.0))))
    low = (1.0 - gone) * of_flagged
    weights = np.stack([low * of_ll, low * (1.0 - of_ll), (1.0 - low) * of_simple, (1.0 - low) * (1.0 - of_simple)])
    return weights, (1.0 - gone) * early + gone * bulk


def _mixed(parts: Mapping[str, Floats], seconds: Floats, weights: Floats, total: Floats) -> dict[str, Floats]:
    """Parts of the protocols by their weights, scaled to the expected time."""
    scale = total / np.sum(weights * np.where(np.isinf(seconds), 0.0, seconds), axis=0)
    return {name: np.sum(weights * values, axis=0) * scale for name, values in parts.items()}


def _network(cases: Mapping[str, NDArray[Any]]) -> Floats:
    """Between nodes, after the step within: each GPU's share over its own NIC in a ring, or a tree where that has fewer hops."""
    nodes, op = cases["nodes"], cases["op"]
    share = np.where(np.isin(op, ("alltoall", "send", "broadcast")), cases["bytes"], cases["share"])
    ways = np.where(op == "all_reduce", 2.0, 1.0)
    hops = ways * np.minimum(nodes - 1.0, 2.0 * np.log2(nodes))
    seconds: Floats = ways * share * (1.0 - 1.0 / nodes) / cases["network_b_s"] + hops * cases["network_latency_s"]
    return seconds


def _demand(cases: Mapping[str, NDArray[Any]]) -> Demand:
    """Of one GPU: additions of what it reduces; every byte that it sends or receives is read or written once."""
    items = cases["bytes"] / np.array([ITEM_BYTES[d] for d in cases["dtype"].tolist()])
    adds = np.where(_adds(cases["op"]), items * (1.0 - 1.0 / cases["gpus"]), 0.0)
    moved = 2.0 * cases["share"] * np.maximum(cases["steps"], 1.0)
    return Demand({"fma.fp32": adds}, np.zeros_like(adds), moved, moved)


def _inside(cases: Mapping[str, NDArray[Any]], chip: Chip) -> NDArray[np.bool_]:
    """Of the fitted domain: 2 to 8 GPUs of one node, 512 B to 512 MiB, links of 300 to 450 GB/s one way."""
    assert chip.link_b_s
    sizes = (cases["bytes"] >= 512) & (cases["bytes"] <= 2**29)
    count = (cases["gpus"] >= 2) & (cases["gpus"] <= 8) & (cases["nodes"] == 1)
    known = np.isin(cases["op"], OPS[:4]) & (cases["dtype"] != "fp32")
    inside: NDArray[np.bool_] = sizes & count & known & (270e9 <= chip.link_b_s <= 500e9)
    return inside

"""Collectives within a node and across nodes: protocols of NCCL as candidates, of which its tuner chooses one.

Each candidate is a launch, a way of hops, and bytes on the link; the way and the bytes overlap where a message is cut into pieces that
follow each other (a p-norm of both). LL writes 4 bytes of flag beside 4 of data, LL128 8 in 128, Simple synchronises whole pieces at
each hop and fills a pipeline, NVLS adds in the switch. What runs is what NCCL's published tuner takes (`nccl`), by operation, size and
number of GPUs, unless a later protocol is quicker; all-to-all is sends and receives: LL up to 16 KiB for each peer, else Simple.

Operations share their coefficients. What differs from one generation of links to the next is a factor of each start-up, 1 where a
generation was never measured. Over PCI Express each GPU has a share of what one box gave to 2, 4 and 8 GPUs (L40S), which falls with the
square of their number: an assumption for any other box.

Sizes: `bytes` is the whole buffer of one rank: what an all-reduce reduces, an all-gather receives, a reduce-scatter or all-to-all
sends. In the published data `message_size` is that, in elements. Assumed, no data: broadcast and send go as an all-gather; beyond about
16 GPUs an all-reduce goes by trees; networks between nodes are bandwidth and latency only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels import nccl
from hotlap.core.model.kernels.base import Chip, Demand, Estimate, Floats, stored
from hotlap.core.model.kernels.nccl import PROTOCOLS

OPS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "send")
CHAINS = ("broadcast", "send")  # the whole buffer passes each link once
ITEM_BYTES = {"half": 2, "fp16": 2, "bf16": 2, "int8": 1, "fp8": 1, "fp32": 4}
PARTS = ("launch", "protocol", "hops", "link", "copy", "reduction", "pipeline fill", "network")
FACTORS = ("launch", "hop", "ramp", "simple", "simple_hop", "fill", "copy")  # of a generation of links, against the mean of those measured
UNMEASURED: Mapping[str, float] = dict.fromkeys(FACTORS, 1.0)
MOST_OF_A_BOX = 8.0  # GPUs that share one host's PCI Express
TREE_HOPS = 2.4  # a hop up or down a tree against a hop of a ring: where trees begin to win just beyond 8 GPUs
NETWORK_B_S, NETWORK_LATENCY_S = 50e9, 5e-6  # of one GPU's 400 Gb/s NIC and one hop of it: assumed
DEFAULTS: Mapping[str, Any] = {"dtype": "bf16", "nodes": 1, "network_b_s": NETWORK_B_S, "network_latency_s": NETWORK_LATENCY_S}


class CollectiveCalls(NamedTuple):
    """What cases are before any coefficient: arrays of one entry per case."""

    link: nccl.LinkGeneration
    rate_b_s: float  # of one GPU's link, one way
    units_hz: float  # SMs × highest clock
    clock_hz: float  # of the table, where the chip is imagined: launches have a figure of their own
    gpus: Floats  # of one node
    nbytes: Floats
    share: Floats  # bytes of one rank's part
    hops: Floats
    wire: Floats  # bytes that cross one GPU's link in a ring
    copied: Floats  # bytes that a GPU copies for itself
    narrow: NDArray[np.bool_]  # adds whole numbers of one byte
    peers: NDArray[np.bool_]  # sends and receives, no ring
    running: NDArray[np.bool_]  # protocols × cases: the tuner's choice and those that it takes for more bytes
    switch_b_s: Floats


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "",
    coefficients: Mapping[str, Mapping[str, float]] | None = None,
) -> Estimate:
    """Expected times of cases `op`, `gpus`, `bytes`, and optionally `dtype`, `nodes`, `network_b_s`, `network_latency_s`.

    `implementation` is taken and ignored: only NCCL has been measured. Raises InputError.
    """
    cases = _cases(params)
    calls = _calls(cases, chip)
    parts, seconds, runs = expected(calls, coefficients or stored("collective"))
    network = _network(cases, calls.share)
    choice = {"protocol": np.array(PROTOCOLS)[runs], "hops": calls.hops, "steps": np.round(calls.wire / calls.share)}
    inside = _inside(cases, calls)
    return Estimate(seconds + network, parts | {"network": network}, _demand(cases, calls), choice, inside)


# ---------------------------------------------------------------- cases


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


def prepared(params: Mapping[str, ArrayLike], chip: Chip) -> CollectiveCalls:
    """What `expected` takes, for the parameters of `estimate`. Raises InputError."""
    return _calls(_cases(params), chip)


def _calls(cases: Mapping[str, NDArray[Any]], chip: Chip) -> CollectiveCalls:
    """Raises InputError where neither a link nor PCI Express is known."""
    link, rate = nccl.link_of(chip)
    op = cases["op"]
    gpus = np.where(op == "send", 2.0, np.maximum(cases["gpus"] / cases["nodes"], 1.0))
    chain, adds = np.isin(op, CHAINS), np.isin(op, ("all_reduce", "reduce_scatter"))
    hops, steps = _hops(op, gpus)
    share = cases["bytes"] / np.where(chain, 1.0, gpus)
    one_byte = np.isin(cases["dtype"], ("int8", "fp8"))
    tuned, switch = nccl.chosen(link, rate, hops, share * steps, gpus, (op == "all_reduce") & ~one_byte & (gpus > 2))
    first = np.argmin(tuned, axis=0)
    peers = op == "alltoall"
    first = np.where(peers, np.where(share <= nccl.PEER_LL_BYTES, 0, 2), first)
    running = (np.arange(len(PROTOCOLS))[:, None] >= first) & np.isfinite(tuned)
    running[1] &= ~peers
    return CollectiveCalls(
        link, rate, chip.units * chip.clock_max_hz, (chip.original or chip).clock_max_hz, gpus, cases["bytes"], share, hops, share * steps,
        np.where(chain, 0.0, share), adds & one_byte, peers, running, switch,
    )  # fmt: skip


def _hops(op: NDArray[np.str_], gpus: Floats) -> tuple[Floats, Floats]:
    """Hops that a message waits for, and steps of a share each that cross one GPU's link."""
    ring = gpus - 1.0
    tree = TREE_HOPS * 2.0 * np.log2(np.maximum(gpus, 1.0))
    reduce = op == "all_reduce"
    hops = np.where(reduce, np.minimum(2.0 * ring, tree), ring)
    steps = np.select([reduce, np.isin(op, CHAINS)], [2.0 * ring, np.minimum(ring, 1.0)], ring)
    return hops, steps


# ---------------------------------------------------------------- the candidates

Candidate = dict[str, Floats]
Table = Mapping[str, Mapping[str, float]]


def expected(calls: CollectiveCalls, table: Table) -> tuple[dict[str, Floats], Floats, NDArray[np.intp]]:
    """Parts of the expected time within a node, their sum, and the place of the protocol in PROTOCOLS."""
    every = _rings(calls, table)
    peers: Sequence[Candidate] = _peers(calls, table) if calls.peers.any() else ()
    for protocol, sent in zip((0, 2), peers, strict=False):
        every[protocol] = {name: np.where(calls.peers, sent.get(name, 0.0), value) for name, value in every[protocol].items()}
    seconds = np.where(calls.running, np.stack([np.sum(list(one.values()), axis=0) for one in every]), np.inf)
    runs = np.argmin(seconds, axis=0)
    parts = {name: np.choose(runs, [one[name] for one in every]) for name in PARTS if name != "network"}
    return parts, np.take_along_axis(seconds, runs[None], axis=0)[0], runs


def _start(calls: CollectiveCalls, table: Table) -> tuple[Mapping[str, float], Mapping[str, float], Floats, Floats]:
    """Coefficients of rings, factors of the link's generation, launch, latency of a hop: both grow with the threads that a part fills."""
    c, by = table["ring"], table.get(calls.link.key, UNMEASURED)
    ramp = 1.0 + c["ramp"] * by["ramp"] * calls.share / (calls.share + c["ramp_bytes"])
    return c, by, c["launch_kclocks"] * by["launch"] * 1e3 / calls.clock_hz * ramp, c["hop_us"] * by["hop"] * 1e-6 * ramp


def _whole_b_s(calls: CollectiveCalls, c: Mapping[str, float]) -> Floats:
    """What rings get of one GPU's link."""
    if calls.link.key == nccl.PCIE.key:
        sharing = np.clip(calls.gpus, 2.0, MOST_OF_A_BOX) / 2.0
        return np.asarray(calls.rate_b_s * c["pcie_share"] * sharing ** -c["pcie_power"])
    return np.full_like(calls.share, calls.rate_b_s * calls.link.share)


def _rings(calls: CollectiveCalls, table: Table) -> list[Candidate]:
    """Every protocol, in the order of PROTOCOLS."""
    c, by, launch, hop = _start(calls, table)
    whole, zero = _whole_b_s(calls, c), np.zeros_like(calls.share)
    nothing = dict.fromkeys(PARTS[:-1], zero)
    of_ll, of_ll128 = np.minimum(calls.link.ll_b_s, whole / 2), nccl.ll128_b_s(calls.link, calls.rate_b_s)
    wire = calls.wire / (whole * (1.0 if calls.link.key == nccl.PCIE.key else c["simple_share"]))
    copy_s = calls.copied / (c["copy_b_per_unit_clock"] * by["copy"] * calls.units_hz)
    piece = c["simple_hop_us"] * by["simple_hop"] * 1e-6
    start, fill = c["simple_us"] * by["simple"] * 1e-6, c["fill_bytes_per_ring"] * _fill(calls, c, by)
    adding = np.where(calls.narrow, c["narrow_factor"] - 1.0, 0.0) * wire
    flagged = _overlapped(hop * calls.hops, calls.wire / (of_ll * c["ll_share"]), copy_s / c["ll_copy"], zero, c["ll_power"])
    later = c["ll128_kclocks"] * by["launch"] * 1e3 / calls.clock_hz
    line = {"hops": c["ll128_hop_us"] * by["hop"] * 1e-6 * calls.hops, "link": calls.wire / max(of_ll128 * c["ll128_share"], 1.0)}
    bulk = _overlapped(piece * calls.hops, wire, copy_s, adding, c["simple_power"])
    switch = {"hops": nccl.NVLS_START * piece + zero, "link": _switched(calls)}
    return [
        {**nothing, "launch": launch, **flagged},
        {**nothing, "launch": launch, "protocol": later + zero, **line},
        {**nothing, "protocol": start + zero, "pipeline fill": fill, **bulk},
        {**nothing, "protocol": nccl.NVLS_START * start + zero, "pipeline fill": fill, **switch},
    ]


def _overlapped(hops: Floats, link: Floats, copy: Floats, adding: Floats, power: float) -> Candidate:
    """Parts of a way that overlaps with what moves, scaled to the p-norm of the two."""
    moved = link + copy + adding
    longer = np.maximum(np.maximum(hops, moved), 1e-30)
    scale = longer * (1.0 + (np.minimum(hops, moved) / longer) ** power) ** (1.0 / power) / np.maximum(hops + moved, 1e-30)
    return {"hops": hops * scale, "link": link * scale, "copy": copy * scale, "reduction": adding * scale}


def _fill(calls: CollectiveCalls, c: Mapping[str, float], by: Mapping[str, float]) -> Floats:
    """Seconds to fill the pipeline with a byte in each ring; less where the message is shorter than the pipeline."""
    ring_b_s = calls.link.share * calls.rate_b_s / calls.link.rings
    return np.asarray(by["fill"] / ring_b_s * calls.nbytes / (calls.nbytes + c["fill_half_bytes"]))


def _switched(calls: CollectiveCalls) -> Floats:
    """Each GPU sends its buffer to the switch and gets the sum of its own part, which it sends once more."""
    return np.asarray(calls.nbytes * (1.0 + 1.0 / calls.gpus) / np.maximum(calls.switch_b_s, 1.0))


def _peers(calls: CollectiveCalls, table: Table) -> tuple[Candidate, Candidate]:
    """All-to-all: sends and receives between all, by LL and by Simple."""
    a, (c, by, *_) = table["alltoall"], _start(calls, table)
    whole = _whole_b_s(calls, c)
    pcie = calls.link.key == nccl.PCIE.key
    launch = np.full_like(whole, a["launch_kclocks"] * by["launch"] * 1e3 / calls.clock_hz)
    hops = a["peer_us"] * by["hop"] * 1e-6 * np.log2(calls.gpus)
    flagged = a["ll_clocks_per_byte"] / calls.clock_hz * calls.share + (calls.wire / (whole / 2) if pcie else 0.0)
    grown = a["simple_us"] * by["simple"] * 1e-6 * calls.share / (calls.share + a["simple_half_bytes"])
    copy = calls.share / (a["copy_b_per_unit_clock"] * by["copy"] * calls.units_hz)
    fill = a["fill_bytes_per_ring"] * _fill(calls, c, by)
    link = calls.wire / (whole * (1.0 if pcie else a["simple_share"]))
    return (
        {"launch": launch, "hops": hops, "link": flagged},
        {"launch": launch, "hops": hops, "link": link, "protocol": grown, "copy": copy, "pipeline fill": fill},
    )


# ---------------------------------------------------------------- the rest


def _network(cases: Mapping[str, NDArray[Any]], part: Floats) -> Floats:
    """Between nodes, after the step within: each GPU's share over its own NIC in a ring, or a tree where that has fewer hops."""
    nodes, op = cases["nodes"], cases["op"]
    share = np.where(np.isin(op, ("alltoall", "send", "broadcast")), cases["bytes"], part)
    ways = np.where(op == "all_reduce", 2.0, 1.0)
    hops = ways * np.minimum(nodes - 1.0, 2.0 * np.log2(nodes))
    seconds: Floats = ways * share * (1.0 - 1.0 / nodes) / cases["network_b_s"] + hops * cases["network_latency_s"]
    return seconds


def _demand(cases: Mapping[str, NDArray[Any]], calls: CollectiveCalls) -> Demand:
    """Of one GPU: additions of what it reduces; every byte that it sends or receives is read or written once."""
    items = cases["bytes"] / np.array([ITEM_BYTES[d] for d in cases["dtype"].tolist()])
    adds = np.where(np.isin(cases["op"], ("all_reduce", "reduce_scatter")), items * (1.0 - 1.0 / cases["gpus"]), 0.0)
    moved = 2.0 * np.maximum(calls.wire, calls.share)
    return Demand({"fma.fp32": adds}, np.zeros_like(adds), moved, moved)


def _inside(cases: Mapping[str, NDArray[Any]], calls: CollectiveCalls) -> NDArray[np.bool_]:
    """Of the fitted domain: 2 to 8 GPUs of one node, 512 B to 512 MiB, links like those that were measured."""
    sizes = (cases["bytes"] >= 512) & (cases["bytes"] <= 2**29)
    count = (cases["gpus"] >= 2) & (cases["gpus"] <= 8) & (cases["nodes"] == 1)
    known = np.isin(cases["op"], OPS[:4]) & (cases["dtype"] != "fp32")
    like = calls.link.key != "nvlink2" and abs(calls.rate_b_s / calls.link.one_way_b_s - 1.0) < 0.2
    inside: NDArray[np.bool_] = sizes & count & known & like
    return inside

"""What NCCL takes a link for, and which protocol its tuner chooses: its published constants, none of them fitted.

Sources (github.com/NVIDIA/nccl, 2.29): rates of one NVLink and of PCI Express src/graph/topo.h; rings and their rates src/graph/search.cc
(the largest step of its table that fills the link; 12 × 20, 12 × 30 and 8 × 90 GB/s agree with where the measured protocols change);
latencies, limits of LL and LL128 and what NVLS keeps src/graph/tuning.cc. The tuner adds a latency for each hop and the bytes on the
link at a rate, and takes the least sum; within a node its trees are chains, as long as a ring and slower, so they are not here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip, Floats

PROTOCOLS = ("LL", "LL128", "Simple", "NVLS")
BASE_S = (6.6e-6, 14.0e-6, 8.4e-6)  # of a ring, by protocol
NVLINK_HOP_S, PCIE_HOP_S = (0.6e-6, 1.9e-6, 3.4e-6), (1.0e-6, 2.5e-6, 5.7e-6)
NVLS_S = 25e-6
NVLS_START = NVLS_S / (BASE_S[2] + NVLINK_HOP_S[2])  # of an all-reduce in the switch, against the bulk protocol between two GPUs
PEER_LL_BYTES = 16384.0  # for each peer, up to which sends and receives use LL (NCCL_P2P_LL_THRESHOLD)
LL128_SHARE = 0.92


class LinkGeneration(NamedTuple):
    """A generation of links as NCCL sees it."""

    key: str
    one_way_b_s: float  # of one GPU, by which the generation is known
    share: float  # of it that rings fill: NCCL's rate of one link ÷ the published one
    ll_b_s: float  # most that LL moves
    rings: int
    ll128_b_s: float  # most that LL128 moves in one ring; 0: not used
    switch_b_s: float  # most between one GPU and its part of the switch
    switch_share: float  # of the link that sums in the switch keep, each way; 0: the switch cannot add


NVLINKS = (
    LinkGeneration("nvlink2", 150e9, 0.80, 39e9, 6, 20e9, 40e9, 0.0),
    LinkGeneration("nvlink3", 300e9, 0.80, 87.7e9, 12, 20e9, 40e9, 0.0),
    LinkGeneration("nvlink4", 450e9, 0.80, 141e9, 12, 36.7e9, 60e9, 0.85),
    LinkGeneration("nvlink5", 900e9, 0.80, 282e9, 8, 40e9, 90e9, 0.74),
)
PCIE = LinkGeneration("pcie", 31.5e9, 12.0 / 15.754, 87.7e9, 1, 0.0, 0.0, 0.0)  # 12 GB/s of PCI Express 3 × 16, and twice that of 4


def link_of(chip: Chip) -> tuple[LinkGeneration, float]:
    """The generation of a chip's links, and its rate one way. An imagined link is of its original's generation, at another rate. Raises
    InputError."""
    table = chip.original or chip
    if chip.link_b_s:
        published = table.link_b_s or chip.link_b_s
        kind = min(NVLINKS, key=lambda one: abs(np.log(published / one.one_way_b_s)))
        return kind if published == chip.link_b_s else _faster(kind, chip.link_b_s / published), chip.link_b_s
    if chip.pcie_b_s:
        return PCIE, chip.pcie_b_s
    raise InputError("a collective needs the link between the GPUs, and neither it nor PCI Express is published for this machine")


def _faster(link: LinkGeneration, factor: float) -> LinkGeneration:
    """With what protocols move on it scaled as the link is."""
    rates = {name: factor * getattr(link, name) for name in ("ll_b_s", "ll128_b_s", "switch_b_s")}
    return link._replace(**rates)


def chosen(
    link: LinkGeneration, rate_b_s: float, hops: Floats, wire: Floats, gpus: Floats, in_switch: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """The tuner's own estimate of each protocol, protocols × cases, infinite where it cannot run; and the rate of sums in the switch.

    `wire`: bytes that cross one GPU's link in a ring; `in_switch`: whether a switch may add what is asked.
    """
    whole = link.share * rate_b_s
    rates = (min(link.ll_b_s, whole / 2), ll128_b_s(link, rate_b_s), whole)
    ring = [
        base + hop * hops + (wire / rate if rate else np.inf)
        for base, hop, rate in zip(BASE_S, PCIE_HOP_S if link.key == PCIE.key else NVLINK_HOP_S, rates, strict=True)
    ]
    switch = np.minimum(whole, gpus * link.switch_b_s) * link.switch_share
    gain = 2.0 * switch * (1.0 - 1.0 / np.maximum(gpus, 1.0))  # as bus bandwidth
    able = in_switch & (gain > whole)
    nvls = np.where(able, NVLS_S + wire / np.where(able, gain, 1.0), np.inf)
    return np.stack([*ring, nvls]), switch


def ll128_b_s(link: LinkGeneration, rate_b_s: float) -> float:
    """Most that LL128 moves; 0 where it is not used."""
    return min(LL128_SHARE * link.share * rate_b_s, link.rings * link.ll128_b_s)

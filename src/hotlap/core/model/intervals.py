"""How far the expected time of a case may be off: intervals learnt from what the model missed, by regime and by how much is known."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.machines import Spec

Floats = NDArray[np.float64]
EDGES_S = (20e-6, 200e-6)  # of the expected time: regimes short, middle, long
REGIMES = ("short", "middle", "long")
_EDGES = np.array(EDGES_S)
WIDE = (0.4, 2.5)  # measured ÷ expected where nothing like it was ever measured: assumed, and said so
FITTED = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s")
ARCHITECTURES = ("Ampere GA100", "Hopper", "Blackwell")  # of those whose memory, links and limits other boards share
KNOWN = {  # how sure: by which residuals, in words; `name` as the machine table has it
    "fitted": "fitted to measurements on {name}", "generation": "fitted to measurements on other machines of its architecture",
    "spec": "published figures of the machine only: fitted to other architectures",
}  # fmt: skip

ASSUMED = "constants that are assumed, from published figures"


class IntervalLevel(NamedTuple):
    """How much is known of a machine, and the words for it."""

    key: str  # of the table of intervals: "fitted SLUG", "generation", "spec", "sweep"
    words: str


def level(spec: Spec) -> IntervalLevel:
    """Machines that were fitted, others of their architectures, and the rest. Nobody has measured an imagined one."""
    if spec.original is not None:
        return IntervalLevel("spec", f"what-if hardware: {', '.join(spec.edits)} of {spec.table_slug} edited; {KNOWN['spec']}")
    if spec.slug in FITTED:
        return IntervalLevel(f"fitted {spec.slug}", KNOWN["fitted"].format(name=spec.name))
    key = "generation" if spec.architecture in ARCHITECTURES else "spec"
    return IntervalLevel(key, KNOWN[key])


def swept(words: str) -> IntervalLevel:
    """A machine whose published figures a sweep on it has corrected."""
    return IntervalLevel("sweep", words)


@functools.cache
def stored() -> Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]:
    """By family, level and regime: `low` and `high` of measured ÷ expected, and the rows they were learnt from."""
    return {**learnt(), "streaming": _table("streaming.toml")}


@functools.cache
def learnt() -> Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]:
    """Those that `python -m research.accuracy` learnt."""
    return _table("intervals.toml")


def _table(name: str) -> Mapping[str, Any]:
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / name
    found: Mapping[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["interval"]
    return found


class Healthy(NamedTuple):
    """Of held-out cases of a family on a machine: how many are slower than the interval, and how much they go together."""

    share: float
    alike: float  # intraclass correlation of cases of one shape
    dtypes: tuple[str, ...]  # that were measured
    torch: str  # the oldest PyTorch that was


@functools.cache
def healthy(family: str, machine: str) -> Healthy | None:
    """`machine`: a slug of the table. None where no held-out case was measured on it."""
    table = tomllib.loads((importlib.resources.files("hotlap.core.model") / "coefficients" / "beyond.toml").read_text(encoding="utf-8"))
    one = table["beyond"].get(family, {}).get(machine)
    return Healthy(one["share"], one["alike"], tuple(one["dtypes"]), table["torch"]) if one else None


def tested(family: str) -> bool:
    """Whether held-out cases of the family were measured on any machine."""
    return any(healthy(family, machine) for machine in FITTED)


def entry(table: Mapping[str, Mapping[str, float]], part: str, regime: str) -> Mapping[str, float]:
    """Of a level's table: of the part and regime, else of the part, else of the regime, else of all; never wider than where nothing is
    known. Empty where there is none."""
    names = (f"{part}.{regime}", part, regime, "all")
    limits = next((table[name] for name in names if name in table), None)
    return {"low": max(limits["low"], WIDE[0]), "high": min(limits["high"], WIDE[1])} if limits else {}


def interval(
    family: str, key: str, seconds: Floats, inside: NDArray[np.bool_], part: str = "", besides: str = ""
) -> tuple[Floats, Floats]:
    """The stated 90 % interval of each case; wide outside what was measured. `part`: the type of products, "" of other families.
    `besides`: another level, where the case is unlike what was measured in its way too; the wider holds."""
    lows, highs = _limits(family, key, part)
    if besides:
        more = _limits(family, besides, part)
        lows, highs = np.minimum(lows, more[0]), np.maximum(highs, more[1])
    place = np.searchsorted(_EDGES, seconds, side="right")
    low, high = lows[place], highs[place]
    if not inside.all():
        low, high = np.where(inside, low, np.minimum(low, WIDE[0])), np.where(inside, high, np.maximum(high, WIDE[1]))
    return seconds * low, seconds * high


@functools.cache
def _limits(family: str, key: str, part: str) -> tuple[Floats, Floats]:
    """Of measured ÷ expected in each regime; wide where nothing is known."""
    table = stored().get(family, {})
    usual = "generation" if key.startswith("fitted") else "spec"
    own = table.get(key) or table.get(key.partition(" ")[0]) or table.get(usual) or table.get("spec") or {}
    limits = [entry(own, part, name) for name in REGIMES]
    return np.array([one.get("low", WIDE[0]) for one in limits]), np.array([one.get("high", WIDE[1]) for one in limits])

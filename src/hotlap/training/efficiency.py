"""MFU and HFU: operations of a step against the dense limit of the device, each by a named convention."""

from __future__ import annotations

from collections.abc import Mapping

from hotlap.core.model import limits
from hotlap.core.model.spec import Spec
from hotlap.core.record import Record
from hotlap.training import conventions
from hotlap.training.reading import TrainingRun

TYPES = {  # PyTorch's types → units of the machine table
    "float32": "matrix.fp32", "float64": "matrix.fp64", "bfloat16": "matrix.bf16", "float16": "matrix.fp16", "float8_e4m3fn": "matrix.fp8",
    "float8_e5m2": "matrix.fp8",
}  # fmt: skip


class LimitShare(Record, frozen=True, kw_only=True):
    """Operations per second as a share of the dense peak. Above 1 it is `invalid`: the convention, the peak or the time is wrong."""

    name: str  # mfu or hfu
    convention: str
    flop: float  # of a step, all ranks on the device
    share: float
    state: str = "measured"
    peak: float  # FLOP/s
    source: str = ""  # of the peak
    formula: str = ""


def peak(spec: Spec, unit: str) -> tuple[float, str] | None:
    """FLOP/s of all units at the highest clock that is known, and where they come from."""
    found = limits.per_clock(spec, unit)
    clock = spec.clock_max_hz or spec.clock_for_peak_hz
    if found is None or clock is None or not spec.compute_units:
        return None
    name, rate = found
    source = f"{spec.compute_units} units × {rate:g} a clock ({name}) × {clock / 1e9:.3g} GHz: {spec.source_of(name)}"
    return spec.compute_units * rate * clock, source


def seconds_at_peak(spec: Spec, flop: Mapping[str, float]) -> tuple[float, str] | str:
    """Of operations by type: the shortest time in which the device can do them, and the peak's source; or why that is unknown."""
    total, source = 0.0, ""
    for dtype, count in flop.items():
        found = peak(spec, TYPES.get(dtype, dtype))
        if found is None:
            return f"no published dense rate of {dtype} on {spec.name}"
        total += count / found[0]
        source = source or found[1]
    return total, source


def shares(run: TrainingRun, step_s: float | None) -> tuple[list[LimitShare], str]:
    """Every convention that can be said, and why there is none."""
    if step_s is None:
        return [], "no step was timed"
    if run.counted is None:
        return [], "the operations of a step were not counted: PyTorch does that, in a launch of its own"
    bundle = run.bundle
    clocks = [clock for samples in bundle.samples for clock in samples.clocks_hz]
    device = next((one for one in bundle.run.machine.devices if one.key in bundle.run.devices), None)
    spec = limits.spec_for(device, bundle.run.machine, clocks) if device else None
    if spec is None:
        return [], "the device is not in the machine table"
    flop = run.counted.flop
    ranks = max(run.counted.world, 1) if device is not None and device.kind == "cpu" else 1  # that share the device
    if not sum(flop.values()):
        return [], "a step has no operations that PyTorch counts: no matrix products or convolutions"
    fastest = seconds_at_peak(spec, flop)
    if isinstance(fastest, str):
        return [], fastest
    rate, source = sum(flop.values()) / fastest[0], fastest[1]
    lead = run.launches[0][0]
    counts = [("hfu", "counted", sum(flop.values()), "operations that PyTorch's FlopCounterMode saw in one step, recomputation included")]
    tokens = lead.steady.tokens
    if tokens:
        each = conventions.of_run(run.trained.asked, lead.process)
        counts += [("mfu", name, value * tokens, conventions.FORMULAS[name].text) for name, value in each.items()]
    efficiencies = []
    for name, convention, count, formula in counts:
        share = count * ranks / step_s / rate
        state = "invalid" if share > 1 else "measured"
        efficiencies.append(
            LimitShare(
                name=name, convention=convention, flop=count * ranks, share=share, state=state, peak=rate, source=source, formula=formula
            )
        )
    return efficiencies, ""

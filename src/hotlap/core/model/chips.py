"""A machine of the table as the families of kernels see it."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.machines import Spec


def chip(spec: Spec, clock: str = "peak") -> Chip:
    """At the clock for which the peak is published, which is the clock of a call under load, or at the highest ("max").

    Sizes that only some families need are 0 where they are not known. Raises InputError that names the facts without which nothing
    can be expected.
    """
    rated = spec.clock_for_peak_hz or spec.clock_max_hz
    needed: dict[str, float | None] = {"compute_units": spec.compute_units, "clock": rated, "l2_bytes": spec.resident_bytes}
    needed["memory_bandwidth_b_s"] = spec.memory_bandwidth_b_s
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise InputError(f"nothing can be expected of {spec.name}: the machine table lacks {', '.join(missing)}")
    top = float(spec.clock_max_hz or rated or 0)
    return Chip(
        units=int(spec.compute_units or 0), clock_hz=top if clock == "max" else float(rated or 0), clock_max_hz=top,
        flop_per_clock=spec.flop_per_clock, memory_b_s=float(spec.memory_bandwidth_b_s or 0), l2_bytes=float(spec.resident_bytes or 0),
        shared_bytes=float(spec.shared_bytes_per_unit or 0), registers=int(spec.registers_per_unit or 0),
        warps_max=int(spec.warps_max_per_unit or 0), blocks_max=int(spec.blocks_max_per_unit or 0), power_w=spec.power_w,
        link_b_s=spec.scaleup_b_s / 2 if spec.scaleup_b_s else None, l2_factor=spec.l2_factor,
        original=chip(spec.original, clock) if spec.original else None, target=spec.compile_target,
    )  # fmt: skip

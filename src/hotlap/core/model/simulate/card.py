"""A kernel on a card: events at a clock, watts from them, the clock that the power limit leaves, and counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate import energy, engine
from hotlap.core.model.simulate.counters import Counters
from hotlap.core.model.simulate.energy import Activity, Power
from hotlap.core.model.simulate.engine import Trace
from hotlap.core.model.simulate.tasks import SimulatedKernel
from hotlap.core.model.simulate.thermal import Thermal

CLOCK_LEAST = 0.3  # of the highest clock: no governor goes below: assumed
AIM = 0.995  # of the power limit, that the clock is set for: a board reads 690 W of 700 W and never more than them
NEAR = 0.005  # of that power: close enough, and below the limit
ROUNDS = 4
HALVINGS = 12
RATES = ("matrix_flop", "vector_flop", "special", "shared_bytes", "l2_bytes", "dram_bytes")
NOT_AT_CLOCK = ("DRAM", "memory latency", "launch", "L2")  # causes whose seconds do not change with the units' clock


def activity(kernel: SimulatedKernel, chip: Chip, trace: Trace, gap_s: float, temperature_c: float) -> Activity:
    """Mean rates over a call that is repeated, its gap included."""
    steps, step, seconds = float(kernel.steps.sum()), kernel.step, trace.seconds + gap_s
    size = facts.BYTES.get(kernel.unit.partition(".")[2], 2.0)
    matrix, vector = kernel.flop, steps * step.fma
    on_vectors = facts.on_vectors(chip, kernel.unit)
    if on_vectors:
        matrix, vector = 0.0, matrix + vector
    return Activity(
        chip, chip.clock_hz, temperature_c, matrix / seconds, vector / seconds, steps * step.special / seconds,
        steps * step.shared_bytes / seconds, trace.l2_bytes / seconds, (trace.dram_read + trace.dram_written) / seconds, size,
        "" if on_vectors else kernel.unit, kernel.unit if on_vectors and kernel.flop else kernel.vector, kernel.kind,
        1.0 - (trace.causes.get("tail", 0.0) + trace.causes.get("fill and drain", 0.0) + gap_s) / seconds,
    )  # fmt: skip


def quiet(chip: Chip, temperature_c: float = 60.0) -> Activity:
    """A chip that is awake and does nothing."""
    return Activity(chip, chip.clock_hz, temperature_c, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, active=0.0)


def simulate(
    kernels: SimulatedKernel | Sequence[SimulatedKernel],
    chip: Chip,
    gap_s: float = facts.GAP_S,
    power: Power = energy.measured,
    thermal: Thermal | None = None,
    cap_w: float = math.inf,
) -> Counters:
    """A kernel repeated back to back for long, at the clock its power leaves; of several candidates the fastest.

    Temperature is that of `thermal`, which is not moved on; 60 °C without. `cap_w`: a limit below the board's own. Boards settle a little
    below their limit, never above it.
    """
    kernel, trace = pick([kernels] if isinstance(kernels, SimulatedKernel) else kernels, chip)
    hot = thermal.temperature_c if thermal else 60.0
    limit = chip.power_w if thermal is None or chip.power_w is None else thermal.cap_w(chip.power_w)
    limit = min(cap_w, math.inf if limit is None else limit)
    aim, now = limit * AIM, chip
    watts = power(activity(kernel, now, trace, gap_s, hot))
    for _ in range(ROUNDS):
        high_enough = now.clock_hz >= chip.clock_hz * 0.999
        if math.isinf(limit) or (watts <= aim if high_enough else abs(watts / aim - 1.0) <= NEAR):
            break
        known = activity(kernel, now, trace, gap_s, hot)
        clock_hz = settle(known, moving(trace) / (trace.seconds + gap_s), aim, (power, chip.clock_hz))
        if abs(clock_hz / now.clock_hz - 1.0) < 1e-3:
            break
        now = facts.at_clock(chip, clock_hz)
        trace = engine.run(kernel, now)
        watts = power(activity(kernel, now, trace, gap_s, hot))
    if watts > limit:
        trace, watts = resting(trace, gap_s, limit, (watts, power(quiet(now, hot))))
    return report(kernel, now, trace, gap_s, (watts, hot))


def resting(trace: Trace, gap_s: float, limit: float, state: tuple[float, float]) -> tuple[Trace, float]:
    """Where the lowest clock draws more than the limit, the card stands still for so long that the mean is the limit. `state`: watts at
    work and standing still; a limit below the latter cannot be met."""
    watts, still = state
    if limit <= still:
        return trace, watts
    pause = (trace.seconds + gap_s) * (watts - limit) / (limit - still)
    return replace(trace, seconds=trace.seconds + pause, causes={**trace.causes, "power": pause}), limit


def moving(trace: Trace) -> float:
    """Seconds that shrink as the clock grows."""
    return sum(value for name, value in trace.causes.items() if name not in NOT_AT_CLOCK)


def settle(known: Activity, share: float, limit: float, how: tuple[Power, float]) -> float:
    """The clock at which power meets the limit, if `share` of the time moves with the clock and the rest does not."""
    power, high = how
    low = CLOCK_LEAST * known.chip.clock_max_hz
    for _ in range(HALVINGS):
        clock = 0.5 * (low + high)
        slower = 1.0 + share * (known.clock_hz / clock - 1.0)
        rates = {name: getattr(known, name) / slower for name in RATES}
        low, high = (clock, high) if power(known._replace(clock_hz=clock, **rates)) <= limit else (low, clock)
    return low


def pick(candidates: Sequence[SimulatedKernel], chip: Chip) -> tuple[SimulatedKernel, Trace]:
    """The fastest at the highest clock, what a library that has measured would run; and how it ran."""
    return min(((kernel, engine.run(kernel, chip)) for kernel in candidates), key=lambda found: found[1].seconds)


def report(kernel: SimulatedKernel, chip: Chip, trace: Trace, gap_s: float, state: tuple[float, float]) -> Counters:
    seconds, (watts, hot) = trace.seconds + gap_s, state
    read = float(kernel.steps.sum()) * kernel.step.l2_bytes
    steps, step = float(kernel.steps.sum()), kernel.step
    vector = steps * step.fma / facts.rate(chip, kernel.vector) if step.fma else 0.0
    main = kernel.flop / facts.rate(chip, kernel.unit) if step.flop else vector
    causes = {name: value for name, value in trace.causes.items() if value > 0}
    idle = causes.get("tail", 0.0) + causes.get("fill and drain", 0.0)
    return Counters(
        name=kernel.name, path=kernel.path or kernel.name, seconds=seconds, stalls={**causes, "launch": gap_s},
        busy_share=main / (chip.units * chip.clock_hz * seconds),
        units_share=1.0 - (idle + gap_s) / seconds, flop=kernel.flop, useful_flop=kernel.useful_flop,
        dram_read_bytes=trace.dram_read, dram_written_bytes=trace.dram_written, l2_bytes=trace.l2_bytes,
        l2_hit_share=1.0 - trace.l2_missed / read if read else 0.0, tiles=kernel.tiles, slots=trace.slots,
        waves=kernel.tiles / (chip.units * trace.slots), power_w=watts, energy_j=watts * seconds, clock_hz=chip.clock_hz,
        temperature_c=hot, events=trace.events,
    )  # fmt: skip

"""A case of a plan as kernels of the simulator: tile-level time, counters, power and clock of one call.

Matrix products, convolutions (as implicit products), attention, passes over memory and empty launches are played; all else takes
the plain times of `calls`, and says so. A case is played once; its answer is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from msgspec import structs

from hotlap.core import work
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.model import composed
from hotlap.core.model.kernels import passes as counted
from hotlap.core.model.kernels.base import Chip, Floats
from hotlap.core.model.machines import Spec
from hotlap.core.model.simulate import attention, calls, card, energy, gemm, stream
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate.counters import named
from hotlap.core.model.simulate.launch import HOST_S, Mode, gap_s, timeline
from hotlap.core.model.simulate.tasks import Operand, SimulatedKernel
from hotlap.core.record import Case
from hotlap.core.work.attention import attention_widths
from hotlap.core.work.base import Work, count, integer, text, unit_of
from hotlap.core.work.convolution import conv_sides

OUT = {"int8": "fp32", "fp8": "bf16", "fp4": "bf16"}  # of a product, where it is not its operands' type; int32 is as wide as fp32
LAUNCHES = 256  # empty kernels in a queue, over whose number the first one's way is spread
KEPT = 4096  # answers
SIMT = ("fp32", "fp64")  # products that vector units do where the matrix unit has no such type


@dataclass(frozen=True)
class SimulatedCall:
    """One call of a case on a simulated GPU. Watts and clock are None where a fact is missing."""

    seconds: float
    how: str  # the kernel that was played, or why the times are plain
    path: str  # which kernel, without the case's shape
    plain: str = ""  # why the times are plain; "": a kernel was played
    power_w: float | None = None
    clock_hz: float | None = None
    capped: bool = False  # the power limit holds the clock down
    counters: Mapping[str, float] = field(default_factory=dict)
    passes: int = 1  # calls that share one launch


class SimulationSetting(NamedTuple):
    """What a card is held to, below what it could."""

    clock_hz: float = math.inf
    power_w: float = math.inf

    @property
    def free(self) -> bool:
        return math.isinf(self.clock_hz) and math.isinf(self.power_w)


FREE = SimulationSetting()
_KEPT: dict[tuple[str, str, SimulationSetting], tuple[Spec, SimulatedCall]] = {}


def call(case: Case, spec: Spec, setting: SimulationSetting = FREE) -> SimulatedCall:
    """One call of the case, sustained at 60 °C. Raises NotSupported where the machine table lacks what even plain times need, and for
    a case with plain times on a card that is held to a clock or to watts."""
    key = (case.id, spec.slug, setting)
    if key not in _KEPT or _KEPT[key][0] != spec:
        if len(_KEPT) >= KEPT:
            _KEPT.clear()
        _KEPT[key] = (spec, _call(case, spec, setting))
    return _KEPT[key][1]


def _call(case: Case, spec: Spec, setting: SimulationSetting) -> SimulatedCall:
    try:
        return _played(case, spec, setting)
    except (NotSupported, InputError) as error:
        if not setting.free:
            raise NotSupported(f"its time at another clock or power cap is not simulated: {error}") from None
        seconds = calls.expected_call_s(case, spec)
        return _plain(work.find(case.workload).work(case.params), seconds, spec, str(error))


def _played(case: Case, spec: Spec, setting: SimulationSetting) -> SimulatedCall:
    """Raises NotSupported for what has no kernel here, and InputError for sizes beyond the simulator."""
    chip = chip_of(spec)
    chip = facts.at_clock(chip, min(chip.clock_hz, setting.clock_hz))
    asked = work.find(case.workload).work(case.params)
    if work.find(case.workload).shows == "launch":
        return _launched(text(case.params, "mode"), chip)
    kernels, passes = kernels_of(case, asked, chip)
    played = card.simulate(kernels, chip, cap_w=setting.power_w)
    more = calls.launches(case) - 1.0
    waits = more * (gap_s("stream") + facts.START_CYCLES / chip.clock_hz)
    if passes == 1.0:  # the host launches no faster
        waits = max(waits, (more + 1.0) * HOST_S - played.seconds)
    how = played.name + (f", {passes:.0f} passes a launch" if passes > 1 else "")
    return SimulatedCall(
        (played.seconds + waits) / passes, how, played.path, power_w=played.power_w, clock_hz=played.clock_hz,
        capped=played.clock_hz < 0.999 * chip.clock_hz, counters=named(played, passes, waits), passes=int(passes),
    )  # fmt: skip


def chip_of(spec: Spec) -> Chip:
    """As `chip.chip_of`; a machine that is no GPU has no tiles."""
    if spec.kind != "gpu":
        raise NotSupported(f"{spec.name} is no GPU")
    return facts.chip_of(spec)


def kernels_of(case: Case, asked: Work, chip: Chip) -> tuple[list[SimulatedKernel], float]:
    """Candidates for the case, and how many calls one launch of them holds. Raises NotSupported where nothing plays it."""
    case = _complete(case)
    cold, passes = case.params.get("cache") in ("cold", "rotated"), 1.0
    kind = work.find(case.workload)
    if kind.model in ("product", "groups"):
        kernels = _product(case, chip)
    elif kind.model == "convolution":
        kernels = _convolution(case, asked, chip)
    elif kind.model == "attention":
        kernels = [_attention(case, asked, chip)]
    elif kind.traffic not in ("", "gathered"):
        passes = _passes(case, asked, chip)
        kernels = [_streamed(case, asked, chip, passes)]
    elif kind.passes is not None:
        kernels = [_passed(case, asked, chip)]
    else:
        raise NotSupported("kernels of this workload are not simulated tile by tile")
    return [_cold(one) if cold else one for one in kernels], passes


def _complete(case: Case) -> Case:
    """With the parameters that a case leaves out at their defaults."""
    return structs.replace(case, params=work.find(case.workload).full(case.params))


def _product(case: Case, chip: Chip) -> list[SimulatedKernel]:
    """A product, or a batch of them for groups, each of the mean number of rows. A residual is read as the result is written."""
    grouped = work.find(case.workload).model == "groups"
    m, n, k = (integer(case.params, name) for name in ("m", "n", "k"))
    batch = min(integer(case.params, "groups"), m) if grouped else integer(case.params, "batch")
    dtype = unit_of(text(case.params, "dtype")).partition(".")[2]
    problem = gemm.GemmProblem(max(m // batch, 1) if grouped else m, n, k, dtype, out=OUT.get(dtype, dtype), batch=batch)
    found = gemm.candidates(problem, _simt(chip, dtype))
    if case.params.get("epilogue") == "residual":
        more = ", residual"
        found = [replace(one, reads=(*one.reads, _each(one.written_bytes)), name=one.name + more, path=one.path + more) for one in found]
    return found


def _each(read_bytes: Floats) -> Operand:
    """A piece of its own for every tile."""
    return Operand(np.arange(len(read_bytes)), read_bytes, len(read_bytes))


def _simt(chip: Chip, dtype: str) -> Chip:
    """The chip without its matrix unit, for types that only vector units have: tiles as warps of those kernels make them."""
    if dtype not in SIMT or f"matrix.{dtype}" in chip.flop_per_clock:
        return chip
    return replace(chip, flop_per_clock={name: value for name, value in chip.flop_per_clock.items() if name.startswith("fma.")})


def _convolution(case: Case, asked: Work, chip: Chip) -> list[SimulatedKernel]:
    """The implicit product, one for each group: k runs over taps, pixels or filters; of the image each byte comes from memory once."""
    params = case.params
    if composed.depthwise(params):
        return [_streamed_bytes(case, asked.read_bytes, asked.written_bytes, asked.total_operations, chip)]
    m, n, k, groups = (max(int(value), 1) for value in composed.implicit(params))
    dtype = unit_of(text(params, "dtype")).partition(".")[2]
    problem = gemm.GemmProblem(m, n, k, dtype, out=OUT.get(dtype, dtype), batch=groups)
    sides = conv_sides(params).values()
    back = params["op"] == "input_gradient"  # its rows are made of the result's gradient
    pixels = math.prod(side.result if back else side.size for side in sides) * count(params, "images")
    once = min(1.0, pixels * count(params, "filters" if back else "channels") / (m * k * groups))
    found = []
    for one in gemm.candidates(problem, _simt(chip, dtype)):
        read, weights = one.reads
        found.append(replace(one, name=f"conv as {one.name}", reads=(read._replace(bytes=read.bytes * once), weights)))
    return found


def _attention(case: Case, asked: Work, chip: Chip) -> SimulatedKernel:
    params = case.params
    queries = integer(params, "query")
    values, row = attention_widths(params)
    if values != params["head_dim"] or row != 2 * values:
        raise NotSupported("attention on a latent, or with values of another width than keys, is not simulated tile by tile")
    problem = attention.AttentionProblem(
        batch=integer(params, "batch"), heads=integer(params, "heads"), kv_heads=integer(params, "kv_heads"),
        head_dim=integer(params, "head_dim"), queries=queries, keys=integer(params, "kv") or queries,
        causal=text(params, "mask") == "causal", window=integer(params, "window"), dtype=text(params, "dtype"),
        kv_dtype=text(params, "kv_dtype"),
    )  # fmt: skip
    if params["op"] == "backward":
        return _backward(case, asked, attention.prefill(problem, chip))
    return attention.decode(problem, chip) if queries == 1 else attention.prefill(problem, chip)


def _backward(case: Case, asked: Work, forward: SimulatedKernel) -> SimulatedKernel:
    """The forward kernel with the backward pass's operations and bytes: more steps of the same kind."""
    front = work.find(case.workload).work({**case.params, "op": "forward"})
    more, read = asked.total_operations / front.total_operations, asked.read_bytes / front.read_bytes
    return replace(
        forward, name=f"{forward.name}, backward", path=f"{forward.path}, backward", steps=forward.steps * more,
        useful_flop=forward.useful_flop * more,
        reads=tuple(one._replace(bytes=one.bytes * read) for one in forward.reads),
        written_bytes=forward.written_bytes * asked.written_bytes / front.written_bytes,
    )  # fmt: skip


def _passed(case: Case, asked: Work, chip: Chip) -> SimulatedKernel:
    """All passes of a kernel as one stream of their bytes."""
    moves, _ = counted.moved(case.workload, case.params, chip)
    read = float(moves.read[0] + moves.again[0])
    return _streamed_bytes(case, read, float(moves.written[0]), asked.total_operations, chip, _vector(asked))


def _streamed_bytes(case: Case, read: float, written: float, operations: float, chip: Chip, unit: str = "fma.fp32") -> SimulatedKernel:
    """So many bytes, none of which L2 has, and operations of the vector units."""
    facts.rate(chip, unit)
    found = stream.build(read, written, chip, operations / (read + written))
    return replace(found, name=case.workload, vector=unit)


def _vector(asked: Work) -> str:
    return next((unit for unit in asked.operations if unit.startswith("fma.")), "fma.fp32")


def _passes(case: Case, asked: Work, chip: Chip) -> float:
    """Streams over small working sets pass over them many times in one launch, as on real targets."""
    if not work.find(case.workload).shares_launch or case.params.get("cache") == "cold":
        return 1.0
    return max(1.0, calls.PASSED_BYTES_A_UNIT * chip.units // asked.memory_bytes)


def _streamed(case: Case, asked: Work, chip: Chip, passes: float) -> SimulatedKernel:
    dtype = _vector(asked)
    facts.rate(chip, dtype)  # what the machine lacks is said, not played on another unit
    a_byte = asked.total_operations / asked.memory_bytes
    rounds = 1 if passes > 1 else stream.ROUNDS
    again = "bandwidth" in work.find(case.workload).ceilings  # the same data in every call; other inputs are rotated past the last cache
    age = asked.working_set_bytes if again else math.inf
    found = stream.build(asked.read_bytes * passes, asked.written_bytes * passes, chip, a_byte, age, rounds)
    return replace(found, name=case.workload, vector=dtype)


def _cold(kernel: SimulatedKernel) -> SimulatedKernel:
    """Nothing of it is in L2 when it starts."""
    return replace(kernel, reads=tuple(one._replace(age_bytes=math.inf) for one in kernel.reads), output_age_bytes=math.inf)


def _launched(mode: str, chip: Chip) -> SimulatedCall:
    """An empty kernel: alone from the call to its end, in a queue its share."""
    empty_s = facts.START_CYCLES / chip.clock_hz
    number = 1 if mode == "single" else LAUNCHES
    kind: Mode = "graph" if mode == "graph" else "stream"
    line = timeline([empty_s] * number, kind)
    first_s = line.starts[0] if number > 1 else 0.0
    seconds = (line.seconds - first_s) / number
    watts = energy.measured(card.quiet(chip))
    return SimulatedCall(
        seconds, f"empty kernel, {mode}", f"empty kernel, {mode}", power_w=watts, clock_hz=chip.clock_hz,
        counters={"power_w": watts, "energy_j": watts * seconds, "clock_hz": chip.clock_hz, "stall_s.launch": seconds - empty_s,
                  "stall_s.fill and drain": empty_s},
    )  # fmt: skip


def _plain(asked: Work, seconds: float, spec: Spec, reason: str) -> SimulatedCall:
    """A plain time with the watts that its operations and bytes make, at the highest clock; without where facts are missing."""
    how, path = f"plain time: {reason}", "plain time"
    try:
        chip = chip_of(spec)
    except NotSupported:
        return SimulatedCall(seconds, how, path, reason, clock_hz=spec.clock_max_hz)
    vector = sum(value for unit, value in asked.operations.items() if unit.startswith("fma."))
    matrix = sum(value for unit, value in asked.operations.items() if unit.startswith("matrix."))
    moved = asked.memory_bytes / seconds
    busy = card.quiet(chip)._replace(matrix_flop=matrix / seconds, vector_flop=vector / seconds, l2_bytes=moved, dram_bytes=moved)
    watts = min(energy.measured(busy), card.AIM * (chip.power_w or math.inf))
    return SimulatedCall(seconds, how, path, reason, watts, chip.clock_hz)

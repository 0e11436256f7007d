"""The grammar of everything Hotlap keeps, and a type per step of thought. READ THIS FIRST.

    Plan → Case → Samples (+ Readings) → Result → Summary → Comparison | Gap → Verdict / Finding → Row

All are frozen; a function takes one and returns the next. Inside, every number is in base SI units (s, B, B/s, FLOP/s,
W, J, Hz, °C) and a name that ends in a unit (`_s`, `_hz`, `_bytes`) says so. `None` and "" mean *unknown* or *not
given*, never zero.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

import msgspec

from hotlap.core.notice import GapBasis as GapBasis
from hotlap.core.notice import Notice as Notice
from hotlap.core.notice import Stop as Stop
from hotlap.core.notice import StopKind as StopKind
from hotlap.core.together import Benched as Benched
from hotlap.core.together import Turns as Turns
from hotlap.core.where import Cpu as Cpu
from hotlap.core.where import Device as Device
from hotlap.core.where import Difference as Difference
from hotlap.core.where import Look as Look
from hotlap.core.where import Machine as Machine
from hotlap.core.where import MachineClass as MachineClass
from hotlap.core.where import Reading as Reading
from hotlap.core.where import Readings as Readings
from hotlap.core.where import Record as Record
from hotlap.core.where import RunningProcess as RunningProcess
from hotlap.core.where import machine_class as machine_class

SCHEMA = 2
BLOCK = "block"  # Samples.method of a block of requests to a server, one number of it
CONFIGURATION = "configuration"  # the label of runs whose cases alone do not say what was measured: another one is another series
METHOD = 2
METHOD_HISTORY = {
    1: "0.1: rounds added until the interval was narrow; a clock that varied made a case invalid; no sample was replaced",
    2: "0.2: rounds planned by the noise between them; disturbed samples and rounds replaced; invalid only where a number is disproved; "
    "cold and rotated cases go past the machine table's caches too; the host's side runs on the GPU's NUMA node",
}
SCHEMA_HISTORY = {
    1: "2026-11: the first: run.json, samples.jsonl, readings.log",
    2: "2026-11: a run says its kind; why it ended, and notices, are codes and fields; samples have values and their unit",
}
IMPORTED = "imported"  # kind and target of what Hotlap did not measure itself
UNNAMED = "unknown"  # host or device of an import, where nobody gave its name
_IDS: dict[tuple[str, str, str], str] = {}  # Case.id, of the few cases that years of runs have in common
Value = bool | int | float | str | list[str]  # what a parameter can be; list[str] is an argv
Status = Literal["measured", "not_run", "invalid", "error"]
State = Literal["pass", "fail", "measured", "inconclusive", "not_run", "invalid", "error"]
encode = msgspec.json.encode  # a record as one line of JSON, without the newline


# ---------------------------------------------------------------- what


class Case(Record, frozen=True, kw_only=True):
    """One thing to measure. Its id hashes these three only: the same case on silicon and in simulation. Where it ran stands in a Result."""

    workload: str
    params: dict[str, Value] = {}  # complete: defaults filled in; base units
    implementation: str = ""  # where a workload has several; "" is the target's own choice

    @property
    def id(self) -> str:
        key = (self.workload, repr(self.params), self.implementation)
        if key not in _IDS:
            text = json.dumps([self.workload, self.params, self.implementation], sort_keys=True, separators=(",", ":"))
            _IDS[key] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return _IDS[key]


class MeasureOptions(Record, frozen=True, kw_only=True):
    """How long and how exactly; the `[measure]` table of a plan."""

    rounds: int = 6  # fewest good rounds; 6 is the fewest that give a distribution-free 95 % interval
    rounds_max: int = 30  # most good rounds; rounds that were disturbed are replaced and do not count
    round_s: float = 8.0  # time to spend in one round, shared by its cases
    budget_s: float = 600.0  # when to stop adding rounds, and replacing disturbed ones
    precision: float = 0.01  # asked half-width of the 95 % interval over rounds, as a share of the median
    sample_s: float = 0.0  # shortest sample; 0: the target's timer decides (resolution under 0.1 %)
    readings_hz: float = 10.0  # how often sensors are read; 0 switches them off
    seed: int = 0  # orders the cases and makes the inputs; 0: drawn anew and kept
    sustain_s: float = 0.0  # rounds go on for so long, whatever they show, and no sample is taken as warm-up; 0: not asked
    deadline_s: float = 0.0  # of a call; calls are timed one by one, and no sample is taken as warm-up; 0: none


class Use(Record, frozen=True, kw_only=True):
    """Where a network calls a case, and how often: the case's weight there is calls × expected time."""

    case: str  # Case.id
    step: str  # of a network, and how it is run: llama-3-8b decode batch=8 context=1024 tp=1; a trace's or module's name
    kernel: str  # its name there: query, key, value
    calls: float  # in one step, on one GPU
    expected_s: float | None = None  # of one call on Plan.weighed_on; None where nothing is expected


class Plan(Record, frozen=True, kw_only=True):
    """Cases and how to measure them; from TOML by `plan`."""

    name: str
    about: str = ""
    cases: list[Case] = []
    measure: MeasureOptions = MeasureOptions()
    source: str = ""  # file it came from, or "built in"
    uses: list[Use] = []  # of its cases in networks; [] where it came from none
    weighed_on: str = ""  # the machine of `expected_s`


# ---------------------------------------------------------------- what was seen


class Check(Record, frozen=True, kw_only=True):
    """A result compared with its reference on fresh random input."""

    passed: bool
    what: str  # what was compared with what, in one line
    error: float | None = None  # largest difference, in the unit of tolerance
    tolerance: float | None = None


class Samples(Record, frozen=True, kw_only=True):
    """The raw repeats of one case in one round, on one device. Never thrown away. One line of samples.jsonl."""

    case: str  # Case.id
    device: str  # Device.key
    round: int
    status: Status = "measured"
    reason: str = ""  # of any status but measured
    cause: Literal["", "wrong_result", "tampered", "timers"] = ""  # of `invalid`; "": valid, or kept by 0.1
    values: list[float] = []  # per call, overhead subtracted, in order of time
    unit: str = "s"  # of `values` and `replaced`; "": that of the case, in runs of 0.1
    calls: int = 1  # calls in one sample (the batch)
    method: str = ""  # how it was timed: event-batch, wall-batch, event-graph, event-queued-single, program, simulator
    eager_s: float | None = None  # of a call enqueued by itself, where the host's part rules and `values` are of a recorded graph
    overhead_s: float = 0.0  # per sample, already subtracted
    resolution_s: float = 0.0  # of the timer
    wall_ratio: float | None = None  # device timer ÷ wall clock over the same batches; None where only one was read
    warmup_samples: int = 0  # at the beginning, not in `values`
    replaced: list[float] = []  # as `values`: samples during which something foreign ran; others were taken in their place
    foreign: dict[str, int] = {}  # what ran during samples that were replaced: cause → samples; run_delay, processor, process, brake
    disturbed: float | None = None  # share of the samples in `values` during which something foreign ran; None: not watched
    waited_s: float = 0.0  # beyond the case's time: for others to end, and for samples in place of disturbed ones
    steal: float | None = None  # share of the processors' time that the hypervisor gave to others meanwhile; None where it is not counted
    steady_state_found: bool = True  # a steady state was found within the time given
    began_s: float = 0.0  # target's clock, first kept sample
    ended_s: float = 0.0
    clocks_hz: list[float] = []  # of the device, or of the cores that carry the load: before, between and after the samples, where known
    autocorrelation: float | None = None  # lag 1, within the round
    variant: str = ""  # what was chosen for this device, e.g. float16 × 4 chains
    code_path: str = ""  # the code that ran, without the case's shape and passes; "": as `variant` says
    no_counters: str = ""  # why a simulated device counted nothing; "": it counted, or is none
    passes: int = 1  # calls that share one launch
    metrics: dict[str, float] = {}  # other numbers a workload reports of itself
    counters: dict[str, float] = {}  # of one call, where the device counts: sm_busy, dram_bytes, l2_hit, waves, stall_s.CAUSE … (glossary)
    check: Check | None = None
    notices: list[Notice] = []
    seed: int = 0  # of this case's input
    bookkeeping_s: float | None = None  # median time between two samples, outside the timed region
    duty: float | None = None  # share of the time that was timed, by the wall clock: between samples the device rests, and cools


class RunRecord(Record, frozen=True, kw_only=True):
    """What run.json holds: everything about a run but its numbers."""

    schema: int = SCHEMA
    id: str
    kind: str = "plan"  # what it is a run of: plan, imported, or a kind that a feature brings and shows
    began: str  # UTC, ISO 8601
    ended: str = ""  # "" while running, or killed
    stops: list[Stop] = []  # why no more rounds, each reason once: devices may differ; [] while running, or killed
    kept: int | None = None  # lines of samples.jsonl when the run ended; None while running, killed, or before Hotlap counted them
    hotlap: str  # version
    method: int = 1  # how its numbers were made: see METHOD_HISTORY; absent in runs of 0.1
    plan: Plan
    machine: Machine
    target: str  # the specification asked for, e.g. opencl or simulated:h200-sxm?noise=0.01
    devices: list[str]  # keys of those measured, in order
    order: Literal["single", "one after another", "together"] = "single"
    labels: dict[str, str] = {}
    part_of: str = ""  # command that measured it beside others, with something set: it alone cannot go on. "": by itself, or before 0.2
    turns: Turns | None = None  # None: not measured by `ab`
    bench: Benched | None = None  # None: not commands measured by `bench`
    seed: int = 0
    sensors_missing: dict[str, str] = {}  # sources of sensors that were not there, and why
    sampler_share: float | None = None  # of one core, spent on reading sensors
    look: Look | None = None  # how busy the machine was just before; None: not looked

    @property
    def asked(self) -> MeasureOptions | None:
        """How it was to be measured; None where nobody asked: of imported numbers, and of commands of `bench`."""
        return None if IMPORTED in (self.kind, self.target) or self.bench else self.plan.measure

    def stopped_by(self, kind: StopKind) -> bool:
        return any(stop.kind == kind for stop in self.stops)


# ---------------------------------------------------------------- what it means


class Result(Record, frozen=True, kw_only=True):
    """A case on one device, its rounds folded together. `values` is one number per round, in `unit`."""

    case: Case
    device: str
    target: str
    status: Status
    reason: str = ""
    metric: str = ""  # bandwidth, compute, latency, time, …
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    values: list[float] = []  # the metric, median of each round
    seconds: list[float] = []  # time per call, median of each round
    notices: list[Notice] = []
    checks: list[Check] = []
    rounds: list[Samples] = []
    too_short: bool = False  # a call takes less than timing it costs: the values are what it takes at most
    left_out: list[int] = []  # rounds that are not in `values`: disturbed, failed, or timers that disagreed
    bound_by_clock: bool = False  # its time is a number of clock cycles: `cycles` means something
    cycles: list[float] = []  # clock cycles per call, median of each round; [] unless every round knows its clock
    timing: str = ""  # how its calls came to the device, as `timing.timing_of` says; what differs in it is not compared

    @property
    def imported(self) -> bool:
        """Whether something else measured it: advice about how to run is of no use."""
        return self.target == IMPORTED

    @property
    def used(self) -> list[Samples]:
        """The rounds behind `values`, in their order."""
        left_out = set(self.left_out)
        return [one for one in self.rounds if one.values and one.status in ("measured", "invalid") and one.round not in left_out]


class Summary(Record, frozen=True, kw_only=True):
    """A Result condensed. The interval is over rounds, from order statistics; below 6 rounds its confidence is under 95 %."""

    rounds: int
    median: float | None = None
    low: float | None = None  # interval of the median over rounds; None for a single one
    high: float | None = None
    confidence: float | None = None  # what the interval attains: at least 0.95 from 6 rounds on, 0.9375 with 5, 0.875 with 4
    half_width: float | None = None  # (high − low) / 2 ÷ median
    best: float | None = None  # the best round: foreign programs only ever make a number worse
    expected: float | None = None  # half-width to be expected of so many rounds, from the noise between them; None without a precision
    reached: bool | None = None  # whether `expected` is within the precision asked; None where none was asked
    needed: int | None = None  # rounds with which it would be; None: reached, or out of reach
    mad_between_rounds: float | None = None  # 1.4826 · MAD ÷ median, over rounds
    mad_within_rounds: float | None = None  # the same within rounds, over samples
    quantiles: dict[str, float] = {}  # of all samples: p1 p5 p25 p50 p75 p95 p99, in the metric's unit
    samples: int = 0
    effective: float | None = None  # effective sample size within rounds
    outliers: int = 0  # marked, never dropped
    notices: list[Notice] = []  # each says what to do


class Term(Record, frozen=True, kw_only=True):
    """One term of a limit: a figure, its unit and where it comes from."""

    name: str
    value: float
    unit: str
    source: str


class Limit(Record, frozen=True, kw_only=True):
    """What the hardware allows for a case. Seconds are per call. Fields are arrays when the parameters were."""

    kind: Literal["bound", "expected", "unknown"]
    bound_s: Any = None  # provable: nothing can be faster
    expected_s: Any = None
    low_s: Any = None  # interval of the expectation
    high_s: Any = None
    energy_j: Any = None
    power_w: Any = None
    clock_hz: Any = None
    limiter: Any = ""  # what sets it: memory, cache, arithmetic unit, link, latency, launch
    inside: Any = None  # whether the expectation is within what was measured; None where nothing is expected
    known: Any = ""  # how sure each expectation is, as `calibration_level`
    parts: dict[str, Any] = {}  # of the expected time, s by name; they add up: overlapping time is divided by what each part counts
    choice: dict[str, Any] = {}  # the kernel that is thought to run: tile_m, tile_n, split, waves …
    calibration_level: str = ""  # how sure the expectation is: fitted to this machine, to its architecture, published figures only
    notes: list[Notice] = []  # what it is made of, leaves out, or needs
    provenance: list[Term] = []
    reason: str = ""  # why unknown

    @property
    def causes(self) -> list[str]:
        """The notes as texts, for people."""
        return [note.text for note in self.notes]


class Gap(Record, frozen=True, kw_only=True):
    """A summary against its limit: the headroom and its named cause."""

    share: float | None = None  # of the bound, of the expectation, or of the measured ceiling; 1.0 is at the limit
    reference_kind: Literal["bound", "expected", "ceiling", "unknown"] = "unknown"  # what `share` is a share of
    limit_value: float | None = None  # in the metric's unit
    cause: str = ""  # at_limit, bandwidth, arithmetic, latency, launch, cache, clock, power, heat, shared, too_small, overlap, unknown
    basis: GapBasis = ""  # what the cause rests on; "": at the limit, or nothing is known
    numbers: dict[str, float] = {}  # behind the cause and what sets the limit, in base units: see notice.GAP_NUMBERS
    names: dict[str, str] = {}  # behind the cause: level, resource; of throttled what the notice says
    limiter: str = ""  # what sets the limit: memory, arithmetic unit; of a ceiling the resource: compute fma.fp32
    split: dict[str, float] = {}  # seconds between bound and measured by cause, where a model knows the kernel; they add up
    limit: Limit | None = None


class Verdict(Record, frozen=True, kw_only=True):
    """The state of one case and why. Only what was compared with an expectation passes or fails; `measured` was compared with none."""

    state: State
    reason: str = ""
    code: str = ""  # of the notice that kept it from an answer: no_gap, two_groups
    action: str = ""  # what to do about it
    against: str = ""  # what it was compared with: limit, baseline NAME, fleet, rules FILE
    threshold: float | None = None  # in the metric's unit: the worst value that passes
    provenance: str = ""  # where the threshold comes from
    rules: list[str] = []  # of rules: the `why` of those that decided
    ratio: float | None = None  # value ÷ reference, above 1 is better
    low: float | None = None  # 95 % interval of the ratio
    high: float | None = None
    machine_class: MachineClass | None = None  # of the machines compared with; None: not matched by class


class Finding(Record, frozen=True, kw_only=True):
    """What is wrong or worth doing: the one type that verdicts, traces and audits all give."""

    title: str
    detail: str = ""
    severity: Literal["info", "warning", "error"] = "warning"
    cases: list[str] = []  # Case.ids
    action: str = ""  # what to do
    rule: str = ""  # what found it, and its page in the manual: data-loader, synchronise …
    where: str = ""  # operator, source line, place
    evidence: dict[str, Any] = {}  # numbers, with their units in the names
    gain: float | None = None  # share of the whole that mending it would save, end to end
    gain_low: float | None = None
    gain_high: float | None = None
    confidence: Literal["", "low", "medium", "high"] = ""
    experiment: str = ""  # the command that turns the estimate into a measurement


class OnDevice(Record, frozen=True, kw_only=True):
    """One case on one of several devices that both sides have. Ratios above 1: b is better."""

    device: str  # Device.key, with the host where the key is but a place
    ratio: float | None = None  # its own
    low: float | None = None  # 95 % interval
    high: float | None = None
    vs_peers: float | None = None  # the same over the median of the other devices that are not named
    p: float | None = None  # two-sided, of `vs_peers` being 1
    q: float | None = None  # the same after Holm, over all devices and cases of one comparison
    answer: Literal["better", "worse", "like the others", "inconclusive", "split"]  # than the others; split: no majority of them agrees


class Allowance(Record, frozen=True, kw_only=True):
    """What an interval allows for between sides that were measured one after the other."""

    basis: Literal["history", "table", "stable"]  # earlier runs of the series; the class of the machine; nothing, since the user says so
    drift: float = 0.0  # 95 % of changes of level between such sides stay under it, as a share
    machine: str = ""  # class, where it is from the table
    source: str = ""  # of the table's figure
    runs: int = 0  # earlier ones of the series that are kept
    days: int = 0  # on which they were measured


class Comparison(Record, frozen=True, kw_only=True):
    """One case on two sides. `ratio` > 1: b is better, whichever way the metric points."""

    case: Case
    a: Summary
    b: Summary
    ratio: float | None = None  # an estimate of its own, see docs/statistics.md: not the ratio of the two medians
    low: float | None = None  # 95 % interval of the ratio
    high: float | None = None
    p: float | None = None  # two-sided, of a ratio of 1
    q: float | None = None  # the same after Benjamini and Hochberg, over the cases of one comparison
    min_effect: float | None = None  # smallest change to report, as a share
    mde: float | None = None  # smallest change that these replicates find with 80 % power
    replicates: str = ""  # what was compared: runs, rounds of single runs, devices that both sides have, or devices of runs
    n_a: int = 0
    n_b: int = 0
    answer: Literal["faster", "slower", "same", "inconclusive", "not comparable"]
    reason: str = ""
    forced: str = ""  # why the sides are not of one kind, where they were compared all the same
    notices: list[Notice] = []  # about the ratio
    allowance: Allowance | None = None  # None: measured in turns, or at the same time
    tail: float | None = None  # the same ratio of 95 % quantiles of the slow side, with its interval; None below 20 samples a round
    tail_low: float | None = None
    tail_high: float | None = None
    noise: str = ""  # where most of it lies: between_runs, between_rounds, within_rounds; what to repeat to see smaller changes
    environment_suspects: list[str] = []  # names of differences between the environments that could explain it
    metric: str = ""
    unit: str = ""
    better: Literal["higher", "lower"] | None = None  # None where neither side has a number
    devices: list[OnDevice] = []  # where both sides have the same ones, the worst first; empty for a single one

    @property
    def mde_of_answer(self) -> float | None:
        """Minimum detectable effect: the smallest change that is called with 80 % power, its interval beyond `min_effect`; a share."""
        return None if self.mde is None else (1 + self.mde) * (1 + (self.min_effect or 0.0)) - 1

    @property
    def change(self) -> tuple[float | None, float | None, float | None]:
        """By what share the metric is larger in b than in a, with its interval: +0.26 of a time is 26 % longer."""
        ends = (self.ratio, self.low, self.high)
        if self.better == "lower":
            ends = tuple(1 / end if end else None for end in (self.ratio, self.high, self.low))  # type: ignore[assignment]
        ratio, low, high = (None if end is None else end - 1 for end in ends)
        return ratio, low, high


class Change(Record, frozen=True, kw_only=True):
    """A change of level in a series over time."""

    index: int  # first point after it
    before: float  # median level
    after: float
    ratio: float  # after ÷ before; NaN where a level is not above zero
    low: float  # 95 % interval of the ratio
    high: float
    p: float
    provisional: bool = False  # seen in the last points alone: measure again before believing it
    kind: Literal["step", "drift"] = "step"
    time: float | None = None  # of the first point after it, where times were given


class Excursion(Record, frozen=True, kw_only=True):
    """Neighbours in a series that lie apart from the rest of their level, too few to be tested as a change; no change is counted."""

    index: int  # the first of them
    end: int  # first point after them
    rest: float  # median of the rest of their level
    level: float  # median of theirs
    ratio: float  # level ÷ rest; NaN where one is not above zero
    last: bool = False  # they are the last points of the series: measure again


class Reference(Record, frozen=True, kw_only=True):
    """What a baseline knows of one case on one device: the rounds of each run it was learnt from."""

    case: Case
    device: str  # Device.key
    serial: str = ""
    model: str = ""  # slug of the machine table, else the device's name
    target: str = ""
    host: str = ""
    machine_class: MachineClass | None = None  # None: saved by 0.1
    metric: str = ""
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    timing: str = ""  # as in Result; absent in baselines of 0.2 and before, which knew one way for a case
    runs: dict[str, list[float]] = {}  # RunRecord.id → value of each round

    @property
    def identity(self) -> str:
        """Which very device: its key, with the host where the key is but a place and a name."""
        return identity(self.device, self.target, self.host)


def identity(device: str, target: str, host: str) -> str:
    """Which very device a Device.key means on a host: a UUID is unique, `target:index:name` only with the host."""
    return f"{host} {device}" if device.startswith(f"{target}:") else device


class Baseline(Record, frozen=True, kw_only=True):
    """What is normal, learnt from runs with their own spread; never typed by hand."""

    schema: int = SCHEMA
    name: str
    saved: str  # UTC, ISO 8601
    hotlap: str
    references: list[Reference] = []


class Row(Record, frozen=True, kw_only=True):
    """One line of the table of results: all that a reader needs, nothing left to compute."""

    case: Case
    device: str
    label: str  # the case in words: stream triad fp32 1 GiB
    result: Result
    summary: Summary
    gap: Gap
    verdict: Verdict


class Judgement(Record, frozen=True, kw_only=True):
    """One verdict for a run, and the rows it was reached from."""
    run: str  # RunRecord.id
    state: State
    reason: str
    against: str
    inconclusive_as: str = ""  # "pass" or "fail" where the user asked for it; the state is then what it was read as
    missing: dict[str, str] = {}  # who was asked for a result and has none → why
    rows: list[Row] = []

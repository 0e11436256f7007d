"""All that Hotlap says of one trace, as one frozen record: what `--json` prints and the page and Markdown are made of."""

from __future__ import annotations

import numpy as np

from hotlap.core.record import Finding, Notice, Record
from hotlap.core.show import words
from hotlap.traces import mainthread, memory, naming, operators, roofline
from hotlap.traces.advice.base import rules
from hotlap.traces.advice.marks import AdviceMarks
from hotlap.traces.advice.trace import Advice
from hotlap.traces.breakdown import Breakdown
from hotlap.traces.events import KINDS, FieldDoubt
from hotlap.traces.idle import LongGap
from hotlap.traces.operators import OperatorTime
from hotlap.traces.replay_check import ReplayCheck
from hotlap.traces.steps import of_times
from hotlap.traces.study import Study

SCHEMA = 2  # 2026-11: the first; 2: notices are codes
MANUAL = "docs/findings.md"
NAMED = 5  # places of a finding that are named: the longest


class FindingPlace(Record, frozen=True, kw_only=True):
    """A stretch of the trace in which a finding lies."""

    start_s: float  # since the first event of the trace
    duration_s: float
    what: str = ""  # name of the event; "" a stretch without one
    kind: str = ""  # of the event: kernel, copy, operator, runtime …
    thread: str = ""
    device: int | None = None
    stream: int | None = None
    step: int | None = None


class Advised(Record, frozen=True, kw_only=True):
    """A finding, and where it is."""

    finding: Finding
    manual: str = ""  # page and section that explain its remedy
    source: str = ""  # public document behind the rule
    places: int = 0
    longest: list[FindingPlace] = []


class Holder(Record, frozen=True, kw_only=True):
    """What an operator had allocated at the peak and not yet freed."""

    operator: str  # "" outside of any
    bytes: int
    allocations: int


class Kernel(Record, frozen=True, kw_only=True):
    """All calls of one kernel by one operator."""

    name: str
    short: str
    operator: str  # "" unknown
    calls: int
    total_s: float
    share: float  # of the busy time of kernels
    median_s: float


class Memory(Record, frozen=True, kw_only=True):
    """Memory of one device over the trace."""

    device: int  # −1: the host
    peak_bytes: int
    whole: bool  # totals are the profiler's own; else they count from the trace's beginning
    unused_share: float | None = None  # of what the allocator held at most
    growth_per_step_bytes: float | None = None
    holders: list[Holder] = []  # at the peak, most first


class OperatorLimit(Record, frozen=True, kw_only=True):
    """One operator with one shape against what the machine allows."""

    operator: str
    work: str
    calls: int
    median_s: float  # device time of a call
    total_s: float
    bound_s: float | None = None  # nothing can be faster
    expected_s: float | None = None
    headroom_s: float = 0.0  # of all calls, at the expected time
    reason: str = ""  # why there is no expectation


class Step(Record, frozen=True, kw_only=True):
    """One step, begin to begin."""

    number: int
    start_s: float  # since the first event of the trace
    length_s: float
    slow: bool = False  # far above the median


class Answer(Record, frozen=True, kw_only=True):
    """Everything said of one trace. Shares are of the window that stands beside them."""

    schema: int = SCHEMA
    file: str
    reader: str
    events: int
    rank: int | None = None
    ranks: int | None = None
    devices: list[str] = []  # names, as the profiler gives them
    window: str  # how it is defined
    window_s: float
    notices: list[Notice] = []
    doubts: list[FieldDoubt] = []  # fields that some events were read without, and whether it matters
    replay: ReplayCheck | None = None  # of gains; None where nothing can be replayed
    breakdown: list[Breakdown] = []  # per device; empty where nothing ran on one: shares are not applicable
    total: Breakdown | None = None  # all devices
    idle: dict[str, float] = {}  # by cause, shares of the devices' windows
    long_gaps: list[LongGap] = []  # single gaps that make up much of a device's idle time
    main_thread: dict[str, float] = {}  # shares of the window, where the host tells more than a device: operators, data_loader, outside
    outside: dict[str, float] = {}  # of the last of these by marker or function of the user, the greatest
    steps: list[Step] = []
    kernels: list[Kernel] = []  # by the time they took
    operators: list[OperatorTime] = []  # of a trace of the host alone, by the time they took themselves
    memory: list[Memory] = []  # empty where it was not recorded
    machine: str = ""  # of the machine table, that limits are for; "" not recognised
    limits: list[OperatorLimit] = []  # by device time; empty without shapes or without a machine
    findings: list[Advised] = []  # by gain
    hidden: int = 0  # findings below the least gain
    together: float | None = None  # share of the window that all fixes together would save, at most


class Unused(Record, frozen=True, kw_only=True):
    """A file that was named, or is in a folder that was, and is no trace."""

    file: str
    why: str


class Answers(Record, frozen=True, kw_only=True):
    """What `hotlap trace --json` prints."""

    traces: list[Answer]
    unusable: list[Unused] = []  # empty for one file


def answer(study: Study, advice: Advice) -> Answer:
    """What is said of one trace."""
    head, events = study.events.head, study.events
    rows = [study.breakdown(device) for device in study.devices]
    places = [*advice.marks] if len(advice.marks) == len(advice.findings) else [None] * len(advice.findings)
    host = mainthread.blocked(study)
    return Answer(
        file=events.path,
        reader=head.reader,
        events=len(events),
        rank=head.rank,
        ranks=head.ranks,
        devices=[str(one["name"]) for one in head.devices if one.get("name")],
        window=study.window_words,
        window_s=study.window_s,
        notices=study.notices,
        doubts=head.doubts,
        replay=study.check,
        breakdown=rows,
        total=study.breakdown() if rows else None,
        idle=study.idle_shares if rows else {},
        long_gaps=study.long_gaps,
        main_thread=mainthread.shares(study) if host else {},
        outside=mainthread.outside_by_name(study) if host else {},
        steps=steps(study),
        kernels=kernels(study),
        operators=[] if rows else operators.operators(study),
        memory=[_memory(one) for one in memory.of(events)],
        machine=roofline.machine(study) if study.devices else "",
        limits=limits(study),
        findings=[_advised(study, one, where) for one, where in zip(advice.findings, places, strict=True)],
        hidden=advice.hidden,
        together=advice.together,
    )


def kernels(study: Study) -> list[Kernel]:
    """By time, the longest first."""
    rows = study.kernels()
    names = naming.labels(row.name for row in rows)
    return [Kernel(short=names[row.name], **row._asdict()) for row in rows]


def _memory(usage: memory.MemoryUsage) -> Memory:
    return Memory(
        device=usage.device, peak_bytes=usage.peak, whole=usage.whole, unused_share=usage.unused,
        growth_per_step_bytes=usage.growth_per_step,
        holders=[Holder(operator=h.operator, bytes=h.bytes, allocations=h.allocations) for h in usage.holders],
    )  # fmt: skip


def limits(study: Study) -> list[OperatorLimit]:
    """Operators with shapes that the model knows, those that take most time first; none where the machine is not known."""
    if not study.devices or not roofline.machine(study):
        return []
    return [
        OperatorLimit(
            operator=row.operator, work=row.work.label, calls=row.calls, median_s=row.median_s, total_s=row.total_s, bound_s=row.bound_s,
            expected_s=row.expected_s, headroom_s=row.headroom_s, reason=row.reason,
        )
        for row in roofline.rows(study)
    ]


def steps(study: Study) -> list[Step]:
    """All steps, by start."""
    found = study.steps
    slow = set(found.slow.tolist())
    return [
        Step(number=number, start_s=start / 1e9, length_s=length / 1e9, slow=place in slow)
        for place, (number, start, length) in enumerate(
            zip(found.number.tolist(), found.start.tolist(), found.lengths.tolist(), strict=True)
        )
    ]


def device_names(answer: Answer) -> str:
    """Names of the devices in a few words: each once, with how many there are."""
    names = answer.devices
    return f"{len(names)} × {names[0]}" if len(set(names)) == 1 and len(names) > 1 else ", ".join(dict.fromkeys(names))


def about(answer: Answer) -> list[str]:
    """What the file is, in a few words each."""
    said = [
        f"{answer.events:,} events by {answer.reader}", device_names(answer),
        f"rank {answer.rank}" + (f" of {answer.ranks}" if answer.ranks else "") if answer.rank is not None else "",
    ]  # fmt: skip
    return [words.clean(one) for one in said if one]


def _advised(study: Study, finding: Finding, where: AdviceMarks | None) -> Advised:
    rule = rules().get(finding.rule)
    manual = f"{MANUAL}#{finding.rule}" if finding.rule else ""
    source = rule.source if rule else ""
    if where is None or not len(where):
        return Advised(finding=finding, manual=manual, source=source)
    longest = np.argsort(where.start - where.end, kind="stable")[:NAMED]
    places = [_place(study, where, int(i)) for i in longest]
    return Advised(finding=finding, manual=manual, source=source, places=len(where), longest=places)


def _place(study: Study, where: AdviceMarks, i: int) -> FindingPlace:
    events, place, start = study.events, int(where.place[i]), int(where.start[i])
    thread, device, stream = int(where.thread[i]), int(where.device[i]), int(where.stream[i])
    step = int(of_times(study.steps, np.array([start]))[0])
    whose = events.threads[thread] if thread >= 0 else None
    return FindingPlace(
        start_s=start / 1e9,
        duration_s=(int(where.end[i]) - start) / 1e9,
        what=events.names[int(events.name[place])] if place >= 0 else "",
        kind=KINDS[int(events.kind[place])] if place >= 0 else "",
        thread=(whose.name or f"{whose.process} {whose.thread}") if whose else "",
        device=device if device >= 0 else None,
        stream=stream if stream >= 0 else None,
        step=int(study.steps.number[step]) if step >= 0 else None,
    )

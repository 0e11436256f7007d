"""What steps took: per arm with an interval over processes, the loader's stall, what compilation costs, shares of the dense limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from hotlap.core.record import Notice, Record
from hotlap.core.stats import order
from hotlap.core.stats.ratio import FEWEST, NORMAL, POWER, Ratio, ratio, verdict
from hotlap.core.stats.student import quantile
from hotlap.core.stats.summary import summarize
from hotlap.core.units import percent
from hotlap.training import expected_gap, joules
from hotlap.training.efficiency import LimitShare, shares
from hotlap.training.expected_gap import ExpectedGap
from hotlap.training.expected_record import ExpectedStep
from hotlap.training.reading import MeasuredProcess, TrainingRun
from hotlap.training.record import TrainingEvent, column
from hotlap.training.steady import FEW, LEVEL, behind_own

INNER = 0.9  # confidence of the interval by which two arms are the same
SAME = 2  # two arms are the same where they surely differ by less than so many times the smallest difference reported
LAST = 0.1  # share of steps, at most, that have an epoch's last batch
AHEAD = 0.05  # share of a step that passes before the model is called, from which it is no forward pass
DELAYED = 0.1  # share of the time that a process waited for a processor, from which its numbers are doubted
BEFELL = {"recompile": "recompiled", "compile": "compiled", "capture": "captured a graph", "allocator": "the allocator tried again"}


class ProcessEstimate(Record, frozen=True, kw_only=True):
    """A median over processes with its 95 % interval, None where there are too few of them."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    confidence: float | None = None


class ArmFigures(Record, frozen=True, kw_only=True):
    """One of the things compared, or the only one. All per process, then over processes."""

    name: str
    processes: int
    steps: int  # steady ones, all processes
    warm: int  # steps before them, the most of any process
    every_step: int = 0  # steps after the first of each process, all processes
    undisturbed: int | None = None  # steady steps that the figures are of, where those that waited for a processor are left out
    step_s: ProcessEstimate | None = None
    mean_s: float | None = None  # with every interruption
    tokens_s: ProcessEstimate | None = None  # per second
    samples_s: ProcessEstimate | None = None
    parts_s: dict[str, float] = {}  # of the step: with `unexplained` they sum to step_s; as `record.PARTS`, or as `_forward` names them
    first_s: dict[str, float] = {}  # from the start of Python to the end of the first step; cold, warm
    compile_s: dict[str, float] = {}  # cold, warm
    rss_bytes: int | None = None
    allocated_bytes: int | None = None
    run_delay: float | None = None  # share of the time that its thread waited for a processor
    behind_own: bool = False  # … for one that threads of the same program used
    has_helpers: bool = False  # workers of loaders, or other ranks: whether it waited for these or for other programs is not known
    joules_token: float | None = None
    inside: list[TrainingEvent] = []  # events within windows


class LoaderStall(Record, frozen=True, kw_only=True):
    """What the loader costs a step: with it, less with its first batch again and again, in turns."""

    known: bool
    why: str = ""  # not known: no_loader, one_arm, batches_differ, busy
    hidden: bool = False  # known, and not above the noise: not above 0, or its interval holds 0
    loader: str = ""
    stall_s: ProcessEstimate | None = None
    waited_s: float | None = None  # in next(), with the loader as it is
    share: float | None = None  # of the step


class BreakEven(Record, frozen=True, kw_only=True):
    """Steps after which a mode has paid for its compilation; `steps` None: never, for it is not faster, or where `sure` is false not
    known, for the gain has no interval or one that holds 0."""

    mode: str
    compile_s: float
    gain_s: float  # of a step
    gain_low_s: float | None = None
    gain_high_s: float | None = None
    sure: bool = True
    steps: float | None = None
    low: float | None = None
    high: float | None = None  # None beside a `low`: perhaps never


class ArmComparison(Record, frozen=True, kw_only=True):
    """The second arm's step against the first's."""

    first: str
    second: str
    answer: str  # larger, smaller, same, inconclusive
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    mde: float | None = None


class TrainingSummary(Record, frozen=True, kw_only=True):
    state: str  # measured, inconclusive, invalid, nothing
    arms: list[ArmFigures] = []
    stall: LoaderStall | None = None
    comparisons: list[ArmComparison] = []
    break_even: list[BreakEven] = []
    shares: list[LimitShare] = []
    no_share: str = ""  # why there are none
    expected: ExpectedStep | None = None  # of the first arm, by the model
    gap: ExpectedGap | None = None  # of its measured step to that
    notices: list[Notice] = []


def of(run: TrainingRun) -> TrainingSummary:
    arms = [arm for name in run.trained.arms if (arm := arm_of(run, name)) is not None]
    measured = [arm for arm in arms if arm.step_s]
    expected = run.trained.expected[0] if run.trained.expected else None
    efficiencies, why = shares(run, measured[0].step_s.value if measured and measured[0].step_s else None)
    notices = _notices(run, arms)
    doubtful = {"recompiled", "few_steps", "step_level_changed", "loss_not_finite", "starved"}
    state = "nothing" if not measured else "measured"
    alone = bool(measured) and measured[0].step_s is not None and measured[0].step_s.low is None
    if measured and (alone or any(notice.code in doubtful for notice in notices)):
        state = "inconclusive"
    if any(share.state == "invalid" for share in efficiencies):
        state = "invalid"
    return TrainingSummary(
        state=state, arms=arms, stall=_stall(run, measured), comparisons=_comparisons(run, measured), break_even=_break_even(run, measured),
        shares=efficiencies, no_share=why, notices=notices, expected=expected, gap=gap_of(measured[0], expected) if measured else None,
    )  # fmt: skip


def gap_of(arm: ArmFigures, expected: ExpectedStep | None) -> ExpectedGap | None:
    """None where nothing is expected of an arm, or nothing was measured."""
    if expected is None or arm.step_s is None:
        return None
    return expected_gap.of(expected, arm.step_s.value, arm.step_s.low, arm.step_s.high, arm.parts_s)


# ---------------------------------------------------------------- arms


def launches(run: TrainingRun, arm: str) -> list[list[MeasuredProcess]]:
    return [launch for launch in run.launches if launch[0].process.arm == arm]


def arm_of(run: TrainingRun, name: str) -> ArmFigures | None:
    mine = launches(run, name)
    if not mine:
        return None
    leads = [launch[0] for launch in mine]
    good = [one for one in leads if one.steady.step_s is not None]
    step_s = estimate([one.steady.step_s for one in good if one.steady.step_s])
    rss = [one.process.rss_bytes for launch in mine for one in launch if one.process.rss_bytes]
    allocated = [one.process.allocated_bytes for launch in mine for one in launch if one.process.allocated_bytes]
    return ArmFigures(
        name=name, processes=len(mine), steps=sum(one.steady.steps for one in leads),
        warm=max((one.steady.first - 1 for one in good), default=0), every_step=sum(max(len(one.table) - 1, 0) for one in leads),
        step_s=step_s, undisturbed=used if (used := sum(one.steady.used for one in good)) < sum(one.steady.steps for one in good) else None,
        mean_s=float(np.mean([one.steady.mean_s for one in good if one.steady.mean_s])) if good else None,
        tokens_s=estimate([rate for launch in mine if (rate := _rate(launch, "tokens")) is not None]),
        samples_s=estimate([rate for launch in mine if (rate := _rate(launch, "samples")) is not None]),
        parts_s=_forward(_parts(good, step_s), run.before_forward(name)), first_s=_by_cache(leads, lambda one: one.process.first_s),
        compile_s=_by_cache(leads, lambda one: one.steady.compile_s), rss_bytes=max(rss, default=None),
        allocated_bytes=max(allocated, default=None), run_delay=_delay(leads), behind_own=behind_own([one.process for one in leads]),
        has_helpers=any(one.process.workers or one.process.world > 1 for one in leads),
        inside=[event for one in leads for event in one.steady.inside], joules_token=joules.per_token(run.bundle, mine),
    )  # fmt: skip


def _rate(launch: Sequence[MeasuredProcess], what: str) -> float | None:
    """Units of all ranks together over the leading one's step; None where a rank does not say."""
    ranks = launch if launch[0].process.world > 1 else launch[:1]
    each = [getattr(one.steady, what) for one in ranks]
    step_s = launch[0].steady.step_s
    return None if step_s is None or any(one is None for one in each) else sum(each) / step_s


def _parts(good: Sequence[MeasuredProcess], step_s: ProcessEstimate | None) -> dict[str, float]:
    """The step's own, as processes share it on average."""
    names = list(dict.fromkeys(name for one in good for name in one.steady.parts_s))
    means = {name: float(np.mean([one.steady.parts_s.get(name, 0.0) for one in good])) for name in names}
    total = sum(means.values())
    return {name: mean / total * step_s.value for name, mean in means.items()} if step_s is not None and total > 0 else means


def _forward(parts_s: dict[str, float], ahead: float | None) -> dict[str, float]:
    """The time until `backward()` in two, where a share of it that counts passes before the model is called; and by the name that it has
    where nothing says when that is: no batch, and no call."""
    if "forward" not in parts_s:
        return parts_s
    until_s, apart = parts_s["forward"], dict[str, float]()
    if ahead is None and "data_wait" not in parts_s:
        apart = {"until_backward": until_s}
    elif ahead is not None and ahead * until_s >= AHEAD * sum(parts_s.values()):
        apart = {"before_forward": ahead * until_s, "forward": (1 - ahead) * until_s}
    else:
        return parts_s
    return {key: seconds for name, value in parts_s.items() for key, seconds in (apart if name == "forward" else {name: value}).items()}


def _by_cache(leads: Sequence[MeasuredProcess], of: Callable[[MeasuredProcess], float]) -> dict[str, float]:
    by_cache: dict[str, float] = {}
    for cache in ("cold", "warm"):
        values = [value for one in leads if one.process.cache == cache and (value := of(one)) > 0]
        if values:
            by_cache[cache] = float(np.median(values))
    return by_cache


def _delay(leads: Sequence[MeasuredProcess]) -> float | None:
    spent = [(one.process.run_delay_s, float(np.nansum(column(one.table, "time")[1:]))) for one in leads if len(one.table) > 1]
    known = [(delay, wall) for delay, wall in spent if delay is not None and wall > 0]
    return sum(delay for delay, _ in known) / sum(wall for _, wall in known) if known else None


def estimate(values: Sequence[float]) -> ProcessEstimate | None:
    if not values:
        return None
    made = summarize(values)
    assert made.median is not None
    return ProcessEstimate(value=made.median, low=made.low, high=made.high, n=len(values), confidence=made.confidence)


# ---------------------------------------------------------------- the loader, two arms, compilation


def pairs(run: TrainingRun, first: str, second: str) -> list[tuple[MeasuredProcess, MeasuredProcess]]:
    """Neighbours in turns."""
    return [
        (a[0], b[0]) for a, b in zip(launches(run, first), launches(run, second), strict=False) if a[0].steady.step_s and b[0].steady.step_s
    ]


def difference(pairs: Sequence[tuple[float, float]]) -> ProcessEstimate | None:
    """Of first less second, over pairs."""
    return centre([a - b for a, b in pairs])


def centre(apart: Sequence[float]) -> ProcessEstimate | None:
    """The median with its 95 % interval by order statistics from 6 values; from 4 the mean by Student's t; of fewer none."""
    if not apart:
        return None
    middle = float(np.median(apart))
    if (ends := order.interval(apart)) is not None and len(apart) >= 6:
        return ProcessEstimate(value=middle, low=ends[0], high=ends[1], n=len(apart), confidence=ends[2])
    if len(apart) < FEWEST:
        return ProcessEstimate(value=middle, n=len(apart))
    mean, reach = float(np.mean(apart)), float(np.std(apart, ddof=1)) / math.sqrt(len(apart)) * quantile(0.975, len(apart) - 1)
    return ProcessEstimate(value=mean, low=mean - reach, high=mean + reach, n=len(apart), confidence=0.95)


def _stall(run: TrainingRun, arms: Sequence[ArmFigures]) -> LoaderStall | None:
    if not arms or arms[0].name not in ("real", "frozen"):
        return None
    loader = next((name for launch in run.launches for name in launch[0].process.loaders), "")
    real = next((arm for arm in arms if arm.name == "real"), None)
    waited = real.parts_s.get("data_wait") if real else None
    if not loader:
        return LoaderStall(known=False, why="no_loader")
    both = pairs(run, "real", "frozen")
    apart = difference([(a.steady.step_s or 0.0, b.steady.step_s or 0.0) for a, b in both])
    if apart is None:
        return LoaderStall(known=False, why="one_arm", loader=loader, waited_s=waited)
    if _uneven(run):
        return LoaderStall(known=False, why="batches_differ", loader=loader, stall_s=apart, waited_s=waited)
    frozen = next((arm for arm in arms if arm.name == "frozen"), None)
    if frozen is not None and frozen.undisturbed is None and not frozen.behind_own and (frozen.run_delay or 0.0) >= DELAYED:
        return LoaderStall(known=False, why="busy", loader=loader, stall_s=apart, waited_s=waited)
    if apart.value <= 0 or (apart.low is not None and apart.low <= 0):
        return LoaderStall(known=True, hidden=True, loader=loader, stall_s=apart, waited_s=waited)
    step = real.step_s.value if real and real.step_s else None
    return LoaderStall(known=True, loader=loader, stall_s=apart, waited_s=waited, share=apart.value / step if step else None)


def _uneven(run: TrainingRun) -> bool:
    """Whether steps differ by their batches, beyond an epoch's last one, which is smaller: a first batch does not stand for them."""
    shapes = _shapes(run)
    if len(shapes) < 2:
        return False
    samples = column(next(launch[0] for launch in run.launches if launch[0].process.shapes == shapes).table, "samples")
    others = float(np.mean(samples != np.median(samples)))
    return len(shapes) > 2 or not 0 < others <= LAST


def _comparisons(run: TrainingRun, arms: Sequence[ArmFigures]) -> list[ArmComparison]:
    if len(arms) < 2 or arms[0].name in ("real", "frozen"):
        return []
    least = run.trained.asked.min_effect
    return [compared(pairs(run, arms[0].name, other.name), arms[0].name, other.name, least) for other in arms[1:]]


def compared(both: Sequence[tuple[MeasuredProcess, MeasuredProcess]], first: str, second: str, min_effect: float) -> ArmComparison:
    """`larger` or `smaller` where the whole interval is beyond `min_effect`, `same` where all of the 90 % interval is within twice that."""
    values = [(a.steady.step_s, b.steady.step_s) for a, b in both if a.steady.step_s and b.steady.step_s]
    if not values:
        return ArmComparison(first=first, second=second, answer="inconclusive")
    r: Ratio = ratio([a for a, _ in values], [b for _, b in values], paired=True)
    if ends := order.interval(apart := [math.log(b / a) for a, b in values]):
        r = _of_median(r, apart, ends)
    answer = verdict(r, margin=min_effect)
    if answer == "inconclusive" and verdict(r, margin=SAME * min_effect) == "same":
        answer = "same"
    return ArmComparison(first=first, second=second, answer=answer, ratio=r.ratio, low=r.low, high=r.high, mde=r.mde)


def _of_median(r: Ratio, apart: Sequence[float], ends: tuple[float, float, float]) -> Ratio:
    """The median of pairs with its intervals by order statistics. A process may take a fifth longer from its first step to its last, as
    its memory happens to lie; such a one in twelve moves this interval by one place, whatever it took. `ends`: the interval, and what it
    attains."""
    inner = order.interval(apart, INNER)
    assert inner is not None  # needs fewer values than the other
    above = sum(one > 0 for one in apart)
    low, high, low_90, high_90 = (math.exp(one) for one in (*ends[:2], *inner[:2]))
    known = replace(r, ratio=math.exp(float(np.median(apart))), low=low, high=high, low_90=low_90, high_90=high_90, confidence=ends[2])
    seen = math.expm1((ends[1] - ends[0]) / 2 * (1 + NORMAL.inv_cdf(POWER) / NORMAL.inv_cdf(0.975)))
    return replace(known, mde=seen, p=_by_signs(max(above, len(apart) - above), len(apart)), method="order statistics of pairs")


def _by_signs(most: int, count: int) -> float:
    """The chance that so many of `count` pairs or more differ one way, where both ways are as likely."""
    return min(2 * sum(math.comb(count, one) for one in range(most, count + 1)) / 2.0**count, 1.0)


def _break_even(run: TrainingRun, arms: Sequence[ArmFigures]) -> list[BreakEven]:
    """Against the arm that compiles nothing: compile time ÷ what a step gains."""
    if not any(arm.name == "off" for arm in arms):
        return []
    paid = []
    for arm in arms:
        cost = arm.compile_s.get("cold")
        gain = difference([(a.steady.step_s or 0.0, b.steady.step_s or 0.0) for a, b in pairs(run, "off", arm.name)])
        if arm.name == "off" or cost is None or gain is None:
            continue
        if gain.low is not None and gain.high is not None and gain.low > 0:
            steps, low, high = cost / gain.value, cost / gain.high, cost / gain.low
            one = BreakEven(mode=arm.name, compile_s=cost, gain_s=gain.value, steps=steps, low=low, high=high)
        else:
            never = gain.high is not None and gain.high <= 0
            one = BreakEven(mode=arm.name, compile_s=cost, gain_s=gain.value, sure=never)
        paid.append(replace(one, gain_low_s=gain.low, gain_high_s=gain.high))
    return paid


# ---------------------------------------------------------------- doubts


def _notices(run: TrainingRun, arms: Sequence[ArmFigures]) -> list[Notice]:
    return [*_ended(run), *_steps(run), *doubts(run, arms)]


def doubts(run: TrainingRun, arms: Sequence[ArmFigures]) -> list[Notice]:
    """Of what was measured, however it ended."""
    return [*_events(arms), *_levels(run, arms), *_batches(run), *_busy(arms), *run.trained.notices]


def _ended(run: TrainingRun) -> list[Notice]:
    """Programs that did not do what was asked."""
    asked, notices = run.trained.asked, list[Notice]()
    for launch in run.launches:
        process = launch[0].process
        who = f"process {process.number + 1}"
        if process.error.type == "EOFError":
            seen = f"{who} asked for input at {process.error.where or 'a prompt'}, and there is none: standard input is empty"
            notices.append(Notice("prompted", seen, "give its answers as arguments, after --"))
        elif process.error.type and process.error.type != "KeyboardInterrupt":
            where = f"{process.error.where}: " if process.error.where else ""
            seen = f"{who} failed after {_steps_said(process.steps)}: {where}{process.error.type}: {process.error.message}"
            notices.append(Notice("program_failed", seen, f"its output is in output-{process.number}.txt of the run"))
        elif process.ended == "time":
            seen = f"{who} was ended after its time, {asked.limit_s:g} s"
            notices.append(Notice("program_late", seen, "give --limit more, or --steps fewer"))
        elif process.exit_code and process.ended != "interrupted":
            seen = f"{who} ended with {process.exit_code} after {_steps_said(process.steps)}"
            notices.append(Notice("program_failed", seen, f"its output is in output-{process.number}.txt of the run"))
        elif asked.steps and 0 < process.steps < asked.steps and process.ended != "interrupted":
            seen = f"{who} ended by itself after {process.steps} of {asked.steps} steps"
            notices.append(Notice("ended_early", seen, "let it run longer, or ask for --steps all"))
        if notices:
            break  # the others say the same
    return notices


def _steps_said(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"


def _steps(run: TrainingRun) -> list[Notice]:
    """Whether steps were made, and by how many processes."""
    leads = [launch[0] for launch in run.launches]
    if leads and not any(one.process.steps for one in leads) and not any(one.process.error.type for one in leads):
        seen = "no step was made: no optimiser's step() after a backward(), and no t.step()"
        return [Notice("no_steps", seen, "mark the end of each step: with hotlap.steps() as t: … t.step()")]
    notices = []
    few = [one for one in leads if one.process.steps and one.steady.steps < FEW]
    if few:
        who = f"{len(few)} of {len(leads)} processes" if len(leads) > 1 else "its process"
        seen = f"{who} {'has' if len(few) == 1 else 'have'} fewer than {FEW} steady steps"
        failed = any(one.process.error.type or one.process.exit_code for one in few)
        notices.append(Notice("few_steps", seen, "" if failed else "let them make more: --steps"))
    several = [launch for launch in run.launches if len(launch) > 1 and launch[0].process.world == 1]
    if several:
        seen = f"{len(several[0])} processes of the program made steps and are no ranks of each other: the one with most is shown"
        notices.append(Notice("several_stepped", seen, "name ranks by torch.distributed, or --ranks"))
    return notices


def _events(arms: Sequence[ArmFigures]) -> list[Notice]:
    notices = []
    for arm in arms:
        inside = [one for one in arm.inside if one.kind == "recompile"] or arm.inside
        if inside:
            event = inside[0]
            guard = f", {event.detail}" if event.detail else ""
            more = f" ({len(inside)} times in all)" if len(inside) > 1 else ""
            seen = f"{arm.name}: {BEFELL.get(event.kind, event.kind)} at step {event.step}{guard}{more}"
            action = "give it inputs of one shape, or mark what changes as dynamic" if event.kind == "recompile" else ""
            notices.append(Notice("recompiled", seen, action))
    return notices


def _levels(run: TrainingRun, arms: Sequence[ArmFigures]) -> list[Notice]:
    """The first; with a loader's first batch one that is not small beside the step that the loader costs."""
    first = next((arm.step_s.value for arm in arms if arm.step_s), 0.0)
    for launch in run.launches:
        for level in launch[0].steady.levels:
            process, moved_s = launch[0].process, abs(level.after_s - level.before_s)
            if process.data == "frozen" and moved_s < LEVEL * first:
                continue
            arm = f" ({process.arm})" if process.arm else ""
            took = f"{level.after_s * 1e3:.3g} ms in place of {level.before_s * 1e3:.3g} ms"
            seen = f"process {process.number + 1}{arm}: from step {level.step} on a step took {took}"
            return [Notice("step_level_changed", seen, "look what changed there, or measure on a quiet machine")]
    return []


def _batches(run: TrainingRun) -> list[Notice]:
    """Losses that are no numbers, and batches of several shapes."""
    notices = []
    bad = next((event for launch in run.launches for event in launch[0].process.events if event.kind == "loss"), None)
    if bad is not None:
        seen = f"the loss is {bad.detail} from step {bad.step} on: the time stands, and nothing is learnt"
        notices.append(Notice("loss_not_finite", seen, "lower the learning rate, or look for what divides by zero"))
    if len(shapes := _shapes(run)) > 1:
        more = ", …" if len(shapes) > 2 else ""
        seen = f"batches have {len(shapes)} shapes ({', '.join(shapes[:2])}{more}): steps differ, and a frozen batch is the first of them"
        notices.append(Notice("batches_differ", seen, "rates are of what was really in them"))
    return [*notices, *_idle(run)]


def _shapes(run: TrainingRun) -> list[str]:
    """Of the batches of the first process that had several, or of any."""
    return max((launch[0].process.shapes for launch in run.launches), key=lambda shapes: len(shapes) > 1, default=[])


def _idle(run: TrainingRun) -> list[Notice]:
    """Ranks that have nothing to do."""
    for what in ("tokens", "samples"):
        for launch in run.launches:
            each = [getattr(one.steady, what) for one in launch] if launch[0].process.world > 1 else []
            idle = [one.process.rank for one, count in zip(launch, each, strict=False) if count == 0]
            if idle:
                total = sum(count or 0 for count in each)
                seen = f"rank {idle[0]} has no {what}: a step has {total:g} on {len(each)} ranks"
                return [Notice("idle_rank", seen, "give a step more, or start fewer ranks")]
    return []


def _busy(arms: Sequence[ArmFigures]) -> list[Notice]:
    foreign = [arm for arm in arms if not arm.behind_own]
    if max((arm.run_delay or 0.0 for arm in foreign), default=0.0) < DELAYED:
        return []
    each = ", ".join(f"{arm.name} {percent(arm.run_delay)}" for arm in foreign if arm.run_delay is not None)
    seen = f"the program waited for a processor ({each} of the time)"
    why, then = "the machine is busy", "stop other programs and measure again: on a quiet machine a step is shorter"
    if any(arm.has_helpers for arm in foreign if (arm.run_delay or 0.0) >= DELAYED):
        why = "its own workers or ranks use the processors as well, and other programs may"
        then = "give it fewer workers or more processors; where other programs run, stop them and measure again"
    return [Notice("starved", f"{seen}: {why}", then)]

"""What a run of training prints, on one screen."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column, Table, harmless
from hotlap.training import expected_gap
from hotlap.training.reading import TrainingRun
from hotlap.training.steady import DELAYED
from hotlap.training.summary import ArmFigures, LoaderStall, ProcessEstimate, TrainingSummary

PARTS = {
    "data_wait": "data wait", "transfer": "transfer", "before_forward": "before forward",
    "until_backward": "to backward", "forward": "forward", "backward": "backward", "optimiser": "optimiser",
    "exposed_communication": "communication", "unexplained": "unexplained",
}  # fmt: skip
UNKNOWN_STALL = {
    "no_loader": "unknown: no PyTorch DataLoader was seen, nor t.loader(batches); wrap what gives the batches",
    "batches_differ": "unknown: batches differ in shape, so real − frozen{apart} is of their steps too",
    "one_arm": "unknown: only one of real and frozen was measured; give --data real,frozen",
    "busy": "unknown: the machine disturbed the steps with the frozen batch, too{apart}; stop other programs and measure again",
}
APART = 1.1  # mean ÷ step from which it is said that some steps took longer
STALLED = 0.05  # share of a step from which the answer names the loader
ELSEWHERE = 0.2  # … what passes in no part of PyTorch's
SHARES, WIDE = 8, 10_000


def lines(run: TrainingRun, summary: TrainingSummary, width: int, color: bool) -> list[str]:
    """All of it: what was asked, times, parts, the loader, compilation, shares of the limit, doubts, the answer."""
    text = [*layout.paragraph("", asked_text(run), width), ""]
    measured = [arm for arm in summary.arms if arm.step_s]
    if measured:
        text += [*layout.fitted(table(measured).columns, width).lines(color), ""]
    for line in facts(run, summary):
        head, _, rest = line.partition(" ")
        text += layout.paragraph(f"{head:<10}", rest, width)
    for notice in summary.notices:
        text += layout.paragraph("note      ", harmless(notice.text), width)
    return [*text, *layout.paragraph("answer    ", answer(summary), width)]


def asked_text(run: TrainingRun) -> str:
    """What was asked, and how many processes ran where it is fewer."""
    asked, ran = run.trained.asked, len(run.launches)
    arms = len({launch[0].process.arm for launch in run.launches})
    words = [asked.program, *asked.arguments, *(f"{name}={value}" for name, value in asked.parameters.items())]
    short = any(launch[0].process.steps < asked.steps for launch in run.launches)
    steps = f"{'up to ' if short else ''}{asked.steps} steps" if asked.steps else "all its steps"
    ranks = f" of {asked.ranks} ranks" if asked.ranks > 1 else ""
    stretches = " by stretches of steps" if any(launch[0].process.resumed for launch in run.launches) else ""
    against = f", in turns{stretches} with {asked.against}" if asked.against else ""
    processes = f"{asked.processes} fresh process{'' if asked.processes == 1 else 'es'}"
    fewer = f"; {ran} ran" if ran < asked.processes * max(arms, 1) else ""
    return harmless(f"{' '.join(words)}: {processes}{ranks} of {steps}{against}{fewer}")


def table(arms: Sequence[ArmFigures]) -> Table:
    """An arm a line: step with its interval, rates, parts, memory."""
    rates = [("tokens/s", "tokens_s"), ("samples/s", "samples_s")]
    columns = [
        Column("arm", [Cell(arm.name) for arm in arms]),
        Column("step", [Cell(_time(arm.step_s)) for arm in arms], right=True),
        *(
            Column(title, [Cell(_rate(getattr(arm, name))) for arm in arms], right=True)
            for title, name in rates if any(getattr(arm, name) for arm in arms)
        ),
        *(
            Column(PARTS[name], [Cell(_part(arm, name)) for arm in arms], right=True)
            for name in PARTS if any(name in arm.parts_s for arm in arms)
        ),
        Column("peak", [Cell(_memory(arm)) for arm in arms], right=True),
        Column("steady", [Cell(f"{arm.steps} of {arm.every_step}") for arm in arms], right=True),
    ]  # fmt: skip
    return Table(columns)


def _reduced(run: TrainingRun) -> list[str]:
    """How much of DDP's communication hides behind the backward pass, of the process in the middle."""
    leads = [launch[0].process for launch in run.launches]
    known = sorted(
        (one.reduced_exposed_s / one.reduced_s, one.reduced_s) for one in leads if one.reduced_s and one.reduced_exposed_s is not None
    )  # fmt: skip
    if not known:
        return []
    share, seconds = known[len(known) // 2]
    return [f"DDP reduces for {units.show(seconds, 's')} of a backward pass, of which {units.percent(share)} is exposed (communication)"]


def _time(estimate: ProcessEstimate | None) -> str:
    return "–" if estimate is None else f"{units.show(estimate.value, 's')}{interval(estimate)}"


def interval(estimate: ProcessEstimate) -> str:
    """With the blank before it; its confidence where it is under 95 %."""
    if estimate.low is None or estimate.high is None:
        return ""
    less = f" ({units.percent(estimate.confidence)})" if estimate.confidence is not None and estimate.confidence < 0.9375 else ""
    return f" [{units.show(estimate.low, 's')}, {units.show(estimate.high, 's')}]{less}"


def _rate(estimate: ProcessEstimate | None) -> str:
    return "–" if estimate is None else units.round_to(estimate.value)


def _part(arm: ArmFigures, name: str) -> str:
    seconds = arm.parts_s.get(name)
    return "–" if seconds is None else f"{units.show(seconds, 's', 2)}"


def _memory(arm: ArmFigures) -> str:
    if arm.allocated_bytes:
        return f"{units.size(float(arm.allocated_bytes))} allocated"
    return f"{arm.rss_bytes / 2**20:.0f} MiB" if arm.rss_bytes else "–"


def facts(run: TrainingRun, summary: TrainingSummary) -> list[str]:
    """A line each, its first word what it is about."""
    text = _parts_of(summary)
    if summary.expected is not None:
        text += expected_gap.facts(summary.expected, summary.gap)
    if summary.stall is not None:
        text.append(f"loader {stall_text(summary.stall)}")
    for one in summary.comparisons:
        text.append(f"compared {_compared(one.first, one.second, one.answer, one.ratio, one.low, one.high)}")
    text += _reduced(run)
    text += [f"compile {line}" for line in _compile(summary)]
    text += _first(summary)
    if summary.shares:
        shown = ", ".join(
            f"{share.name.upper()} {share.convention} {units.percent(share.share)}{_bad(share.state)}" for share in summary.shares[:SHARES]
        )
        text.append(f"limit {shown}; of {units.show(summary.shares[0].peak, 'FLOP/s')} dense: {summary.shares[0].source}")
    elif summary.no_share:
        text.append(f"limit MFU and HFU unknown: {summary.no_share}")
    joules = [f"{arm.name} {units.show(arm.joules_token, 'J')} per token" for arm in summary.arms if arm.joules_token is not None]
    if joules:
        text.append(f"energy {', '.join(joules)}")
    else:
        text.append("energy unknown: no sensor of power or energy on this device")
    return text


def _parts_of(summary: TrainingSummary) -> list[str]:
    """Which steps the figures are of, and where the mean of all steps is larger."""
    text = []
    measured = [arm for arm in summary.arms if arm.step_s]
    if left := [arm for arm in measured if arm.undisturbed is not None]:
        each = ", ".join(f"{arm.name} {arm.steps - (arm.undisturbed or 0)} of {arm.steps}" for arm in left)
        text.append(f"steps that waited for a processor are left out of the figures: {each}")
    if own := [arm for arm in measured if arm.behind_own and (arm.run_delay or 0.0) >= DELAYED]:
        each = ", ".join(f"{arm.name} {units.percent(arm.run_delay or 0.0)}" for arm in own)
        text.append(f"threads of the program itself kept its main thread from a processor: {each} of the time; fewer may be faster, as "
                    "by OMP_NUM_THREADS=1: measure both")
    if more := [arm for arm in measured if arm.step_s and arm.mean_s and arm.mean_s > APART * arm.step_s.value]:
        each = ", ".join(f"{arm.name} {units.show(arm.mean_s or 0.0, 's')}{_waiting(arm)}" for arm in more)
        text.append(f"mean of all steady steps, with long ones and waits for a processor: {each}")
    return text


def _waiting(arm: ArmFigures) -> str:
    return f" (waited for a processor {units.percent(arm.run_delay)} of the time)" if arm.run_delay and not arm.behind_own else ""


def _bad(state: str) -> str:
    return "" if state == "measured" else f" ({state}: above the limit)"


def stall_text(stall: LoaderStall) -> str:
    waited = f"; waited in next() {units.show(stall.waited_s, 's')}" if stall.waited_s is not None else ""
    if not stall.known or stall.stall_s is None:
        apart = f" ({_apart(stall.stall_s)})" if stall.stall_s is not None else ""
        return f"{UNKNOWN_STALL[stall.why].replace('{apart}', apart)}{waited}"
    if stall.hidden:
        return f"({stall.loader}): no stall can be seen above the noise ({_apart(stall.stall_s)}){waited}"
    share = f", {units.percent(stall.share)} of the step" if stall.share is not None and stall.share > 0 else ""
    about = "about " if stall.stall_s.low is None else ""
    return f"({stall.loader}) costs {about}{units.show(stall.stall_s.value, 's')} a step{share} ({_apart(stall.stall_s)}){waited}"


def _apart(apart: ProcessEstimate) -> str:
    few = ": too few for an interval" if apart.low is None else ""
    return f"real − frozen {units.show(apart.value, 's')}{interval(apart)} over {apart.n} pair{'' if apart.n == 1 else 's'}{few}"


def _compared(first: str, second: str, answer: str, ratio: float | None, low: float | None, high: float | None) -> str:
    words = {"larger": "takes longer than", "smaller": "is faster than", "same": "takes as long as", "inconclusive": "inconclusive against"}
    if ratio is None:
        return f"{second} {words[answer]} {first}"
    ends = f" [{units.signed_percent(low - 1)}, {units.signed_percent(high - 1)}]" if low is not None and high is not None else ""
    more = "; give --processes more" if answer == "inconclusive" else ""
    return f"{second} {words[answer]} {first}: {units.signed_percent(ratio - 1)}{ends} of a step{more}"


def _compile(summary: TrainingSummary) -> list[str]:
    text = []
    for arm in summary.arms:
        if arm.compile_s:
            each = ", ".join(f"{units.show(seconds, 's')} {name}" for name, seconds in arm.compile_s.items())
            text.append(f"{arm.name}: {each}")
    for mode in summary.break_even:
        gain = ProcessEstimate(value=mode.gain_s, low=mode.gain_low_s, high=mode.gain_high_s)
        if not mode.sure:
            why = "too few pairs for an interval" if gain.low is None else "which may be none"
            text.append(f"{mode.mode}: whether it pays is not known: it gains {_time(gain)} a step, {why}; give --processes more")
            continue
        if mode.steps is None:
            text.append(f"{mode.mode} never pays: its step is not shorter")
            continue
        ends = f" [{mode.low:,.0f}, {f'{mode.high:,.0f}' if mode.high else 'never'}]" if mode.low is not None else ""
        cost = f"{units.show(mode.compile_s, 's')} ÷ {units.show(mode.gain_s, 's')} a step"
        text.append(f"{mode.mode} pays after {mode.steps:,.0f} steps{ends}: {cost}")
    return text


def _first(summary: TrainingSummary) -> list[str]:
    arm = next((one for one in summary.arms if one.first_s), None)
    if arm is None:
        return []
    each = ", ".join(f"{units.show(seconds, 's')} {name}" for name, seconds in arm.first_s.items())
    return [f"start {each} to the end of the first step ({arm.name})"]


def answer(summary: TrainingSummary) -> str:
    """In a sentence: how fast, and what to do first."""
    arm = next((one for one in summary.arms if one.step_s), None)
    if arm is None or arm.step_s is None:
        return "nothing was measured: see the notes"
    rate = f", {_rate(arm.tokens_s)} tokens/s" if arm.tokens_s else f", {_rate(arm.samples_s)} samples/s" if arm.samples_s else ""
    text = f"a step takes {_time(arm.step_s)}{rate}"
    if summary.state == "invalid":
        return f"invalid: {text}, which is more than the device can do: look at the convention, and whether steps wait for the device"
    if summary.state == "inconclusive":
        few = f", of {_count(arm.step_s.n)}: too few for an interval, give --processes 6"
        return f"inconclusive: {text}{few if arm.step_s.low is None else ''}{'; see the notes' if summary.notices else ''}"
    return f"{text}{_waits(summary.stall, arm.step_s.value)}{_elsewhere(arm)}"


def _elsewhere(arm: ArmFigures) -> str:
    """Where a good part of the step passes in the program's own code, and how that is found."""
    own_s, step_s = sum(arm.parts_s.get(name, 0.0) for name in ("before_forward", "unexplained")), sum(arm.parts_s.values())
    if own_s <= ELSEWHERE * step_s:
        return ""
    own = f"{units.show(own_s, 's')} of it ({units.percent(own_s / step_s)})"
    return f"; {own} pass outside of loader, forward, backward and optimiser: hotlap trace capture shows in what"


def _count(processes: int) -> str:
    return f"{processes} process{'' if processes == 1 else 'es'}"


def _waits(stall: LoaderStall | None, step_s: float) -> str:
    """What to do about the loader, where it costs a share that counts."""
    if stall is None or not stall.known or stall.stall_s is None or (stall.share or 0.0) <= STALLED:
        return ""
    share, remedy = units.percent(stall.share or 0.0), "a faster loader first, by more workers or less work a batch"
    waiting = f", {units.percent(stall.waited_s / step_s)} by waiting in next()" if stall.waited_s and step_s else ""
    if stall.stall_s.low is None:
        n = stall.stall_s.n
        return f"; the loader costs about {share} of it{waiting} ({n} pair{'' if n == 1 else 's'}, too few for an interval): {remedy}"
    return f"; the loader costs {share} of it{waiting}: {remedy}" if stall.stall_s.low > 0 else ""

"""What `plan from` prints: the comments on top of a plan, the summary beside it, and the table of networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.record import Case, Notice, Plan, Record
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent
from hotlap.core.work.networks import compose
from hotlap.kernels.coverage import usage

MOST = 8  # heaviest cases that are listed
MOST_LINES = 12  # of a paragraph about steps
STEPS_NAMED = 3  # of those left out for one reason


class Listed(Record, frozen=True, kw_only=True):
    """A network of the table."""

    name: str
    domain: str
    about: str
    source: str
    phases: list[str]
    parameters: float  # as published
    counted: float  # as its layers have them
    operations: float  # FLOP of one sample's forward pass, of matrix products, convolutions, attention and recurrences
    published_operations: float | None = None


class Notes(Record, frozen=True, kw_only=True):
    """What is to be known of a plan of networks beside the plan."""

    command: str
    networks: list[str]
    steps: dict[str, float] = {}  # step → expected seconds of its kernels
    left_out: dict[str, list[str]]  # reason → steps
    unknown: dict[str, list[str]] = {}  # reason why nothing is expected → workloads
    too_large: dict[str, float] = {}  # steps that one GPU of the machine does not hold → bytes that they need
    holds_bytes: float | None = None  # memory of one GPU of the machine
    fits_with_tp: dict[str, int] = {}  # of those steps → the fewest tensor-parallel GPUs that hold one
    remarks: list[Notice] = []  # how configurations were read, and what of them is left out
    taken_as: list[str] = []  # networks whose weights are stored in another type, in words
    cases_before: int = 0  # before --top
    kept_share: float | None = None  # asked by --top
    least_share: float | None = None  # that was kept of any step


def head(notes: Notes, plan: Plan) -> list[str]:
    """Lines of comment for the top of the plan's file."""
    lines = [notes.command, "", f"networks: {', '.join(notes.networks)}"]
    lines += [f"{words.counted(len(notes.steps), 'step')}; what each takes in all on {plan.weighed_on}, kernels back to back:"]
    def unfit(step: str) -> str:
        return f", but it does not fit: it {_needs(notes, step)}" if step in notes.too_large else ""

    lines += [f"  {step}: {words.quantity(seconds, 's')}{unfit(step)}" for step, seconds in notes.steps.items()]
    return [*lines, *_said(notes, plan, 116)]


def _said(notes: Notes, plan: Plan, width: int) -> list[str]:
    """What was left out, and what has no weight."""
    lines = []
    if notes.kept_share is not None:
        gone = notes.cases_before - len(plan.cases)
        kept = None if notes.least_share is None else percent(math.floor(1000 * notes.least_share) / 1000, 3)
        least = f"; those kept take at least {kept} of a step" if kept else ""
        lines.append(f"--top {percent(notes.kept_share)}: {words.counted(gone, 'case')} of {notes.cases_before} left out{least}")
    for reason, steps in notes.left_out.items():
        lines += layout.paragraph("left out: ", f"{reason}: {_named(steps)}", width)
    if notes.too_large:
        unheld = _named([f"{step} {_needs(notes, step)}" for step in notes.too_large])
        holds = words.quantity(notes.holds_bytes or 0.0, "B")
        sentence = f"one GPU has {holds}; each kernel alone may fit, so the plan has them all: {unheld}"
        lines += layout.paragraph("does not fit: ", sentence, width, most=MOST_LINES)
    for remark in notes.remarks:
        lines += layout.paragraph("note: ", remark.text, width)
    for sentence in notes.taken_as:
        lines += layout.paragraph("not as stored: ", sentence, width)
    if any(" pp=" in step for step in notes.steps):
        sentence = "with pp, calls are those of the longest stage; of the embedding and the head, which lie on one stage each, the mean"
        lines += layout.paragraph("pipelines: ", sentence, width)
    for reason, workloads in notes.unknown.items():
        lines += layout.paragraph("without weight: ", f"{', '.join(workloads)}: {reason}", width)
    return lines


def _needs(notes: Notes, step: str) -> str:
    """What a step that does not fit needs, and how many GPUs would hold it."""
    ways = notes.fits_with_tp.get(step)
    return f"needs {words.quantity(notes.too_large[step], 'B')}{f' (--tp {ways} fits)' if ways else ''}"


def _named(steps: Sequence[str]) -> str:
    return ", ".join(steps[:STEPS_NAMED]) + (f" and {len(steps) - STEPS_NAMED} more" if len(steps) > STEPS_NAMED else "")


def summary(notes: Notes, plan: Plan, width: int, color: bool = False) -> str:
    """Beside the plan: how much there is, the heaviest cases with their share, what was left out."""
    cases, steps = words.counted(len(plan.cases), "case"), words.counted(len(notes.steps), "step")
    networks = words.counted(len({usage.network_of(step) for step in notes.steps}), "network")
    lines = [f"{cases} of {steps} of {networks}, weighted by predicted time on {plan.weighed_on}", ""]
    lines += layout.Grid(_heaviest(plan, len(notes.steps)), width).lines(color)
    said = _said(notes, plan, width)
    return "\n".join([*lines, *(["", *said] if said else [])])


def _heaviest(plan: Plan, steps: int) -> list[Column]:
    """By the mean share over all steps."""
    whole = compose.totals(plan.uses)
    shares: dict[str, dict[str, float]] = {}
    kernels: dict[str, dict[str, None]] = {}
    for use in plan.uses:
        weight = compose.weight_s(use) / (whole[use.step] or 1.0)
        by_step = shares.setdefault(use.case, {})
        by_step[use.step] = by_step.get(use.step, 0.0) + weight
        kernels.setdefault(use.case, {})[use.kernel] = None
    mean = {case: sum(found.values()) / steps for case, found in shares.items()}
    cases = sorted((case for case in plan.cases if case.id in mean), key=lambda case: -mean[case.id])[:MOST]
    return [
        Column("heaviest cases", [Cell(work.label(case)) for case in cases], wrap=True),
        Column("kernel", [Cell(words.some(list(kernels[case.id]))) for case in cases], wrap=True),
        Column("mean share", [Cell(percent(mean[case.id]), "bold") for case in cases], right=True),
        Column("max share", [Cell(percent(max(shares[case.id].values()))) for case in cases], right=True),
    ]  # fmt: skip


def table(listed: Sequence[Listed], width: int, color: bool = False) -> str:
    """The networks: parameters and FLOP as counted from their layers, beside what was published."""
    columns = [
        Column("network", [Cell(one.name, "bold") for one in listed]),
        Column("domain", [Cell(one.domain) for one in listed]),
        Column("parameters", [Cell(_big(one.counted)) for one in listed], right=True),
        Column("published", [Cell(_big(one.parameters)) for one in listed], right=True),
        Column("FLOP forward", [Cell(_big(one.operations)) for one in listed], right=True),
        Column("published", [Cell(_big(one.published_operations)) for one in listed], right=True),
        Column("phases", [Cell(" ".join(one.phases)) for one in listed], wrap=True),
    ]  # fmt: skip
    note = "FLOP: of one sample, image or token of a prompt, forward, two for a multiply-add; matrix products, convolutions, attention and "
    note += "recurrences. Parameters of plain transformers without norms and biases. Sources: --list --json."
    return "\n".join([*layout.fitted(columns, width, ("phases", "domain")).lines(color), "", *layout.paragraph("", note, width)])


def _big(value: float | None) -> str:
    """8.03 G; a dash where it is not known."""
    if not value:
        return words.DASH
    power = next((p for p in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= p[0]), (1.0, ""))
    return f"{value / power[0]:.3g} {power[1]}"


def notes(notes: Notes, whole: Plan, kept: Plan, unknown: Mapping[str, Sequence[Case]]) -> Notes:
    """`said` with what a plan before and after --top says, and with the cases of which nothing is expected, by why."""
    before, after = compose.totals(whole.uses), compose.totals(kept.uses)
    shares = [after.get(step, 0.0) / seconds for step, seconds in before.items() if seconds]
    return replace(
        notes, steps=before, cases_before=len(whole.cases), unknown=_unknown(unknown),
        least_share=min(shares, default=None) if notes.kept_share is not None else None,
    )  # fmt: skip


def _unknown(unknown: Mapping[str, Sequence[Case]]) -> dict[str, list[str]]:
    """Reasons, with the workloads that they are about."""
    by_reason: dict[str, list[str]] = {}
    for reason, cases in unknown.items():
        names = by_reason.setdefault(reason or "the model expects nothing of these yet", [])
        names += [name for name in dict.fromkeys(case.workload for case in cases) if name not in names]
    return by_reason

"""The measured step beside what the model expects of it, and in which pass the two differ."""

from __future__ import annotations

from typing import Literal, get_args

from hotlap.core import units
from hotlap.core.record import Record
from hotlap.core.show.table import harmless
from hotlap.training.expected_record import ExpectedStep, Section

Answer = Literal["as expected", "slower", "faster"]
WORDS = {"slower": "above its interval", "faster": "below its interval"}
SAID = 4  # kinds of kernels that are named


class ExpectedGap(Record, frozen=True, kw_only=True):
    """`gap_s`: measured less expected, of each pass and of all else; they add up to measured − expected."""

    expected: ExpectedStep
    measured_s: float
    low_s: float | None = None  # of the measured step
    high_s: float | None = None
    ratio: float  # measured ÷ expected
    answer: Answer
    gap_s: dict[str, float] = {}


def of(
    expected: ExpectedStep, measured_s: float, low_s: float | None, high_s: float | None, parts_s: dict[str, float]
) -> ExpectedGap | None:
    """None where nothing is expected. `low_s`, `high_s`: of the measured step, None where it has no interval."""
    if expected.seconds is None or expected.low_s is None or expected.high_s is None:
        return None
    answer: Answer = "as expected"
    if (measured_s if low_s is None else low_s) > expected.high_s:
        answer = "slower"
    elif (measured_s if high_s is None else high_s) < expected.low_s:
        answer = "faster"
    gap_s = {name: parts_s.get(name, 0.0) - expected.section_s(name) for name in get_args(Section)} if parts_s else {}
    gap_s["rest"] = measured_s - expected.seconds - sum(gap_s.values())
    return ExpectedGap(
        expected=expected, measured_s=measured_s, low_s=low_s, high_s=high_s, ratio=measured_s / expected.seconds, answer=answer,
        gap_s=gap_s,
    )  # fmt: skip


# ---------------------------------------------------------------- words


def facts(expected: ExpectedStep, gap: ExpectedGap | None) -> list[str]:
    """A line each, its first word what it is about."""
    if expected.seconds is None:
        fix = f"; {expected.fix}" if expected.fix else ""
        return [harmless(f"expected none, because {expected.why}{fix}")]
    lines = [harmless(f"expected {span(expected)} on {expected.on} by {expected.words}: {kinds(expected)}")]
    return lines if gap is None else [*lines, f"differs {differs(gap)}"]


def span(expected: ExpectedStep) -> str:
    ends = f" [{units.show(expected.low_s or 0.0, 's')}, {units.show(expected.high_s or 0.0, 's')}]"
    return f"{units.show(expected.seconds or 0.0, 's')}{ends}"


def kinds(expected: ExpectedStep) -> str:
    """The dearest kinds of kernels, and the framework's calls."""
    names = dict.fromkeys(part.name for part in expected.parts)
    dearest = sorted(names, key=lambda name: -expected.named_s(name))
    shown = [f"{name} {units.show(expected.named_s(name), 's', 2)}" for name in dearest if name != "framework"]
    more = f"framework {units.show(expected.named_s('framework'), 's', 2)}" if "framework" in names else "framework"
    return f"{', '.join([*shown[:SAID], more])} in {expected.calls:,.0f} calls"


def differs(gap: ExpectedGap) -> str:
    parts = sorted(gap.gap_s.items(), key=lambda pair: -abs(pair[1]))
    each = ", ".join(f"{name} {'+' if value >= 0 else '−'}{units.show(abs(value), 's', 2)}" for name, value in parts)
    missing = f"; not in what is expected: {', '.join(gap.expected.remarks)}" if gap.expected.remarks else ""
    return f"{units.show(gap.measured_s, 's')} is {units.round_to(gap.ratio)} of it, {_where(gap)}: {each}{missing}"


def _where(gap: ExpectedGap) -> str:
    """Where the measured step lies, and where that is outside, whether the two intervals overlap."""
    if gap.answer != "as expected":
        return WORDS[gap.answer]
    expected = gap.expected
    if (expected.low_s or 0.0) <= gap.measured_s <= (expected.high_s or 0.0):
        return "within its interval"
    ends = f"[{units.show(gap.low_s or 0.0, 's')}, {units.show(gap.high_s or 0.0, 's')}]"
    return f"outside of its interval, but the measured interval {ends} overlaps it, so no difference is shown"

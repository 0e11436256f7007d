"""One verdict per case and one for the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec.structs import replace

from hotlap.core.analysis import absent
from hotlap.core.analysis.standards import Standard
from hotlap.core.record import Judgement, Row, State, Verdict

EXIT_CODES = {"pass": 0, "fail": 1}  # every other state is 3: a verdict that could not be reached
WORDS: dict[State, str] = {
    "pass": "pass", "fail": "fail", "inconclusive": "inconclusive", "not_run": "not run", "invalid": "invalid", "error": "error",
    "measured": "not judged",
}
WORST: Sequence[State] = ("fail", "invalid", "error", "inconclusive", "pass")
ORDER: Sequence[State] = (*WORST, "measured", "not_run")


def judge(
    run: str, rows: Sequence[Row], standard: Standard, inconclusive_as: Literal["", "pass", "fail"] = "",
    missing: Mapping[str, str] = MappingProxyType({}),
) -> Judgement:
    """`rows` of one run compared with `standard`. `inconclusive_as`: what an inconclusive verdict of the run is read as; the cases
    keep theirs. `missing`: who was asked for a result and has none, with the reason: without them no run passes.

    A run passes when at least one case passes and none fails, is invalid, failed to run or stays inconclusive. Cases that this
    machine cannot run do not count, unless the standard says that they should have been measured.
    """
    judged = [replace(row, verdict=_of(row, verdict)) for row, verdict in zip(rows, standard.judge(rows), strict=True)]
    counts = Counter(row.verdict.state for row in judged)
    state = _state(counts)
    reason = ", ".join(f"{counts[one]} {word}" for one, word in WORDS.items() if counts[one]) or "no case"
    if len({row.device for row in judged}) > 1:
        reason = f"{of_devices([(row.device, row) for row in judged])}; cases: {reason}"
    lost = dict(missing)
    if lost:
        state, reason = with_missing(state), f"{reason}; {absent.text(lost)}"
    if state == "inconclusive" and inconclusive_as:
        reason += f"; inconclusive, read as {inconclusive_as} because that was asked"
        return Judgement(
            run=run, state=inconclusive_as, reason=reason, against=standard.name, inconclusive_as=inconclusive_as, missing=lost,
            rows=judged,
        )  # fmt: skip
    return Judgement(run=run, state=state, reason=reason, against=standard.name, missing=lost, rows=judged)


def with_missing(state: State) -> State:
    """What a verdict becomes where some who were asked have no result: a pass of the others is no pass of all."""
    return "inconclusive" if state in ("pass", "measured") else state


def of_devices(rows: Iterable[tuple[str, Row]]) -> str:
    """How many devices are in each state, each in its worst: ``3 of 40 devices fail, 37 pass``. `rows`: each with its device."""
    worst: dict[str, State] = {}
    for device, row in rows:
        worst[device] = min(worst.get(device, "not_run"), row.verdict.state, key=ORDER.index)
    counts = Counter(worst.values())
    first, *others = [state for state in ORDER if counts[state]]
    devices = f"{counts[first]} of {len(worst)} devices" if len(worst) > 1 else "1 device"
    return ", ".join([f"{devices} {WORDS[first]}", *(f"{counts[state]} {WORDS[state]}" for state in others)])


def _of(row: Row, verdict: Verdict) -> Verdict:
    """A case that the run never came to, as when its budget was used up, is open, not beyond this machine."""
    if verdict.state == "not_run" and not row.result.rounds:
        return replace(verdict, state="inconclusive", reason=f"not run, because {row.result.reason}")
    return verdict


def _state(counts: Counter[State]) -> State:
    return next((state for state in WORST if counts[state]), "not_run")


def exit_code(judgements: Sequence[Judgement]) -> int:
    """Of several runs: 1 when any fails, else 3 when any could not be judged, else 0."""
    codes = {EXIT_CODES.get(one.state, 3) for one in judgements} or {3}
    return 1 if 1 in codes else max(codes)

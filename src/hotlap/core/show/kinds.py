"""Kinds of run beside plans: each is shown by the feature that brings it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from hotlap.core import extend, stand_in
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.record import IMPORTED, RunRecord
from hotlap.core.store.bundle import Bundle

PLAN = "plan"
IN_TURNS = "hotlap ab measures in turns and"
OF_ROUNDS = "intervals cover the rounds of these runs, not changes from run to run; measure 4 runs a side for those"


class Kind(Protocol):
    """A module that shows the runs of one kind. `content` is what its `read` returned, None where the bundle holds too little for it.

    One whose runs are of something else than the machine that measured may have `title(content)`: what a page is of; `SUBJECT`: what a run
    is, before the name of its plan; `TURNS`: what is done to measure two of them in turns, before "needs no allowance";
    `ROUNDS`: what intervals over its rounds cover; `todo(content)`: what a page says is to be done, a line each; `ENDED`: how it ended, in
    its own words by kind of stop; `FIRST`: it sums up other runs, and is shown before them, and on a page alone at the top;
    `headings(content)`: their ids, in the order in which they are shown, each with its heading; `without_result(bundle)`: whom it asked
    and has no result of, each with the reason: a gate does not pass without them."""

    CASES: bool  # whether its runs have cases of a plan, shown beside the rest
    NO_CASES: str  # why there is nothing to explain; {run} is the run's id
    NO_GATE: str  # why `gate` does not take it, and what does; {run} is the run's id
    UNFINISHED: str  # what is said of a run that has not ended
    METHOD: str  # how its numbers were obtained, for a page; "" where its cases say it

    def read(self, bundle: Bundle) -> Any | None:
        """What is shown, analysed once."""

    def text(self, content: Any, width: int, color: bool) -> str:
        """On the terminal, under the run's heading."""

    def document(self, content: Any) -> dict[str, Any]:
        """Keys beside those of every run in --json."""

    def measured(self, content: Any) -> bool:
        """Whether anything was measured, read or recorded: False must not look like success."""

    def lead(self, content: Any) -> str:
        """HTML for the top of a page; "" for nothing."""

    def notices(self, content: Any) -> str:
        """HTML of what to doubt."""


def of(bundle: Bundle) -> Kind | None:
    """What shows a run that is more than the cases of a plan; None for a plan or an import. Raises SchemaError where no feature does."""
    kind = bundle.run.kind
    if kind in (PLAN, IMPORTED):
        return None
    feature: Kind | None = extend.find("kinds", kind)
    if feature is None:
        raise SchemaError(
            f"the run {bundle.run.id} is of kind '{kind}', written by Hotlap {bundle.run.hotlap}; "
            "no feature of this Hotlap shows it: install that version"
        )
    return feature


def has_cases(kind: str) -> bool:
    """Whether runs of this kind have cases that are measured in rounds, to a precision that was asked."""
    shown = extend.find("kinds", kind) if kind not in (PLAN, IMPORTED) else None
    return not shown or bool(shown.CASES)


def refuse_gate(bundle: Bundle) -> None:
    """Raises InputError for a run that `gate` does not take, and SchemaError as `of`."""
    stand_in.refuse([bundle.run], "a verdict")
    need_cases(bundle)


def need_cases(bundle: Bundle) -> None:
    """Raises InputError for a run without the cases that a gate and a baseline are of, with what judges it; SchemaError as `of`."""
    kind = of(bundle)
    if kind and not kind.CASES:
        raise InputError(kind.NO_GATE.format(run=bundle.run.id))


def refuse_without_cases(bundles: Sequence[Bundle]) -> None:
    """Raises InputError where all are of kinds without cases, which have nothing to compare: with what their first has instead."""
    shown = [of(bundle) for bundle in bundles]
    without = [kind for kind in shown if kind and not kind.CASES]
    if len(without) == len(shown):
        raise InputError(without[0].NO_GATE.format(run=bundles[0].run.id))


def unfinished(kind: str, part_of: str = "") -> str:
    """What is said of a run of this kind that has not ended, and how it goes on. `part_of`: of its record."""
    if part_of:
        return f"not finished: begin anew by {part_of}"
    if kind == PLAN:
        return "not finished: hotlap run --resume goes on"
    shown = extend.find("kinds", kind)
    return str(shown.UNFINISHED) if shown else "not finished"


def subject(run: RunRecord) -> str:
    """What a run is and of what, as a heading says it."""
    shown = _own(run.kind)
    return f"{getattr(shown, 'SUBJECT', 'plan')} {run.plan.name}"


def ended(kind: str) -> Mapping[str, str]:
    """How runs of this kind ended, in their own words by kind of stop; the others are everybody's."""
    return getattr(_own(kind), "ENDED", {})


def sums_up(kind: str) -> bool:
    """Whether a run of this kind says what others come to, and is shown before them."""
    return bool(getattr(_own(kind), "FIRST", False))


def headings(known: Iterable[tuple[Kind, Any]]) -> dict[str, str]:
    """Of runs that some of these sum up, in the order in which they are shown."""
    return {run: text for kind, content in known if hasattr(kind, "headings") for run, text in kind.headings(content)}


def turns(bundles: Sequence[Bundle]) -> str:
    """What measures two of these in turns, before "needs no allowance"."""
    return _alike(bundles, "TURNS", IN_TURNS)


def rounds(bundles: Sequence[Bundle]) -> str:
    """What intervals over the rounds of these cover."""
    return _alike(bundles, "ROUNDS", OF_ROUNDS)


def _alike(bundles: Sequence[Bundle], name: str, otherwise: str) -> str:
    own = {str(getattr(_own(bundle.run.kind), name, otherwise)) for bundle in bundles}
    return own.pop() if len(own) == 1 else otherwise


def _own(kind: str) -> Any:
    return extend.find("kinds", kind) if kind not in (PLAN, IMPORTED) else None


def read(bundle: Bundle) -> tuple[Kind, Any] | None:
    """The kind of a run and what it shows; None for a plan or an import, and where the bundle holds too little for its kind."""
    kind = of(bundle)
    found = kind.read(bundle) if kind else None
    return None if kind is None or found is None else (kind, found)

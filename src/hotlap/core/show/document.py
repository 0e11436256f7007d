"""What `--json=3` prints: one shape for every command that prints cases, each fact once, what scripts ask for at the top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hotlap.core import work
from hotlap.core.record import Comparison, Judgement, Record, Row, RunRecord
from hotlap.core.show import notices, words
from hotlap.core.store.bundle import Bundle

SHAPE = 3
Verdict = Literal["pass", "fail", "inconclusive"]
VERDICTS: Mapping[int, Verdict] = {0: "pass", 1: "fail", 3: "inconclusive"}


class CaseEntry(Record, frozen=True, kw_only=True):
    """One case. Of `compare` and `ab` the value is the speedup of B over A, and the run is B's."""

    case: Annotated[str, Meta(description="its id")]
    name: Annotated[str, Meta(description="it in words")]
    run: Annotated[str | None, Meta(description="id of the run; null for a group of runs")]
    host: Annotated[str | None, Meta(description="where it was measured; null where it is not known")]
    device: Annotated[str | None, Meta(description="key of the device; null for all of a side")]
    value: Annotated[float | None, Meta(description="median of the rounds, in unit; null where there is no number")]
    unit: Annotated[str, Meta(description="base unit of value, low and high")]
    low: Annotated[float | None, Meta(description="lower end of the 95 % interval")]
    high: Annotated[float | None, Meta(description="upper end of the 95 % interval")]
    state: Annotated[str, Meta(description="state in the glossary; of compare and ab the answer: faster, slower, same …")]
    codes: Annotated[list[str], Meta(description="codes of its notices; hotlap schema codes lists them")]


class Document(Record, frozen=True, kw_only=True):
    """One answer of a command."""

    schema: Annotated[int, Meta(description="3")] = SHAPE
    verdict: Annotated[Verdict | None, Meta(description="null: the command gives none")] = None
    exit_code: Annotated[int | None, Meta(description="that of the verdict; null: the command gives none")] = None
    cases: Annotated[list[CaseEntry], Meta(description="in the order of the plan")] = []


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of it."""
    (document,), components = msgspec.json.schema_components((Document,), ref_template="#/$defs/{name}")
    title = f"what hotlap prints with --json={SHAPE}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **document, "$defs": components}


def of_runs(analysed: Iterable[tuple[Bundle, Sequence[Row]]]) -> Document:
    """Of commands that show runs and give no verdict."""
    return Document(cases=[_case(row, bundle.run.id, bundle.run.machine.host) for bundle, rows in analysed for row in rows])


def of_verdicts(judged: Sequence[Judgement], hosts: Mapping[str, str], exit_code: int) -> Document:
    """Of `gate`. `hosts`: by run."""
    cases = [_case(row, one.run, hosts.get(one.run)) for one in judged for row in one.rows]
    return Document(verdict=VERDICTS.get(exit_code), exit_code=exit_code, cases=cases)


def of_comparisons(sides: Iterable[tuple[Sequence[Comparison], RunRecord | None]], exit_code: int) -> Document:
    """Of `compare` and `ab`: the comparisons with each other side, and its run where it is a single one."""
    return Document(verdict=VERDICTS.get(exit_code), exit_code=exit_code, cases=[
        CaseEntry(
            case=pair.case.id, name=work.label(pair.case), run=run.id if run else None, host=run.machine.host if run else None, device=None,
            value=pair.ratio, unit="ratio", low=pair.low, high=pair.high, state=pair.answer, codes=[notice.code for notice in pair.notices],
        )
        for compared, run in sides for pair in compared
    ])  # fmt: skip


def _case(row: Row, run: str, host: str | None) -> CaseEntry:
    number = (row.summary.median, row.summary.low, row.summary.high) if words.numbered(row) else (None, None, None)
    return CaseEntry(
        case=row.case.id, name=row.label, run=run, host=host, device=row.device, value=number[0], unit=row.result.unit, low=number[1],
        high=number[2], state=row.verdict.state, codes=notices.codes(row),
    )

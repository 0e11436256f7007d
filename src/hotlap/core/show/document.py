"""What `--json` prints of cases: a flat entry for each, the same keys from every verb; and the JSON Schema of it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hotlap.core import stand_in, work
from hotlap.core.analysis import lasting, rates
from hotlap.core.analysis.commands import CommandRow
from hotlap.core.analysis.energy import EnergyUse
from hotlap.core.analysis.implementations import Beside, ImplementationEntry
from hotlap.core.record import Case, Comparison, Judgement, Record, Row, RunRecord, Summary
from hotlap.core.show import notices, words
from hotlap.core.show.shape import SHAPE, VERDICTS, Verdict, answer
from hotlap.core.store.bundle import Bundle


class LimitEntry(Record, frozen=True, kw_only=True):
    """What a value is a share of."""

    kind: Annotated[Literal["bound", "expected", "ceiling", "unknown"], Meta(description="Limits in the glossary")]
    value: Annotated[float | None, Meta(description="in the unit of the case")]
    share: Annotated[float | None, Meta(description="value of the case ÷ limit, or the inverse where lower is better")]
    cause: Annotated[str, Meta(description="of the gap: Causes in the glossary")]


class SideEntry(Record, frozen=True, kw_only=True):
    """One side of a comparison."""

    value: Annotated[float | None, Meta(description="median of the rounds")]
    low: Annotated[float | None, Meta(description="lower end of its 95 % interval")]
    high: Annotated[float | None, Meta(description="upper end of its 95 % interval")]
    unit: Annotated[str, Meta(description="base unit of the side")]
    rounds: Annotated[int, Meta(description="how many")]


class CaseEntry(Record, frozen=True, kw_only=True):
    """One case. Of `compare` and `ab` the value is the speedup of B over A, and the run is B's; of `energy` it is the energy of a call."""

    case: Annotated[str, Meta(description="its id")]
    name: Annotated[str, Meta(description="it in words")]
    run: Annotated[str | None, Meta(description="id of the run; null for a group of runs")]
    host: Annotated[str | None, Meta(description="where it was measured; null where it is not known")]
    device: Annotated[str | None, Meta(description="key of the device; null for all of a side")]
    value: Annotated[float | None, Meta(description="median of the rounds, in unit; null where there is no number")]
    unit: Annotated[str, Meta(description="base unit of value, low and high")]
    low: Annotated[float | None, Meta(description="lower end of the 95 % interval")]
    high: Annotated[float | None, Meta(description="upper end of the 95 % interval")]
    state: Annotated[str, Meta(description="state in the glossary; of comparisons the answer: faster, slower, same …")]
    codes: Annotated[list[str], Meta(description="codes of its notices; hotlap schema codes lists them")]
    # What only some commands know; a key is absent where it is not known.
    reason: Annotated[str | UnsetType, Meta(description="why this state")] = UNSET
    action: Annotated[str | UnsetType, Meta(description="what to do about it")] = UNSET
    workload: Annotated[str | UnsetType, Meta(description="name of the workload")] = UNSET
    params: Annotated[dict[str, Any] | UnsetType, Meta(description="its parameters")] = UNSET
    implementation: Annotated[str | UnsetType, Meta(description="which one, where it is not the usual one")] = UNSET
    metric: Annotated[str | UnsetType, Meta(description="what value is: bandwidth, compute, latency, time …")] = UNSET
    better: Annotated[Literal["higher", "lower"] | UnsetType, Meta(description="which values are better")] = UNSET
    rounds: Annotated[list[float] | UnsetType, Meta(description="the value of each round")] = UNSET
    limit: Annotated[LimitEntry | UnsetType, Meta(description="what the hardware allows")] = UNSET
    threshold: Annotated[float | UnsetType, Meta(description="of gate: the worst value that passes, in unit")] = UNSET
    a: Annotated[SideEntry | UnsetType, Meta(description="of a comparison: side A")] = UNSET
    b: Annotated[SideEntry | UnsetType, Meta(description="of a comparison: side B")] = UNSET
    min_effect: Annotated[float | UnsetType, Meta(description="of a comparison: smallest change that is reported, a share")] = UNSET
    mde: Annotated[float | UnsetType, Meta(description="of a comparison: smallest change found with 80 % power, a share")] = UNSET
    more: Annotated[dict[str, Any] | UnsetType, Meta(description="figures of one command: of energy seconds, power_w …")] = UNSET


class Document(Record, frozen=True, kw_only=True):
    """One answer of a command; what it has beside cases stands under keys of its own."""

    schema: Annotated[Literal[3], Meta(description="the version of this shape")]
    verdict: Annotated[Verdict | None, Meta(description="null: the command gives none")]
    exit_code: Annotated[int | None, Meta(description="of the command, where it exits by its verdict; else null")]
    cases: Annotated[list[CaseEntry] | UnsetType, Meta(description="in the order of the plan; absent: the command has none")] = UNSET


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of it."""
    (document,), components = msgspec.json.schema_components((Document,), ref_template="#/$defs/{name}")
    title = f"what hotlap prints with --json, shape {SHAPE}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **document, "$defs": components}


def of_runs(analysed: Iterable[tuple[Bundle, Sequence[Row]]], more: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Of commands that show runs and give no verdict. `more`: what the kind of a run adds, by its id."""
    pairs = list(analysed)
    runs = [run_entry(bundle.run) | {"path": str(bundle.path)} | dict((more or {}).get(bundle.run.id, {})) for bundle, _ in pairs]
    return answer({"runs": runs}, None, [
        _case(row, bundle.run.id, bundle.run.machine.host, lasting.document(row.result, bundle.run.asked))
        for bundle, rows in pairs for row in rows
    ])  # fmt: skip


def of_measured(bundle: Bundle, rows: Sequence[Row], more: Mapping[str, Any], code: int, judged: bool = False) -> dict[str, Any]:
    """Of a command that measured one run and exits by how that went: what `show` prints of it, and the code, a verdict where `judged`."""
    return of_runs([(bundle, rows)], {bundle.run.id: more}) | {"exit_code": code, "verdict": VERDICTS.get(code) if judged else None}


def run_entry(run: RunRecord) -> dict[str, Any]:
    """A run in short; where it was measured stands with its cases."""
    names = ("id", "kind", "began", "ended", "target", "labels", "stops")
    played = {"stand_in": True} if stand_in.of_run(run) else {}
    return {**{name: getattr(run, name) for name in names}, "plan": run.plan.name, **played}


def of_verdicts(judged: Sequence[Judgement], hosts: Mapping[str, str], code: int, keys: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Of `gate`. `hosts`: by run. `keys`: of a fleet."""
    runs = [
        {"id": one.run, "state": one.state, "reason": one.reason, "against": one.against}
        | ({"missing": one.missing} if one.missing else {}) for one in judged
    ]
    cases = [_case(row, one.run, hosts.get(one.run)) for one in judged for row in one.rows]
    return answer({"runs": runs, **(keys or {})}, code, cases)


def of_comparisons(
    sides: Iterable[tuple[Sequence[Comparison], RunRecord | None]], code: int | None, keys: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Of `compare` and `ab`: the comparisons with each other side, and its run where it is a single one."""
    return answer(keys or {}, code, [
        CaseEntry(
            case=pair.case.id, name=work.label(pair.case), run=run.id if run else None, host=run.machine.host if run else None, device=None,
            value=pair.ratio, unit="ratio", low=pair.low, high=pair.high, state=pair.answer, codes=[notice.code for notice in pair.notices],
            reason=pair.reason or UNSET, workload=pair.case.workload, params=pair.case.params,
            implementation=pair.case.implementation or UNSET, metric=pair.metric or UNSET, better=pair.better or UNSET,
            a=_side(pair.a, pair.unit), b=_side(pair.b, pair.unit), min_effect=_known(pair.min_effect), mde=_known(pair.mde),
            more={"devices": pair.devices} if pair.devices else UNSET,
        )
        for compared, run in sides for pair in compared
    ])  # fmt: skip


def of_commands(run: RunRecord, rows: Sequence[CommandRow], comparisons: Sequence[Comparison], code: int | None) -> dict[str, Any]:
    """Of `bench` of commands: an entry for each, its times as rounds; `ratio` is the speedup over the first."""
    entries = [
        CaseEntry(
            case=row.case, name=row.command, run=run.id, host=run.machine.host, device=run.devices[0], value=row.summary.median, unit="s",
            low=row.summary.low, high=row.summary.high, state="measured", codes=[notice.code for notice in row.notices],
            params=dict(row.parameters) or UNSET, metric="time", better="lower", rounds=list(row.times_s),
            more={"mean": row.mean_s, "stddev": row.stddev_s, "user": row.user_s, "system": row.system_s, "exit_codes": row.exit_codes}
            | _speedup(compared),
        )
        for row, compared in zip(rows, [None, *comparisons], strict=True)
    ]  # fmt: skip
    return answer({"runs": [run_entry(run)]}, code, entries)


def of_implementations(cases: Sequence[Beside], code: int, keys: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Of `compare --by implementation`: an entry for each, as `show` has it; `ratio` is its speedup over the first of its case."""
    return answer(keys or {}, code, [_implementation(beside.case, one) for beside in cases for one in beside.entries])


def _implementation(case: Case, entry: ImplementationEntry) -> CaseEntry:
    unsure = next((row.verdict for row in entry.rows if entry.status == "measured" and row.verdict.state == "inconclusive"), None)
    answer_codes = {"answer_codes": [notice.code for notice in entry.comparison.notices]} if entry.comparison else {}
    return CaseEntry(
        case=case.id, name=work.label(case), run=None, host=None, device=None, value=entry.median, unit=entry.unit,
        low=entry.low, high=entry.high,
        state=unsure.state if unsure else entry.status,
        codes=list(dict.fromkeys(code for row in entry.rows for code in notices.codes(row))),
        reason=(unsure.reason if unsure else entry.reason) or UNSET, workload=case.workload, params=case.params,
        implementation=entry.implementation,
        more={"error": entry.error, "deterministic": entry.deterministic, **_speedup(entry.comparison), **answer_codes},
    )


def of_energies(spent: Iterable[tuple[Bundle, Sequence[EnergyUse]]]) -> dict[str, Any]:
    """Of `energy`: joules of a call; without a sensor that tells it a case has no value."""
    taken = {"case", "device", "label", "joules", "spread_low_j", "spread_high_j", "reason", "notices"}
    return answer({}, None, [
        CaseEntry(
            case=one.case, name=one.label, run=bundle.run.id, host=bundle.run.machine.host, device=one.device, value=one.joules, unit="J",
            low=one.spread_low_j, high=one.spread_high_j, state="not_run" if one.joules is None else "measured",
            codes=[notice.code for notice in one.notices], reason=one.reason or UNSET, metric="energy", better="lower",
            more={name: getattr(one, name) for name in one.__struct_fields__ if name not in taken},
        )
        for bundle, energies in spent for one in energies
    ])  # fmt: skip


def _speedup(pair: Comparison | None) -> dict[str, Any]:
    if pair is None:
        return {}
    return {"ratio": pair.ratio, "ratio_low": pair.low, "ratio_high": pair.high, "answer": pair.answer, "mde": pair.mde}


def _side(summary: Summary, unit: str) -> SideEntry:
    return SideEntry(value=summary.median, low=summary.low, high=summary.high, unit=unit, rounds=summary.rounds)


def _known(value: float | None) -> float | UnsetType:
    return UNSET if value is None else value


def _case(row: Row, run: str, host: str | None, asked: Mapping[str, Any] = {}) -> CaseEntry:
    number = (row.summary.median, row.summary.low, row.summary.high) if words.numbered(row) else (None, None, None)
    gap, verdict = row.gap, row.verdict
    limit = LimitEntry(kind=gap.reference_kind, value=gap.limit_value, share=gap.share if words.numbered(row) else None, cause=gap.cause)
    return CaseEntry(
        case=row.case.id, name=row.label, run=run, host=host, device=row.device, value=number[0], unit=row.result.unit, low=number[1],
        high=number[2], state=verdict.state, codes=notices.codes(row), reason=verdict.reason or UNSET, action=verdict.action or UNSET,
        workload=row.case.workload, params=row.case.params, implementation=row.case.implementation or UNSET,
        metric=row.result.metric or UNSET, better=row.result.better, rounds=list(row.result.values),
        limit=UNSET if gap.reference_kind == "unknown" else limit, threshold=_known(verdict.threshold),
        more={**_more(row), **asked} or UNSET,
    )


def _more(row: Row) -> dict[str, Any]:
    """Cycles of a call bound by the clock; rates beside a time; what an import's file says besides. Of `gate` the ratio to what a case was
    compared with, above 1 is better, and its origin."""
    verdict, result = row.verdict, row.result
    ratio = {"ratio": verdict.ratio, "ratio_low": verdict.low, "ratio_high": verdict.high} if verdict.ratio is not None else {}
    known: dict[str, Any] = {"provenance": verdict.provenance, "machine_class": verdict.machine_class}
    known["rules"] = verdict.rules
    known["cycles"] = list(result.cycles) if result.bound_by_clock else []
    known |= {"rates": rates.rates(result), "metrics": rates.metrics(result) if result.imported else {}}
    return {**ratio, **{name: value for name, value in known.items() if value}}

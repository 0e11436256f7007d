"""A Plan as TOML that `read` reads back: the same cases with the same ids, the same uses, the same way to measure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hotlap.core import work
from hotlap.core.plan import measuring
from hotlap.core.record import Case, MeasureOptions, Plan, Use, Value
from hotlap.core.work.base import Param


def text(plan: Plan, head: Sequence[str] = (), notes: Mapping[str, str] | None = None) -> str:
    """The file's text; `head` are lines of comment on top, `notes` comments above cases by Case.id. Parameters that have their defaults
    are left out, except sizes and types."""
    lines = [f"# {line}".rstrip() for line in head]
    lines += [f"name = {_value(plan.name)}"]
    lines += [f"about = {_value(plan.about)}"] if plan.about else []
    lines += [f"weighed_on = {_value(plan.weighed_on)}"] if plan.weighed_on else []
    lines += _measure(plan.measure)
    uses: dict[str, list[Use]] = {}
    for use in plan.uses:
        uses.setdefault(use.case, []).append(use)
    for case in plan.cases:
        note = (notes or {}).get(case.id, "")
        lines += ["", *([f"# {note}"] if note else []), *_case(case), *_uses(uses.get(case.id, []))]
    return "\n".join(lines) + "\n"


def _measure(options: MeasureOptions) -> list[str]:
    default = MeasureOptions()
    changed = {key: getattr(options, option.field) for key, option in measuring.OPTIONS.items()}
    given = {key: value for key, value in changed.items() if value != getattr(default, measuring.OPTIONS[key].field)}
    return ["", "[measure]", *(f"{key} = {_value(value)}" for key, value in given.items())] if given else []


def _case(case: Case) -> list[str]:
    params = {p.name: p for p in work.find(case.workload).params}
    shown = {name: value for name, value in case.params.items() if _says(params.get(name), value)}
    lines = ["[[case]]", f"workload = {_value(case.workload)}"]
    lines += [f"implementation = {_value(case.implementation)}"] if case.implementation else []
    return [*lines, *(f"{name} = {_value(value)}" for name, value in shown.items())]


def _says(param: Param | None, value: Value) -> bool:
    return param is None or value != param.default


def _uses(uses: Sequence[Use]) -> list[str]:
    if not uses:
        return []
    return ["uses = [", *(f"  {_table(use)}," for use in uses), "]"]


def _table(use: Use) -> str:
    fields: dict[str, Value] = {"step": use.step, "kernel": use.kernel, "calls": float(f"{use.calls:.6g}")}
    if use.expected_s is not None:
        fields["expected"] = float(f"{use.expected_s:.6g}")
    return "{ " + ", ".join(f"{name} = {_value(value)}" for name, value in fields.items()) + " }"


def _value(value: Value | Mapping[str, Value]) -> str:
    """TOML's strings, numbers and lists of them are written as JSON's; whole floats without a point are read as the same number, others
    have all their digits, for ids hash them."""
    if isinstance(value, float) and value == int(value) and abs(value) <= 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)

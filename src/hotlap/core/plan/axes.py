"""Axes of a plan: the values a parameter takes (one, a list, a range), and the filters that leave combinations out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hotlap.core.errors import InputError, nearest
from hotlap.core.plan.lines import Path
from hotlap.core.record import Value
from hotlap.core.work.base import Param

MOST = 100_000
"""The most cases in a plan, and the most values in a range."""

Fail = Callable[[Path, str], InputError]
"""Makes the error for what stands at a path of the plan."""

IMPLEMENTATION = Param("implementation", "str", "one of a workload's implementations; '' is the target's own choice", "")


def values(param: Param, given: object, path: Path, fail: Fail) -> list[Value]:
    """The values of `given` in base units: one, those of a list, or those of a range.

    A parameter that is itself a list (`argv`) is an axis only as a list of lists.
    """
    if isinstance(given, Mapping):
        return _range(param, given, path, fail)
    if isinstance(given, list) and (param.kind != "list" or (given and all(isinstance(item, list) for item in given))):
        if not given:
            raise fail(path, f"'{param.name}' is an empty list; give at least one value")
        return [value for i, item in enumerate(given) for value in _item(param, item, (*path, i), fail)]
    return [_parse(param, given, path, fail)]


def _item(param: Param, item: object, path: Path, fail: Fail) -> list[Value]:
    return _range(param, item, path, fail) if isinstance(item, Mapping) else [_parse(param, item, path, fail)]


def _parse(param: Param, given: object, path: Path, fail: Fail) -> Value:
    try:
        return param.parse(given)
    except InputError as error:
        raise fail(path, str(error)) from None
    except OverflowError:
        raise fail(path, f"'{param.name}' is too large: {str(given)[:40]}") from None


def _range(param: Param, given: Mapping[str, object], path: Path, fail: Fail) -> list[Value]:
    """``{ from, to, factor }`` (geometric) or ``{ from, to, step }`` (arithmetic); `to` is included when it is reached."""
    _keys(param, given, path, fail, ("from", "to", "factor", "step"))
    if ("factor" in given) == ("step" in given):
        raise fail(path, f"the range of '{param.name}' needs either factor or step, as in {_example(param)}")
    low, high = _end(param, given, "from", path, fail), _end(param, given, "to", path, fail)
    how = "factor" if "factor" in given else "step"
    by = _plain(param, given[how], (*path, how), fail, unit=param.unit if how == "step" else "")
    if how == "factor" and by <= 1:
        raise fail((*path, how), f"the factor of '{param.name}' must be above 1, not {given[how]!r}")
    if how == "step" and by <= 0:
        raise fail((*path, how), f"the step of '{param.name}' must be above 0, not {given[how]!r}")
    if low > high:
        raise fail(path, f"the range of '{param.name}' begins above its end: from {given['from']!r} to {given['to']!r}")
    if how == "factor" and low <= 0:
        raise fail((*path, "from"), f"a range of '{param.name}' with a factor must begin above 0; use step instead")
    count = math.log(high / low) / math.log(by) if how == "factor" else (high - low) / by
    if count >= MOST:
        raise fail(path, f"the range of '{param.name}' has more than {MOST} values; raise {how}")
    steps = range(math.floor(count + 1e-9) + 1)  # the margin keeps an end that is reached up to rounding
    numbers = (low * by**i if how == "factor" else low + by * i for i in steps)
    return list(dict.fromkeys(_parse(param, round(v) if param.kind == "int" else min(v, high), path, fail) for v in numbers))


def _keys(param: Param, given: Mapping[str, object], path: Path, fail: Fail, valid: tuple[str, ...]) -> None:
    if param.kind not in ("int", "float"):
        raise fail(path, f"'{param.name}' is not a number and cannot have a range; write a list of its values")
    for key in given:
        if key not in valid:
            raise fail((*path, key), f"a range has no key '{key}'; {nearest(key, valid)}")


def _end(param: Param, given: Mapping[str, object], key: str, path: Path, fail: Fail) -> float:
    if key not in given:
        raise fail(path, f"the range of '{param.name}' has no '{key}'; write it as in {_example(param)}")
    value = _parse(param, given[key], (*path, key), fail)
    assert isinstance(value, (int, float))
    return float(value)


def _plain(param: Param, given: object, path: Path, fail: Fail, unit: str) -> float:
    value = _parse(Param(str(path[-1]), "float", "", unit=unit), given, path, fail)
    assert isinstance(value, (int, float))
    return float(value)


def _example(param: Param) -> str:
    if param.unit == "B":
        return '{ from = "16 KiB", to = "1 GiB", factor = 2 }'
    return "{ from = 1, to = 8, step = 1 }"


@dataclass(frozen=True)
class Filter:
    """One table of `skip` or `only`: matches a combination when every key matches."""

    path: Path
    tests: Mapping[str, Callable[[Value], bool]]

    def matches(self, combination: Mapping[str, Value]) -> bool:
        return all(test(combination[name]) for name, test in self.tests.items())


def filters(given: object, key: str, params: Mapping[str, Param], path: Path, fail: Fail) -> list[Filter]:
    """The filters under `skip` or `only`: a table, or a list of tables."""
    tables = given if isinstance(given, list) else [given]
    if not tables or not all(isinstance(table, Mapping) and table for table in tables):
        raise fail(path, f'\'{key}\' is a list of tables, as in {key} = [{{ op = "copy", size = "1 GiB" }}]')
    return [_filter(table, params, (*path, i) if isinstance(given, list) else path, fail) for i, table in enumerate(tables)]


def _filter(table: Mapping[str, object], params: Mapping[str, Param], path: Path, fail: Fail) -> Filter:
    tests: dict[str, Callable[[Value], bool]] = {}
    for name, value in table.items():
        if name not in params:
            raise fail((*path, name), f"there is no parameter '{name}' to filter by; {nearest(name, params)}")
        tests[name] = _test(params[name], value, (*path, name), fail)
    return Filter(path, tests)


def _test(param: Param, given: object, path: Path, fail: Fail) -> Callable[[Value], bool]:
    if isinstance(given, Mapping) and not {"factor", "step"} & set(given):
        _keys(param, given, path, fail, ("from", "to"))
        low = _end(param, given, "from", path, fail) if "from" in given else -math.inf
        high = _end(param, given, "to", path, fail) if "to" in given else math.inf
        return lambda value: isinstance(value, (int, float)) and low <= value <= high
    wanted = values(param, given, path, fail)
    return lambda value: value in wanted


def keep(
    combinations: Iterator[dict[str, Value]], only: list[Filter], skip: list[Filter], fail: Fail,
) -> list[dict[str, Value]]:
    """The combinations that match one of `only` (all, when it is empty) and none of `skip`. A filter that never matches
    is an error: it is a value mistyped."""
    kept: list[dict[str, Value]] = []
    used: set[Path] = set()
    for combination in combinations:
        inside = [f.path for f in only if f.matches(combination)]
        outside = [f.path for f in skip if f.matches(combination)]
        used.update(inside, outside)
        if (inside or not only) and not outside:
            kept.append(combination)
    for filter_ in (*only, *skip):
        if filter_.path not in used:
            raise fail(filter_.path, "this filter matches no combination; check its values, or take it out")
    return kept

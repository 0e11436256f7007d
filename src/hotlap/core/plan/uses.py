"""Where networks call the cases of a plan: `uses` of a [[case]], read and checked."""

from __future__ import annotations

from collections.abc import Mapping

from hotlap.core.errors import InputError, nearest
from hotlap.core.plan.axes import Fail
from hotlap.core.plan.lines import Path
from hotlap.core.record import Use
from hotlap.core.work.base import Param

KEYS = {
    "step": Param("step", "str", "the network's step and how it is run"),
    "kernel": Param("kernel", "str", "its name in the network"),
    "calls": Param("calls", "float", "calls in one step, on one GPU", low=0),
    "expected": Param("expected", "float", "expected time of one call", unit="s", low=0),
}
EXAMPLE = 'uses = [{ step = "llama-3-8b decode batch=8", kernel = "down", calls = 32, expected = "12 us" }]'


def read(given: object, case: str, path: Path, fail: Fail) -> list[Use]:
    """The uses of one case. Raises PlanError by `fail`: what is wrong and how it is written."""
    if not isinstance(given, list) or not given or not all(isinstance(item, Mapping) for item in given):
        raise fail(path, f"'uses' is a list of tables, as in {EXAMPLE}")
    return [_use(item, case, (*path, i), fail) for i, item in enumerate(given)]


def _use(item: Mapping[str, object], case: str, path: Path, fail: Fail) -> Use:
    for key in item:
        if key not in KEYS:
            raise fail((*path, key), f"a use has no key '{key}'; {nearest(key, KEYS)}")
    for key in ("step", "kernel", "calls"):
        if key not in item:
            raise fail(path, f"a use needs '{key}' ({KEYS[key].about}), as in {EXAMPLE}")
    values: dict[str, object] = {}
    for key, value in item.items():
        try:
            values[key] = KEYS[key].parse(value)
        except InputError as error:
            raise fail((*path, key), str(error)) from None
    expected = values.get("expected")
    assert expected is None or isinstance(expected, float)
    calls = values["calls"]
    assert isinstance(calls, float)
    return Use(case=case, step=str(values["step"]), kernel=str(values["kernel"]), calls=calls, expected_s=expected)

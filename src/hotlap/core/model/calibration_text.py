"""A calibration as TOML that a person can read, and back."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any

from hotlap.core.errors import SchemaError
from hotlap.core.model import processor
from hotlap.core.model.calibration import Calibration, Factor, Learnt

SCHEMA = 1
ABOUT = (
    "What a sweep on one machine taught the model, by 'hotlap model calibrate'. Factors multiply the parts of an expected time, call_s is\n"
    "# added to each call, in seconds. Of each: value, and its 90 % interval. 'hotlap model calibrate --forget NAME' removes it."
)
HEAD = ("machine", "device", "name", "driver", "target", "date", "run")
FACTORS = ("arithmetic", "memory", "host", "call_s")
SCORES = ("before", "after", "scatter")


def write(calibration: Calibration) -> str:
    """The file's text."""
    lines = [f"# {ABOUT}", f"schema = {SCHEMA}", *(f"{key} = {json.dumps(getattr(calibration, key), ensure_ascii=False)}" for key in HEAD)]
    if calibration.disturbed:
        named = ", ".join(json.dumps(name, ensure_ascii=False) for name in calibration.disturbed)
        lines += [f"disturbed = [{named}]  # measured beside other programs"]
    for family, learnt in calibration.families.items():
        lines += ["", f"[family.{family}]", f"cases = {learnt.cases}"]
        lines += [f"{key} = {getattr(learnt, key):.6g}" for key in SCORES]
        lines += [f"{key} = {_shown(getattr(learnt, key))}" for key in FACTORS]
        lines += [f'dtype."{name}" = {_shown(one)}' for name, one in learnt.dtypes.items()]
    if calibration.facts:
        lines += [
            "",
            "[measured]  # seconds: median, least and most of the rounds",
            *(f'"{n}" = {_shown(one)}' for n, one in calibration.facts.items()),
        ]
    return "\n".join(lines) + "\n"


def _shown(factor: Factor) -> str:
    return f"{{ value = {factor.value:.6g}, low = {factor.low:.6g}, high = {factor.high:.6g} }}"


def read(text: str, file: str) -> Calibration:
    """The calibration of a file's text. Raises SchemaError that names the file, what is wrong and what to do."""
    try:
        data = tomllib.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}; this Hotlap reads {SCHEMA}")
        head = {key: _text(data, key) for key in HEAD}
        disturbed = tuple(_name(one) for one in data.get("disturbed", []))
        learnt = {} if head["machine"] == processor.NAME else _table(data, "family")
        families = {name: _learnt(one, f"family.{name}") for name, one in learnt.items()}
        facts = {name: _factor(one, f"measured.{name}", positive=True) for name, one in data.get("measured", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SchemaError(
            f"{file}: not a calibration that can be read: {said}; measure it again with 'hotlap model calibrate', or remove the file"
        ) from None
    return Calibration(**head, families=families, facts=facts, disturbed=disturbed)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"'disturbed' lists names of cases, not {value!r}")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    if not isinstance(data[key], str):
        raise ValueError(f"'{key}' must be a string, not {data[key]!r}")
    return str(data[key])


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    if not isinstance(data[key], dict) or not data[key]:
        raise ValueError(f"'{key}' must be a table with an entry for each family")
    return dict(data[key])


def _learnt(data: Mapping[str, Any], where: str) -> Learnt:
    factors = {key: _factor(data[key], f"{where}.{key}", positive=key != "call_s") for key in FACTORS}
    dtypes = {name: _factor(one, f"{where}.dtype.{name}", positive=True) for name, one in data.get("dtype", {}).items()}
    before, after, scatter = (_number(data[key], f"{where}.{key}") for key in SCORES)
    cases = int(_number(data["cases"], f"{where}.cases"))
    return Learnt(cases=cases, dtypes=dtypes, before=before, after=after, scatter=scatter, **factors)


def _factor(data: Mapping[str, Any], where: str, positive: bool = False) -> Factor:
    values = [_number(data[key], f"{where}.{key}") for key in ("value", "low", "high")]
    if positive and min(values) <= 0:
        raise ValueError(f"'{where}' must be above 0")
    if not values[1] <= values[0] <= values[2]:
        raise ValueError(f"'{where}' must have its value between low and high")
    return Factor(*values)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"'{where}' must be a finite number, not {value!r}")
    return float(value)

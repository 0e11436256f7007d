"""What `--json=2` and former names of commands print: the keys that records had before shape 3 of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from hotlap.core.record import Comparison, Gap, Limit, OnDevice, Samples, Summary, Turns

KEYS: Mapping[type, Mapping[str, str]] = {  # today's → former
    Samples: {"values": "seconds", "warmup_samples": "dropped", "steady_state_found": "steady"},
    Summary: {"mad_within_rounds": "within", "mad_between_rounds": "spread"},
    Turns: {"min_effect": "gate"}, Gap: {"reference_kind": "against"}, Limit: {"calibration_level": "known"},
    OnDevice: {"vs_peers": "beside"},
    Comparison: {"min_effect": "gate", "mde": "resolvable", "environment_suspects": "could"},
}
NEW: Mapping[type, Sequence[str]] = {Samples: ("unit",)}  # keys that were not there


def keys(value: Any) -> Any:
    """A value as JSON has it, under the former keys."""
    if isinstance(value, msgspec.Struct):
        former, new = KEYS.get(type(value), {}), NEW.get(type(value), ())
        if value.__struct_config__.omit_defaults:
            return msgspec.to_builtins(value)
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {former.get(name, encoded): keys(getattr(value, name)) for name, encoded in names if name not in new}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: keys(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return [keys(inner) for inner in value] if isinstance(value, (list, tuple, set, frozenset)) else value

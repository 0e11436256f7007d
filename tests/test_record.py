"""The grammar of what is kept."""

from __future__ import annotations

import msgspec
import pytest

from hotlap.core import record
from hotlap.core.record import Case, Device, Samples
from hotlap.core.store.schema import json_schema


def test_a_case_is_known_by_what_it_measures_alone() -> None:
    a = Case(workload="stream", params={"op": "triad", "size": 1 << 20})
    b = Case(workload="stream", params={"size": 1 << 20, "op": "triad"})
    assert a.id == b.id
    assert a.id != Case(workload="stream", params={"op": "copy", "size": 1 << 20}).id
    assert a.id != Case(workload="stream", params=a.params, implementation="other").id


def test_case_ids_do_not_change() -> None:
    """They name series in everyone's bundles: a change needs a new schema."""
    assert Case(workload="stream", params={"op": "triad", "dtype": "fp32", "size": 1 << 20, "cache": "warm"}).id == "e97dd74c3665"


def test_records_survive_a_round_trip() -> None:
    samples = Samples(case="x", device="y", round=3, values=[0.1, 0.2], notices=[record.Notice("drift")], metrics={"operations": 2.0})
    assert msgspec.json.decode(record.encode(samples), type=Samples) == samples


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Case(workload="a").workload = "b"  # type: ignore[misc]


def test_a_device_is_recognised_by_uuid_before_its_place() -> None:
    assert Device(target="cuda", index=3, name="H200", kind="gpu", uuid="GPU-1").key == "GPU-1"
    assert Device(target="cuda", index=3, name="H200", kind="gpu").key == "cuda:3:H200"


def test_every_schema_version_has_its_history() -> None:
    assert max(record.SCHEMA_HISTORY) == record.SCHEMA
    assert set(record.SCHEMA_HISTORY) == set(range(1, record.SCHEMA + 1))


def test_json_schema_names_every_file_of_a_bundle() -> None:
    schema = json_schema()
    assert {name.split()[0] for name in schema["properties"]} == {"run.json", "samples.jsonl", "readings.log"}
    assert {"RunRecord", "Samples", "Readings", "Case", "Device"} <= set(schema["$defs"])

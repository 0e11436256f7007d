"""What a bundle holds, for those who read it with other programs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from hotlap.core.record import SCHEMA, SCHEMA_HISTORY, Readings, RunRecord, Samples

DIALECT = "https://json-schema.org/draft/2020-12/schema"
About = Mapping[str, Mapping[str, str]]  # record → key → what it holds


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of what a bundle holds: run.json, a line of samples.jsonl, a line of readings.log."""
    (run, samples, reading), records = components((RunRecord, Samples, Readings), about("hotlap.core.store"))
    return {
        "$schema": DIALECT,
        "title": f"Hotlap run bundle, schema {SCHEMA}",
        "history": {str(k): v for k, v in SCHEMA_HISTORY.items()},
        "properties": {"run.json": run, "samples.jsonl (each line)": samples, "readings.log (each line)": reading},
        "$defs": records,
    }


def about(package: str) -> About:
    """What each key of its records holds: its file keys.toml."""
    return tomllib.loads(resources.files(package).joinpath("keys.toml").read_text(encoding="utf-8"))


def components(kinds: Sequence[type], texts: About) -> tuple[tuple[dict[str, Any], ...], dict[str, dict[str, Any]]]:
    """A reference to the schema of each, and all schemas by name, each key with its text."""
    wanted, records = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for name, record in records.items():
        for key, schema in record["properties"].items():
            schema["description"] = texts[name][key]
    return wanted, records

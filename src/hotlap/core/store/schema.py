"""What a bundle holds, for those who read it with other programs."""

from __future__ import annotations

from typing import Any

import msgspec

from hotlap.core.record import SCHEMA, SCHEMA_HISTORY, Readings, Run, Samples


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of what a bundle holds: run.json, a line of samples.jsonl, a line of readings.log."""
    (run, samples, reading), components = msgspec.json.schema_components(
        (Run, Samples, Readings), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Hotlap run bundle, schema {SCHEMA}",
        "history": {str(k): v for k, v in SCHEMA_HISTORY.items()},
        "properties": {"run.json": run, "samples.jsonl (each line)": samples, "readings.log (each line)": reading},
        "$defs": components,
    }

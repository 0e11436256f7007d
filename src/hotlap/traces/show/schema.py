"""What `hotlap trace --json` prints, for those who read it with other programs."""

from __future__ import annotations

from typing import Any

from hotlap.core.store import schema
from hotlap.traces.arrivals import Late
from hotlap.traces.bandwidth import Moved
from hotlap.traces.meeting import GroupMismatch
from hotlap.traces.ranks import RankSteps, Role
from hotlap.traces.show.answer import SCHEMA, Answer, Answers

PLAIN = ("Ranks", "Rank")  # objects that are no record: what is printed of several ranks, and of each


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12: of one trace an Answer, of several ranks of one program Ranks, of other files Answers."""
    texts = schema.about("hotlap.traces.show")
    (answers, answer, *_), records = schema.components((Answers, Answer, GroupMismatch, Late, Moved, Role, RankSteps), texts)
    for name in PLAIN:
        records[name] = {"title": name, "type": "object", "properties": {key: {"description": text} for key, text in texts[name].items()}}
    return {
        "$schema": schema.DIALECT, "title": f"hotlap trace --json, schema {SCHEMA}",
        "anyOf": [answer, {"$ref": "#/$defs/Ranks"}, answers], "$defs": records,
    }  # fmt: skip

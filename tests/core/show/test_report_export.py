"""Markdown, CSV and JSON: the same numbers, unknown left empty."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from hotlap.core.record import Row
from hotlap.core.show import export, notices
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]


def test_markdown(cpu: Kept, golden: Callable[[str, str], None]) -> None:
    golden("table.md", export.to_markdown(*cpu))


def test_markdown_cannot_be_broken_by_a_label(cpu: Kept) -> None:
    row = replace(cpu[1][0], label="a | b <script> `c` [d](e)")
    line = next(line for line in export.to_markdown(cpu[0], [row]).splitlines() if "script" in line)
    assert "a \\| b &lt;script> \\`c\\` \\[d\\](e)" in line
    assert line.replace("\\|", "").count("|") == 6


def test_csv(cpu: Kept, golden: Callable[[str, str], None]) -> None:
    golden("table.csv", export.to_csv(*cpu))


def test_csv_is_read_back(cpu: Kept) -> None:
    label = 'with "quotes", commas\nand a line'
    rows = [replace(cpu[1][0], label=label), *cpu[1][1:]]
    found = list(csv.DictReader(io.StringIO(export.to_csv(cpu[0], rows))))
    assert found[0]["label"] == label
    assert len(found) == len(rows)
    for line, row in zip(found, rows, strict=True):
        if row.verdict.state == "not_run":
            assert line["value"] == line["share"] == ""
        else:
            assert float(line["value"]) == row.summary.median
        assert json.loads(line["params"]) == row.case.params


def test_json_has_every_row_and_null_for_what_is_not_known(cpu: Kept) -> None:
    document = msgspec.json.decode(msgspec.json.encode(export.to_json(*cpu)))
    assert document["id"] == cpu[0].run.id
    assert [d["key"] for d in document["devices"]] == cpu[0].run.devices
    assert len(document["results"]) == len(cpu[1])
    for found, row in zip(document["results"], cpu[1], strict=True):
        assert found["state"] == row.verdict.state
        assert found["value"] == (None if row.verdict.state == "not_run" else row.summary.median), "also of an invalid one"
        assert (found["notice"], found["rounds_used"], found["replaced"]) == (notices.code(row), row.summary.rounds, 0)
        if row.gap.share is None:
            assert found["share"] is None

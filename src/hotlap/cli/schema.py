"""hotlap schema"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core.store.schema import json_schema


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "JSON Schema 2020-12 of run.json, of a line of samples.jsonl and of a line of readings.log."


def run(_args: argparse.Namespace) -> int:
    """The schema, with its history."""
    terminal.print_json(json_schema())
    return 0

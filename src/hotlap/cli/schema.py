"""hotlap schema [bundle | workloads [NAME …]]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.show import workloads
from hotlap.core.store.schema import json_schema

TOPICS = {
    "bundle": "JSON Schema 2020-12 of run.json, of a line of samples.jsonl and of a line of readings.log (default)",
    "workloads": "every workload; with names, their parameters, defaults and values",
}


def add(parser: argparse.ArgumentParser) -> None:
    about = "; ".join(f"{name}: {what}" for name, what in TOPICS.items())
    parser.add_argument("topic", nargs="?", choices=TOPICS, default="bundle", help=about)
    parser.add_argument("name", nargs="*", help="workloads: only these")


def run(args: argparse.Namespace) -> int:
    """What files and plans hold, for people and for programs."""
    if args.topic == "workloads":
        return _workloads(args)
    if args.name:
        raise InputError(f"'{args.name[0]}' is one word too many: hotlap schema {args.topic}")
    terminal.print_json(json_schema())
    return 0


def _workloads(args: argparse.Namespace) -> int:
    asked = [work.find(name) for name in args.name]
    width, color = terminal.width(), terminal.color()
    if args.json:
        terminal.print_json([workloads.facts(workload) for workload in asked or work.WORKLOADS.values()])
    elif asked:
        print("\n\n".join(workloads.described(workload, width, color) for workload in asked))
    else:
        print(workloads.listed(list(work.WORKLOADS.values()), width, color))
    return 0

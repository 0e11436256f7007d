"""hotlap schema [TOPIC [NAME …]]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core import extend, work
from hotlap.core.show import codes, schema, workloads
from hotlap.features import TABLE

BUNDLE = {"bundle": "hotlap.core.store.schema:json_schema", "json": "hotlap.core.show.document:json_schema"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description}. Without a topic it prints the JSON Schema (2020-12) of a bundle, with its history."
    topics = ("workloads", "codes", *BUNDLE, *TABLE["schemas"])
    about = "workloads and their parameters; codes of notices; or the keys of a bundle or of the JSON of that command (--json: JSON Schema)"
    parser.add_argument("topic", nargs="?", choices=topics, help=about)
    parser.add_argument("name", nargs="*", help="only these workloads, codes or records")


def run(args: argparse.Namespace) -> int:
    """What files and plans hold, for people and for programs."""
    if args.topic == "workloads":
        return _workloads(args)
    if args.topic == "codes":
        return _codes(args)
    printed = extend.resolve({**BUNDLE, **TABLE["schemas"]}[args.topic or "bundle"])()
    if args.json:
        terminal.answer(args.json, printed, "json_schema")
    elif not args.topic:
        terminal.print_json(printed)
    else:
        print(schema.keys(printed, args.name, terminal.width(), terminal.color()))
    return 0


def _codes(args: argparse.Namespace) -> int:
    if args.json:
        terminal.answer(args.json, codes.facts(args.name), "codes")
    else:
        print(codes.listed(args.name, terminal.width(), terminal.color()))
    return 0


def _workloads(args: argparse.Namespace) -> int:
    asked = [work.find(name) for name in args.name]
    width, color = terminal.width(), terminal.color()
    if args.json:
        terminal.answer(args.json, [workloads.facts(workload) for workload in asked or work.WORKLOADS.values()], "workloads")
    elif asked:
        print("\n\n".join(workloads.described(workload, width, color) for workload in asked))
    else:
        print(workloads.listed(list(work.WORKLOADS.values()), width, color))
    return 0

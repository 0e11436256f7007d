"""hotlap cluster compare A B"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hotlap.cli import compare as core_compare
from hotlap.cli import terminal
from hotlap.cluster import asked, comparing
from hotlap.cluster.comparing import CampaignSide, ComparedCampaigns, ComparedGroup
from hotlap.core.analysis import compare
from hotlap.core.errors import InputError
from hotlap.core.show import comparison, comparison_page, document, layout, page, shape, table, words
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths

SHOWN = 8  # members that are named


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("side", nargs=2, metavar="CAMPAIGN", help="two campaigns, as runs are named: the second against the first")
    parser.add_argument("--min-effect", metavar="SHARE", help="minimum change to report (threshold; default: 2 %%)")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, with the intervals drawn on one scale")
    parser.add_argument("--assume-stable", action="store_true", help="allow for no drift between campaigns measured one after the other")


def run(args: argparse.Namespace) -> int:
    """A row per case and model of device, members as units; exit codes as of `compare`: 1 a case is slower, 3 inconclusive or missing."""
    min_effect = terminal.min_effect(args.min_effect) if args.min_effect is not None else compare.MIN_EFFECT
    a, b = (_side(selector) for selector in args.side)
    if a.bundle.run.id == b.bundle.run.id:
        raise InputError(f"both are the campaign {a.bundle.run.id}; name two: hotlap list kind=campaign lists them")
    compared = comparing.compared(a, b, min_effect, paths.home(), args.assume_stable)
    if args.out:
        terminal.write_page(Path(args.out), _page(compared, (a, b), args.side))
    code = core_compare.exit_code(compared.comparisons)
    if args.json == shape.SHAPE:
        terminal.print_json(_document(compared, (a, b), args.side, code))
    elif args.json:
        terminal.print_former({"groups": compared.groups, "differences": compared.differences, "alone": compared.alone})
    else:
        print("\n".join(_lines(compared, (a, b), terminal.width(), terminal.color())))
        print(*([f"\npage    {args.out}"] if args.out else []), sep="", end="\n" if args.out else "")
    return code


def _side(selector: str) -> CampaignSide:
    kept = asked.chosen(selector)
    return CampaignSide(kept, bundles.load(kept.path, readings=False))


def _document(compared: ComparedCampaigns, sides: tuple[CampaignSide, CampaignSide], names: list[str], code: int) -> dict[str, Any]:
    groups = [
        {"model": one.model, "cases": len(one.comparisons), "pairs": one.pairs, "a": one.members_a, "b": one.members_b}
        for one in compared.groups
    ]
    keys = {
        "sides": [{"name": name, "run": side.bundle.run.id} for name, side in zip(names, sides, strict=True)],
        "groups": groups, "differences": compared.differences, "alone": compared.alone,
    }  # fmt: skip
    whole = document.of_comparisons([(compared.comparisons, sides[1].bundle.run)], code, keys)
    models = [group.model for group in compared.groups for _ in group.comparisons]
    whole["cases"] = [msgspec.structs.replace(case, device=model) for case, model in zip(whole["cases"], models, strict=True)]
    return whole


def _page(compared: ComparedCampaigns, sides: tuple[CampaignSide, CampaignSide], names: Sequence[str]) -> str:
    """A section for each model of device, one for what differs, one for who is not in both."""
    first, second = (words.clean(name) for name in names)
    who = "".join(f"<li>{table.text(f'{letter}: {_about(side)}')}</li>" for letter, side in zip("AB", sides, strict=True))
    sections = [
        Section(words.clean(group.model), words.clean(f"{group.model}: {_how(group)}"), comparison_page.cases(group.comparisons))
        for group in compared.groups
    ]
    sections.append(Section("What differs", "What else differs", comparison_page.differing(compared.differences, first, second)))
    if compared.alone:
        groups = list(compared.alone)
        listed = [Cell(words.clean(", ".join(compared.alone[what]))) for what in groups]
        lost = Table([Column("members", [Cell(what) for what in groups]), Column("who", listed, wrap=True, names=True)])
        sections.append(Section("Members", "Members that are not in both", table.html(lost)))
    data = {"sides": [first, second], "groups": compared.groups, "differences": compared.differences, "alone": compared.alone}
    return page.page(f"Campaigns: {second} against {first}", sections, data, f'<ul class="sub">{who}</ul>')


def _about(side: CampaignSide) -> str:
    run = side.bundle.run
    about = " · ".join([run.id, f"{words.counted(len(side.kept.members()), 'member')} by {side.kept.campaign.launcher}", run.plan.name])
    labels = " · ".join(f"{key}={value}" for key, value in list(run.labels.items())[:3])
    return words.clean(f"{about} · {labels}" if labels else about)


def _how(group: ComparedGroup) -> str:
    return f"{group.pairs} members in both, as pairs" if group.pairs else f"{len(group.members_a)} and {len(group.members_b)} members"


def _lines(compared: ComparedCampaigns, sides: tuple[CampaignSide, CampaignSide], width: int, color: bool) -> list[str]:
    lines = list[str]()
    for name, side in zip("AB", sides, strict=True):
        lines += layout.paragraph(f"{name}  ", _about(side), width)
    for number, group in enumerate(compared.groups, 1):
        lines += ["", layout.painted(words.clean(f"{group.model}: {_how(group)}"), "bold", color)]
        last = number == len(compared.groups)
        lines += comparison.comparison(group.comparisons, (), compared.differences if last else (), width, color).splitlines()
    for what, who in compared.alone.items():
        lines += layout.paragraph(f"{what}: ", words.clean(words.some(who, SHOWN)), width)
    return lines

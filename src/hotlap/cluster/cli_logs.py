"""hotlap cluster logs NODE | --all"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from hotlap.cli import terminal
from hotlap.cluster import asked
from hotlap.cluster.folder import DONE, OUTPUTS, CampaignFolder
from hotlap.cluster.record import AttemptDone, MemberEvent, MemberState
from hotlap.core.errors import InputError, nearest

MOST_BYTES = 1 << 20  # of a stream, that are printed: its end


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", nargs="*", metavar="NODE", help="members")
    parser.add_argument("--all", action="store_true", help="of every member")
    parser.add_argument("--campaign", default="", help="which campaign, as any run is named (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """What the programs of members printed, every attempt of every step; the end of it where it is long."""
    kept = asked.chosen(args.campaign)
    members = {member.name for member in kept.members()}
    if args.node and args.all:
        raise InputError(f"give names or --all, not both: --all is of every member; {nearest('', members)}")
    if not args.node and not args.all:
        raise InputError(f"of which member? name some, or give --all; {nearest('', members)}")
    for name in args.node:
        if name not in members:
            raise InputError(f"the campaign {kept.campaign.id} has no member '{name}'; {nearest(name, members)}")
    wanted = members if args.all else set(args.node)
    ends = {(event.step, event.member, event.attempt): event for event in kept.events()}  # the last of an attempt is how it ended
    logs = [one for state in kept.states(0.0) if state.member in wanted for one in _of(kept, state, ends)]
    if args.json:
        terminal.answer(args.json, {"run": kept.campaign.id, "logs": logs})
        return 0
    for log in logs:
        print(f"== {log['member']} · {log['step']} · attempt {log['attempt']} · {log['state']}{': ' if log['why'] else ''}{log['why']}")
        for name in OUTPUTS:
            text = str(log[name])
            if text:
                print(f"-- {name}")
                sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


def _of(kept: CampaignFolder, state: MemberState, ends: Mapping[tuple[int, str, int], MemberEvent]) -> list[dict[str, object]]:
    base: dict[str, object] = {"member": state.member, "step": kept.step(state.step).name}
    if not state.attempt:
        return [{**base, "attempt": 0, "state": state.state, "why": state.why, **dict.fromkeys(OUTPUTS, "")}]
    logs: list[dict[str, object]] = []
    for attempt in range(1, state.attempt + 1):
        ended = ends.get((state.step, state.member, attempt)) if attempt < state.attempt else None
        how = {"state": ended.to, "why": ended.why} if ended else {"state": state.state, "why": state.why}
        if attempt < state.attempt and not ended:
            how = {"state": "died", "why": "its controller was killed as it began"}
        folder = kept.attempt(state.step, state.member, attempt)
        texts = {name: _end(folder / name) for name in OUTPUTS}
        if _earlier(folder):
            how["why"] = "; ".join(filter(None, (how["why"], "of a program that an earlier attempt started, which went on")))
        logs.append({**base, "attempt": attempt, **how, **texts})
    return logs


def _earlier(folder: Path) -> bool:
    """Whether its result is of a program that an attempt before started."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((folder / DONE).read_bytes(), type=AttemptDone).by == "earlier"
    return False


def _end(path: object) -> str:
    try:
        with open(str(path), "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - MOST_BYTES, 0))
            data = file.read()
    except OSError:
        return ""
    cut = f"[{size - MOST_BYTES} bytes before are left out: {path}]\n" if size > MOST_BYTES else ""
    return cut + terminal_text(data)


def terminal_text(data: bytes) -> str:
    """Text of a program as it can be printed: nothing in it steers the terminal."""
    text = data.decode(errors="replace").replace("\r\n", "\n")
    return "".join(letter if letter.isprintable() or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in text)

"""hotlap cluster accept run FILE.toml | NAME"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

import msgspec

from hotlap.bringup import accept_folder, accept_live, accept_plan, accept_show, accept_simulate, cli_accept
from hotlap.bringup.accept_driver import AcceptDriver, Measurer
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_plan import AcceptPlan
from hotlap.bringup.accept_record import PATH, AcceptEvent, NodeStanding, StepAsk
from hotlap.cluster.folder import user
from hotlap.core.errors import Interrupted
from hotlap.core.measure import signals
from hotlap.core.show import words
from hotlap.core.store import paths

INTERRUPTED = 130


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("acceptance", nargs="?", default="", metavar="FILE.toml|NAME", help="a plan, or what was begun (the newest)")
    parser.add_argument("--new", action="store_true", help="begin anew, although this plan's acceptance is there")
    parser.add_argument("--again", action="store_true", help="call lost nodes, and repeat steps that showed neither good nor bad")
    parser.add_argument("--budget", default="", metavar="TIME", help="all of it from now on, in place of the plan's; 'none': no limit")
    parser.add_argument("--max-out", default="", metavar="SHARE", help="of nodes that may be out at once (default: the plan's)")


def run(args: argparse.Namespace) -> int:
    """Goes on where it was stopped. Exit code 0 all are accepted, 1 a node has a fault, 3 evidence is missing, 130 interrupted."""
    folder = _opened(args)
    max_out = accept_plan.share(args.max_out, "--max-out") if args.max_out else folder.plan.max_out
    with folder.held():
        if args.budget:
            folder.allow(accept_plan.budget(args.budget))
        if args.again:
            _settled(folder, max_out)
            for now in folder.standings().values():
                if event := again(now):
                    folder.append(msgspec.structs.replace(event, number=len(folder.events()) + 1))
        interrupted = driven(folder, max_out)
    return cli_accept.answered(args, cli_accept.seen(folder, max_out), INTERRUPTED if interrupted else None)


def _opened(args: argparse.Namespace) -> AcceptFolder:
    home, name = paths.home(), args.acceptance
    if not name or not (name.endswith(".toml") or Path(name).is_file()):
        return accept_folder.chosen(home, name)
    plan = accept_plan.read(name)
    of_plan(plan, dict, "")  # so that a launch that cannot be is refused before anything is written
    there = accept_folder.same(home, plan)
    if there and not args.new:
        print(f"hotlap: acceptance {there.id} of this plan goes on; --new begins another", file=sys.stderr)
        return there
    if there is None and (former := next((one for one in reversed(accept_folder.every(home)) if one.plan.name == plan.name), None)):
        goes_on = f"'hotlap cluster accept run {former.id}' goes on with that one, and --budget there gives it more time"
        print(f"hotlap: acceptance {former.id} is of that name and of another plan: a new one begins; {goes_on}", file=sys.stderr)
    folder = accept_folder.begin(home, name)
    print(f"hotlap: acceptance {folder.id}, {words.counted(len(folder.plan.nodes), 'node')}", file=sys.stderr)
    return folder


def measurer(folder: AcceptFolder) -> Measurer:
    """What measures its nodes. Raises InputError."""
    return of_plan(folder.plan, folder.standings, folder.id)


def of_plan(plan: AcceptPlan, standings: Callable[[], Mapping[str, NodeStanding]], named: str) -> Measurer:
    return accept_simulate.fleet(plan, standings) if "simulate" in plan.launch else accept_live.LiveFleet(plan, named)


def _settled(folder: AcceptFolder, max_out: float) -> None:
    """The events of a step that was kept before a kill."""
    AcceptDriver(folder, measurer(folder), max_out).settle()


def driven(folder: AcceptFolder, max_out: float, scope: frozenset[str] = frozenset()) -> bool:
    """Until nothing is left to ask, or Ctrl-C: then what was measured is kept. Whether it was interrupted. The folder is held."""
    stopped = Event()

    def stop() -> None:
        stopped.set()
        print("hotlap: ends after this step; once more: at once", file=sys.stderr)

    driver = AcceptDriver(folder, measurer(folder), max_out, scope, tell, stopped.is_set, begins)
    with signals.stopping(stop):
        try:
            driver.run()
        except (Interrupted, KeyboardInterrupt):
            print(f"hotlap: interrupted; hotlap cluster accept run {folder.id} goes on", file=sys.stderr)
            return True
    return False


def begins(ask: StepAsk) -> None:
    """A line on standard error for each step."""
    beside = f", beside {len(ask.partners)} good ones" if ask.partners else ""
    text = f"{ask.step}{' again' if ask.retest else ''}: {words.counted(len(ask.nodes), 'node')}{beside}"
    print(f"hotlap: {text}", file=sys.stderr, flush=True)


def tell(event: AcceptEvent) -> None:
    """A line on standard error for what is no step on the path."""
    if event.faults and event.to != "retest":
        to = f"stays {event.to}" if event.to == event.was else f"{event.was} → {event.to}"
        text = f"{event.node}: {to}: {accept_show.causes(event.faults)}"
        print(f"hotlap: {words.clean(text)}", file=sys.stderr, flush=True)


def again(now: NodeStanding) -> AcceptEvent | None:
    """A lost node is expected again, as is one whose step showed neither good nor bad; a suspect of which its retest showed neither is
    tried again."""
    if now.state == "lost" or (now.state in PATH[:-1] and now.open):
        return person(now, "expected", "")
    return person(now, "retest", "") if now.waits == "answer" else None


def person(now: NodeStanding, to: str, reason: str, override: bool = False) -> AcceptEvent:
    """What a person does to a node; without its number."""
    return AcceptEvent(
        number=0, time_s=round(time.time(), 3), node=now.node, was=now.state, to=to, step=now.step if to == "retest" else None,  # type: ignore[arg-type]
        faults=now.faults if to == "retest" else [], by=user(), override=override, reason=reason,
    )  # fmt: skip



"""hotlap cluster collect [CAMPAIGN]"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hotlap.cluster import asked, cli_run, folder, pods, session
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import kubernetes
from hotlap.cluster.record import MemberEvent
from hotlap.core.errors import InputError
from hotlap.core.store import paths


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")
    parser.add_argument("--from", dest="place", default="", metavar="FOLDER", help="of --kubernetes: the volume of the pods' records")
    parser.add_argument("--serve", default="", metavar="HOST:PORT", help="of --kubernetes: take records by PUT there, until all have come")
    parser.add_argument("--token-file", default="", metavar="FILE", help="with --serve: the token that `cluster run` wrote")
    parser.add_argument("--for", dest="span", default="", metavar="TIME", help="with --serve: no longer than this")


def run(args: argparse.Namespace) -> int:
    """Takes what members have finished since their controller was killed, reads every bundle anew, checks it against its digest, and
    rebuilds the campaign's run from them."""
    for path in (Path(args.campaign), paths.runs(paths.home()) / args.campaign) if args.campaign else ():
        if folder.restore(path):
            print(f"hotlap: {path} had no run.json: it is made anew, without labels", file=sys.stderr)
    kept = asked.chosen(args.campaign)
    if args.place or args.serve:
        return _records(args, kept)
    with kept.held():
        session.fetch(kept, lambda event: None, asked.FANOUT)
        session.collect(kept)
    return cli_run.answered(args, kept)


def _absent(kept: CampaignFolder, launcher: kubernetes.PodLauncher) -> None:
    """Records of members why there is nothing of them."""
    why = f"no record of it is in {launcher.place}"
    names = {member.name for member in launcher.absent(kept.members())}
    for state in kept.states(0.0):
        if state.state == "never started" and state.member in names and state.why != why:
            kept.append(MemberEvent(time_s=time.time(), member=state.member, step=state.step, to="never started", by="collect", why=why))


def _records(args: argparse.Namespace, kept: CampaignFolder) -> int:
    """What pods left, read as if their agents were there; exit codes as of `cluster run`."""
    launcher = session.launcher_in(kept)
    if not isinstance(launcher, kubernetes.PodLauncher):
        raise InputError(f"the campaign {kept.campaign.id} was begun by {launcher.name}; --from and --serve go with --kubernetes")
    if args.place and args.serve:
        raise InputError("--from is a volume, --serve takes records by PUT: give one of them")
    launcher.place = pods.served(args, kept) if args.serve else Path(args.place)
    with kept.held():
        _absent(kept, launcher)
    return cli_run.measured(args, kept, asked.FANOUT, again=True, launcher=launcher)

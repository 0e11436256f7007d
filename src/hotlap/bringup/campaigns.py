"""A campaign of one step for all members, as both verbs of bring-up begin it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

import hotlap
from hotlap.cluster import asked, folder, session
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.record import Campaign, Member, StepRecord


class BegunCampaign(NamedTuple):
    """Its folder, what starts agents on its members, and how many they are."""

    kept: CampaignFolder
    launcher: AgentLauncher
    members: int


@contextmanager
def begun(args: argparse.Namespace, step: Callable[[str, Sequence[Member]], StepRecord]) -> Iterator[BegunCampaign]:
    """`step`: from the members' Python and the members; what it raises leaves no campaign. Raises InputError for members that cannot be
    asked, Unavailable where their launcher is not here."""
    args.kubernetes = None
    asked.joined(args)
    name, options, python = asked.launcher(args)
    draft = Campaign(id="", hotlap=hotlap.__version__, began="", launcher=name, options=options, python=python, gpus=args.gpus, steps=[])
    launcher = session.launcher_of(draft)
    members = launcher.members()
    try:
        order = step(python, members)
        named, began = folder.new_id()
        kept = session.begun(msgspec.structs.replace(draft, id=named, began=began, steps=[order]), members, launcher)
        print(f"hotlap: campaign {named}, {len(members)} members by {name}", file=sys.stderr)
        yield BegunCampaign(kept, launcher, len(members))
    finally:
        launcher.release()

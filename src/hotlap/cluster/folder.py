"""A campaign's folder, which is also the bundle of a run: run.json and samples.jsonl of all members, and beside them

    campaign.toml                         what, frozen
    members.jsonl                         who: the last line of a name counts
    events.jsonl                          what happened, append-only
    steps/0001-NAME/MEMBER/ATTEMPT/       task.json started.json beat stdout stderr bundle.zip done.json
    lock, probe                           who controls it now; what a member sees where it shares this folder

A result exists only with its done.json, which holds the digest of bundle.zip and is written last, by rename.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import hotlap
from hotlap.cluster import states
from hotlap.cluster.record import KIND, AttemptDone, Campaign, Member, MemberEvent, MemberState, StepRecord
from hotlap.core.errors import Busy, InputError, MachineError, SchemaError
from hotlap.core.record import Machine, Plan, RunRecord, encode
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files, lines, locks, paths
from hotlap.core.store.log import Log
from hotlap.core.store.toml import pairs, quoted

CAMPAIGN, MEMBERS, EVENTS, LOCK, FACTS = "campaign.toml", "members.jsonl", "events.jsonl", "lock", "facts"
TASK, STARTED, BEAT, BUNDLE, DONE = "task.json", "started.json", "beat", "bundle.zip", "done.json"
OUTPUTS = ("stdout", "stderr")
WHEELS = "wheels"  # while they are sent
PROBE, SHARED = "probe", "shared.zip"  # the latter is what a member itself wrote, until its digest is known


class LockedBy(msgspec.Struct, frozen=True):
    """Who controls a campaign, as its lock says."""

    pid: int
    host: str
    user: str
    since: str


@dataclass
class CampaignFolder:
    """One campaign. Reads are of the moment; `append` and `put` need `held`."""

    path: Path
    campaign: Campaign
    nonce: str = ""  # what stands in `probe` while it is held
    _log: Log | None = field(default=None, repr=False)
    _members: Log | None = field(default=None, repr=False)

    # ------------------------------------------------------------ reading

    def members(self) -> list[Member]:
        """By index. Raises SchemaError for a file that cannot be read."""
        known = {one.name: one for one in lines.read(_bytes(self.path / MEMBERS), Member, f"{self.path}/{MEMBERS}").records}
        return sorted(known.values(), key=lambda one: one.index)

    def events(self) -> list[MemberEvent]:
        """In their order; a torn last line is left out."""
        return lines.read(_bytes(self.path / EVENTS), MemberEvent, f"{self.path}/{EVENTS}").records

    def states(self, now_s: float) -> list[MemberState]:
        """Of every step and member, by the pure function of `states`; only attempts that are open are looked for on the disk."""
        events = self.events()
        beats = {place: self._beat_s(event) for place, event in states.open_attempts(events).items()}
        steps = [step.number for step in self.campaign.steps]
        return states.derive(self.members(), steps, events, beats, now_s, self.campaign.silent_s)

    def _beat_s(self, event: MemberEvent) -> float:
        with suppress(OSError):
            return (self.attempt(event.step, event.member, event.attempt) / BEAT).stat().st_mtime
        return event.time_s

    def step(self, number: int) -> StepRecord:
        return next(step for step in self.campaign.steps if step.number == number)

    def attempt(self, step: int, member: str, attempt: int) -> Path:
        """The folder of one attempt."""
        return self.path / "steps" / f"{step:04}-{self.step(step).name}" / member / str(attempt)

    def result(self, step: int, member: str, attempt: int) -> Path | None:
        """bundle.zip where its digest is that of done.json, else None."""
        folder = self.attempt(step, member, attempt)
        try:
            done = msgspec.json.decode((folder / DONE).read_bytes(), type=AttemptDone)
            with open(folder / BUNDLE, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, msgspec.MsgspecError):
            return None
        return folder / BUNDLE if digest == done.digest else None

    # ------------------------------------------------------------ writing

    @contextmanager
    def held(self) -> Iterator[None]:
        """The one controller of the campaign. Raises Busy naming the other."""
        try:
            file = open(self.path / LOCK, "a+b", buffering=0)  # noqa: SIM115 - closed at the end
        except OSError as error:
            raise MachineError(f"the campaign '{self.path}' cannot be written: {error.strerror}") from None
        with file:
            if not locks.take(file):
                raise Busy(_controlled(self.path.name, self.owner()))
            file.truncate(0)
            file.write(encode(LockedBy(os.getpid(), os.uname().nodename, user(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")))
            self._log, self._members = Log(self.path / EVENTS), Log(self.path / MEMBERS)
            try:
                self._put_probe()
                self._log.mend(MemberEvent)
                self._members.mend(Member)
                yield
            finally:
                self._log.close()
                self._members.close()
                self.nonce = ""
                with suppress(OSError):
                    (self.path / PROBE).unlink()
                self._log = self._members = None

    def owner(self) -> LockedBy | None:
        """Who holds it, or held it last."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.path / LOCK).read_bytes(), type=LockedBy)
        return None

    def _put_probe(self) -> None:
        self.nonce = secrets.token_hex(16)
        try:
            (self.path / PROBE).write_text(self.nonce)
        except OSError:  # a full disk: nobody shares it then
            self.nonce = ""

    def append(self, event: MemberEvent) -> None:
        assert self._log is not None
        self._written(self._log, event)

    def put(self, member: Member) -> None:
        assert self._members is not None
        self._written(self._members, member)

    def _written(self, log: Log, record: MemberEvent | Member) -> None:
        try:
            log.append(encode(record) + b"\n")
        except OSError as error:
            raise MachineError(
                f"the campaign's {log.path.name} cannot be written: {error.strerror}",
                f"what was collected is kept in {self.path}: make room, then hotlap cluster resume {self.path.name}",
            ) from None

    def next_attempt(self, step: int, member: str, last: int) -> int:
        """The attempt after `last`; one whose folder is there without an event is left out: its controller was killed between the two."""
        number = last + 1
        while self.attempt(step, member, number).exists():
            number += 1
        return number

    def begin_attempt(self, step: int, member: str, attempt: int, task: Mapping[str, Any]) -> Path:
        """A new folder with its task. Raises MachineError."""
        folder = self.attempt(step, member, attempt)
        try:
            folder.mkdir(parents=True)
            (folder / TASK).write_bytes(encode(task))
            (folder / BEAT).touch()
        except OSError as error:
            raise MachineError(f"'{folder}' cannot be made: {error.strerror}", f"hotlap cluster resume {self.path.name} goes on") from None
        return folder


def create(home: Path, campaign: Campaign, members: Sequence[Member], labels: Mapping[str, str], target: str) -> CampaignFolder:
    """A new campaign under `home`: the folder appears whole. Raises MachineError."""
    folder = paths.create(paths.runs(home)) / campaign.id
    run = _run(campaign, labels, target, os.uname().nodename)
    beside = folder.with_name(f".{campaign.id}")
    try:
        beside.mkdir()
        (beside / CAMPAIGN).write_text(toml(campaign), encoding="utf-8")
        (beside / MEMBERS).write_bytes(b"".join(encode(member) + b"\n" for member in members))
        for name in (EVENTS, files.SAMPLES, files.READINGS):
            (beside / name).touch()
        files.write_whole(beside / files.RUN, msgspec.json.format(encode(run), indent=2) + b"\n")
        beside.rename(folder)
    except OSError as error:
        raise MachineError(f"the campaign's folder '{folder}' cannot be written: {error.strerror}; nothing was begun") from None
    return CampaignFolder(folder, campaign)


def restore(path: Path) -> bool:
    """Whether a campaign's run.json was missing, and made anew of its campaign.toml: without labels, and the host is not known. `collect`
    fills it. Raises as `load`, MachineError."""
    if (path / files.RUN).exists() or not (path / CAMPAIGN).is_file():
        return False
    campaign = load(path).campaign
    try:
        for name in (files.SAMPLES, files.READINGS):
            (path / name).touch()
        files.write_whole(path / files.RUN, msgspec.json.format(encode(_run(campaign, {}, campaign.launcher, "unknown")), indent=2) + b"\n")
    except OSError as error:
        raise MachineError(f"the campaign '{path}' cannot be written: {error.strerror}") from None
    return True


def _run(campaign: Campaign, labels: Mapping[str, str], target: str, host: str) -> RunRecord:
    plan = Plan(name=" + ".join(step.name for step in campaign.steps), source="hotlap cluster")
    return RunRecord(
        id=campaign.id, kind=KIND, began=campaign.began, hotlap=hotlap.__version__, plan=plan, machine=Machine(host=host), target=target,
        devices=[], labels=dict(labels),
    )  # fmt: skip


def load(path: Path) -> CampaignFolder:
    """A campaign from its folder. Raises InputError where there is none, SchemaError for one that cannot be read."""
    try:
        text = (path / CAMPAIGN).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"'{path}' is no campaign: it has no {CAMPAIGN}; hotlap list kind=campaign lists those that are kept") from None
    except NotADirectoryError:
        raise InputError(f"'{path}' is a zip of a campaign; unpack it to go on with it, or show it as it is") from None
    except OSError as error:
        raise MachineError(f"'{path / CAMPAIGN}' cannot be read: {error.strerror}") from None
    return CampaignFolder(path, parsed(text, str(path / CAMPAIGN)))


def parsed(text: str, name: str) -> Campaign:
    """Raises SchemaError."""
    try:
        return msgspec.convert(tomllib.loads(text), Campaign)
    except (tomllib.TOMLDecodeError, msgspec.MsgspecError, RecursionError) as error:
        raise SchemaError(f"{name}: {error}; restore it from a copy") from None


def new_id() -> tuple[str, str]:
    """A campaign's id, and when it began."""
    now = datetime.now(UTC)
    return bundles.new_id(now), now.isoformat(timespec="milliseconds")


def step_name(text: str) -> str:
    """A folder's name of what a step does."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:40] or "step"


def toml(campaign: Campaign) -> str:
    """campaign.toml"""
    given: dict[str, Any] = msgspec.to_builtins(campaign)
    steps, options = given.pop("steps"), given.pop("options")
    tables = ["", "[options]", *quoted(options)]
    for step in steps:
        kept = step.pop("files")
        tables += ["", "[[steps]]", *pairs(step)]
        tables += ["[steps.files]", *quoted(kept)]
    return "\n".join([*pairs(given), *tables, ""])


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MachineError(f"'{path}' cannot be read: {error.strerror}") from None


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _controlled(name: str, owner: LockedBy | None) -> str:
    by = f"process {owner.pid} of {owner.user} on {owner.host} since {owner.since}" if owner else "another process"
    return f"the campaign {name} is controlled by {by}; hotlap cluster status {name} shows it, hotlap cluster stop {name} ends it"


def controlled(folder: CampaignFolder) -> LockedBy | None:
    """Who controls it now; None where nobody does."""
    try:
        with open(folder.path / LOCK, "rb", buffering=0) as file:
            return None if locks.take(file) else folder.owner()
    except OSError:
        return None


def written(path: Path, record: Any) -> None:
    """A record by rename. Raises OSError. Nobody waits for the disk, as for the bundle before it: a step of very many members would take as
    long as its disk is busy. What a power cut leaves empty is no result, and its attempt is made again."""
    files.write_whole(path, encode(record) + b"\n", sync=False)


def command(step: StepRecord, python: str, member: Member, count: int) -> list[str]:
    """What is run on a member: the first word `hotlap` stands for its Python with the package."""
    own = {"{index}": str(member.index), "{member}": member.name, "{members}": str(count)}
    words = [_filled(word, own) for word in step.argv]
    return [python, "-m", "hotlap", *words[1:]] if words[0] == "hotlap" else words


def _filled(word: str, own: Mapping[str, str]) -> str:
    for name, value in own.items():
        word = word.replace(name, value)
    return word



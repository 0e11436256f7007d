"""From the members' bundles to one run: samples of every member under a device of its own, and their facts, one member at a time.

A bundle is a stranger's file: its digest is that of done.json, three names of it are read and no other, none longer than its limit, and
where something is written is never said by it.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
import zipfile
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hotlap.cluster import folder as folders
from hotlap.cluster import states
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import AttemptDone, Member, MemberEvent, MemberState, StepRecord
from hotlap.core.errors import MachineError
from hotlap.core.record import Case, Device, Plan, RunRecord, Samples, Stop, encode
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files
from hotlap.core.work import program
from hotlap.nodes.facts import Facts

LIMITS = {"result.json": 1 << 20, "run/run.json": 32 << 20, "run/samples.jsonl": 256 << 20}
MOST_FACTS_BYTES = 32 << 20
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, KeyError, msgspec.MsgspecError)


class Unreadable(Exception):
    """Why a bundle gives no numbers; the text is for people."""


class _Where(msgspec.Struct):
    devices: list[Device] = []


class _What(msgspec.Struct):
    name: str = ""
    cases: list[Case] = []


class _MemberRun(msgspec.Struct):
    """The little of a member's run.json that its numbers need."""

    plan: _What
    machine: _Where
    devices: list[str]


class _Rounds(msgspec.Struct):
    time_s: float


class _Result(msgspec.Struct):
    rounds: list[_Rounds]


def collect(folder: CampaignFolder, ended: str = "") -> list[MemberState]:
    """Writes run.json and samples.jsonl anew from every result that is there, and returns the states; the campaign is held.

    A result whose bundle is not what its digest says becomes `truncated`. `ended`: why the campaign ended, as a kind of stop; "" while
    members lack a result. Raises MachineError.
    """
    kept = folder.states(time.time())
    by_member: dict[str, list[MemberState]] = {}
    for state in kept:
        by_member.setdefault(state.member, []).append(state)
    whole = _Whole(folder)
    beside = folder.path / f"{files.SAMPLES}.new"
    try:
        with open(beside, "wb", buffering=1 << 20) as file:
            for member in folder.members():
                for line in whole.of_member(member, by_member.get(member.name, [])):
                    file.write(line)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, folder.path / files.SAMPLES)
        run = whole.run(bundles.read_run(folder.path), ended)
        files.write_whole(folder.path / files.RUN, encode(run) + b"\n")
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise MachineError(
            f"the campaign '{folder.path}' cannot be written: {error.strerror}",
            f"every bundle is kept: make room, then hotlap cluster collect {folder.path.name}",
        ) from None
    return folder.states(time.time()) if whole.refuted else kept


class _Whole:
    """What has come together so far."""

    def __init__(self, folder: CampaignFolder) -> None:
        self.folder, self.steps = folder, {step.number: step for step in folder.campaign.steps}
        self.cases: dict[str, Case] = {}
        self.devices: dict[str, Device] = {}
        self.lines = self.refuted = 0
        self._samples, self._run = msgspec.json.Decoder(Samples), msgspec.json.Decoder(_MemberRun)
        self._result = msgspec.json.Decoder(_Result)

    def of_member(self, member: Member, kept: Sequence[MemberState]) -> Iterator[bytes]:
        """Its lines of samples.jsonl. Rounds of one case in several steps go on counting."""
        after: dict[tuple[str, str], int] = {}
        for state in kept:
            if state.state != "measured":
                continue
            step = self.steps[state.step]
            try:
                made = list(self._of_step(member, step, state))
            except Unreadable as error:
                self._refute(state, str(error))
                continue
            first = dict(after)
            for samples in made:
                place = samples.case, samples.device
                number = first.get(place, 0) + samples.round
                after[place] = max(after.get(place, 0), number + 1)
                self.lines += 1
                yield encode(msgspec.structs.replace(samples, round=number)) + b"\n"

    def _of_step(self, member: Member, step: StepRecord, state: MemberState) -> Iterable[Samples]:
        attempt = self.folder.attempt(state.step, state.member, state.attempt)
        contents = contained(_whole(attempt, state.evidence))
        if step.gather == "facts":
            self._facts(member, attempt)
            return []
        try:
            if step.gather == "run" and "run/run.json" in contents:
                return self._of_run(member, contents)
            if step.gather == "command" and step.timed:
                return self._of_command(member, step, self._result.decode(contents["result.json"]))
            return []
        except _BROKEN as error:
            raise Unreadable(f"its bundle cannot be read: {str(error)[:200]}") from None

    def _of_run(self, member: Member, contents: dict[str, bytes]) -> list[Samples]:
        run = self._run.decode(contents["run/run.json"])
        samples = self._samples.decode_lines(_whole_lines(contents.get("run/samples.jsonl", b"")))
        known = {device.key: device for device in run.machine.devices}
        names = {}
        for key in run.devices:
            device = known.get(key) or Device(target="", index=0, name=key, kind="other")
            own = device_of(member, device, len(run.devices))
            self.devices[own.key], names[key] = own, own.key
        self.cases |= {case.id: case for case in run.plan.cases}
        return [msgspec.structs.replace(one, device=names[one.device]) for one in samples if one.device in names]

    def _of_command(self, member: Member, step: StepRecord, result: _Result) -> list[Samples]:
        case = program.COMMAND.case({"argv": step.argv})
        self.cases[case.id] = case
        cpu = str(member.facts.get("cpu") or member.facts.get("product") or "member")
        device = Device(target="host", index=member.index, name=cpu, kind="cpu", uuid=member.name, serial=_serial(member))
        self.devices[device.key] = device
        return [
            Samples(case=case.id, device=device.key, round=number, values=[each.time_s], unit="s", method="program")
            for number, each in enumerate(result.rounds) if each.time_s > 0
        ]  # fmt: skip

    def _facts(self, member: Member, attempt: Path) -> None:
        """The facts of a node, as `node audit --fleet` reads them; the host in them is the member's name."""
        try:
            data = _some(attempt / folders.OUTPUTS[0], MOST_FACTS_BYTES)
            document = msgspec.json.decode(data)
            nodes = document.get("nodes", [document]) if isinstance(document, dict) else document
            facts = msgspec.convert(nodes[0], Facts)
        except (*_BROKEN, IndexError, TypeError):
            raise Unreadable("what it printed are no facts of a node") from None
        place = self.folder.path / folders.FACTS
        place.mkdir(exist_ok=True)
        files.write_whole(place / f"{member.name}.json", encode(msgspec.structs.replace(facts, host=member.name)))

    def _refute(self, state: MemberState, why: str) -> None:
        self.refuted += 1
        self.folder.append(
            MemberEvent(
                time_s=time.time(), member=state.member, step=state.step, attempt=state.attempt, was="measured", to="truncated",
                by="collect", why=why, evidence=state.evidence,
            )
        )

    def run(self, before: RunRecord, ended: str) -> RunRecord:
        """The campaign as a run."""
        plan = Plan(name=before.plan.name, source=before.plan.source, cases=list(self.cases.values()))
        machine = msgspec.structs.replace(before.machine, devices=list(self.devices.values()))
        stops = [Stop(ended)] if ended else []  # type: ignore[arg-type]
        return msgspec.structs.replace(
            before, plan=plan, machine=machine, devices=list(self.devices), kept=self.lines, stops=stops,
            ended=datetime.now(UTC).isoformat(timespec="milliseconds") if ended else "",
        )  # fmt: skip


def device_of(member: Member, device: Device, of: int) -> Device:
    """A member's device in the campaign's run: what names it begins with the member."""
    place = device.uuid if device.uuid and device.target != "simulated" else f"{device.target}:{device.index}" if of > 1 else ""
    name = f"{member.name}/{place}" if place else member.name
    return msgspec.structs.replace(device, uuid=name, serial=device.serial or _serial(member))


def _serial(member: Member) -> str:
    """Of the machine; a slot has none of its own."""
    return "" if member.slot or member.identity is None else member.identity.serial


def _whole(attempt: Path, evidence: str) -> bytes | Path:
    """bundle.zip, whose digest is that of done.json and of the event. Raises Unreadable."""
    try:
        done = msgspec.json.decode((attempt / folders.DONE).read_bytes(), type=AttemptDone)
        large = (attempt / folders.BUNDLE).stat().st_size > (64 << 20)
        if large:
            with open(attempt / folders.BUNDLE, "rb") as file:
                digest, content = hashlib.file_digest(file, "sha256").hexdigest(), None
        else:
            content = (attempt / folders.BUNDLE).read_bytes()
            digest = hashlib.sha256(content).hexdigest()
    except FileNotFoundError as error:
        raise Unreadable(f"{Path(str(error.filename)).name} is missing") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise Unreadable(f"its result cannot be read: {error}") from None
    if digest != done.digest or (evidence and digest != evidence):
        raise Unreadable("bundle.zip is not what its digest says")
    return attempt / folders.BUNDLE if content is None else content


def contained(content: bytes | Path, limits: Mapping[str, int] = LIMITS) -> dict[str, bytes]:
    """The files of `limits` that a bundle holds. Raises Unreadable for one beyond its limit, and for what is no zip."""
    contents: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content) as archive:
            inside = {info.filename: info for info in archive.infolist()}
            for name, limit in limits.items():
                if name not in inside:
                    continue
                with archive.open(inside[name]) as file:
                    data = file.read(limit + 1)  # what the zip says of its size is not believed
                if len(data) > limit:
                    raise Unreadable(f"{name} in its bundle is larger than {limit >> 20} MiB unpacked")
                contents[name] = data
    except _BROKEN as error:
        raise Unreadable(f"its bundle is no zip that can be read: {str(error)[:200]}") from None
    return contents


def _whole_lines(data: bytes) -> bytes:
    """Without a torn last line: a killed run leaves one at most."""
    return data if data.endswith(b"\n") else data[: data.rfind(b"\n") + 1]


def _some(path: Path, limit: int) -> bytes:
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"it printed more than {limit >> 20} MiB")
    return data


def reconcile(folder: CampaignFolder, by: str = "resume", why: str = "its controller ended before it", spared: Container[str] = ()) -> None:
    """What a controller that was killed left open: a result without its event is recorded, all else has died, by whom and why as given; the
    folder is held. `spared`: members of which that is not known."""
    for (step, member), event in states.open_attempts(folder.events()).items():
        if member in spared:
            continue
        attempt = folder.attempt(step, member, event.attempt)
        base: dict[str, Any] = {"time_s": time.time(), "member": member, "step": step, "attempt": event.attempt, "was": event.to}
        base["by"] = by
        if folder.result(step, member, event.attempt):
            done = msgspec.json.decode((attempt / folders.DONE).read_bytes(), type=AttemptDone)
            folder.append(MemberEvent(**base, to="measured", evidence=done.digest, code=done.code, seconds=done.seconds))
        elif event.to == "silent" and by == "resume":
            folder.append(MemberEvent(**base, to="died", why="it was silent when the campaign went on"))
        else:
            folder.append(MemberEvent(**base, to="died", why=why))

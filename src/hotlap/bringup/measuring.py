"""An isolation of a campaign's members: rounds over agents that stay. Transfers are kept as they come; an interrupted one goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from hotlap.bringup import expecting, pairs, topology
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import ASKED, KEPT, TRANSFERS, FabricLayout, Floats, Ints, Isolation, IsolationAsked, LinkKnown, Open, PairRecord
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.core.errors import InputError, MachineError, SchemaError
from hotlap.core.measure import signals
from hotlap.core.record import encode
from hotlap.core.store import files
from hotlap.core.store.log import Log


def keep_asked(kept: CampaignFolder, asked: IsolationAsked) -> None:
    """Beside the campaign, before anything is measured."""
    files.write_whole(kept.path / ASKED, encode(asked) + b"\n")


def asked_of(kept: CampaignFolder) -> IsolationAsked:
    """Raises InputError for a campaign that is no isolation, SchemaError for one that cannot be read."""
    try:
        return msgspec.json.decode((kept.path / ASKED).read_bytes(), type=IsolationAsked)
    except FileNotFoundError:
        raise InputError(f"the campaign {kept.path.name} has no {ASKED}: hotlap cluster resume goes on with what is no isolation") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise SchemaError(f"'{kept.path / ASKED}' cannot be read: {str(error)[:200]}") from None


@dataclass
class KeptTransfers:
    """Transfers of a log first, then measured ones, each direction of a round in one write. `before`: not asked for yet."""

    log: Log
    where: FabricLayout
    measure: Callable[[Ints], Floats]
    before: list[PairRecord] = field(default_factory=list)
    calls: int = 0

    def __call__(self, chosen: Ints) -> Floats:
        self.calls += 1
        if len(self.before) >= len(chosen):
            return self._replayed(chosen)
        self._drop()
        rates = self.measure(chosen)
        names, number = self.where.names, (self.calls + 1) // 2
        lines = [
            PairRecord(sender=names[a], receiver=names[b], rail=0, round=number, rate=None if np.isnan(rate) else float(rate))
            for (a, b), rate in zip(chosen.tolist(), rates[:, 0], strict=True)
        ]  # fmt: skip
        self.log.append(b"".join(encode(line) + b"\n" for line in lines))
        return rates

    def _drop(self) -> None:
        """What a torn write left of a direction."""
        if self.before:
            self.log.file.truncate(self.log.size - sum(len(encode(line)) + 1 for line in self.before))
            self.before.clear()

    def _replayed(self, chosen: Ints) -> Floats:
        lines, self.before = self.before[: len(chosen)], self.before[len(chosen) :]
        names = self.where.names
        if [(line.sender, line.receiver) for line in lines] != [(names[a], names[b]) for a, b in chosen.tolist()]:
            raise MachineError(f"{self.log.path.name} has other pairs than its seed gives", "isolate anew: another version measured them")
        return np.array([[np.nan if line.rate is None else line.rate] for line in lines])


def isolated(
    kept: CampaignFolder, launcher: AgentLauncher, asked: IsolationAsked, more: Callable[[], bool] = lambda: True,
    conductor: pairs.PairController | None = None,
) -> Isolation:
    """Measures what was not measured yet, and keeps the answer. `more`: whether there is time for another round; `conductor`: one that has
    agents already. The campaign is held. Raises MachineError where a member is lost, Interrupted."""
    own = conductor or pairs.PairController(kept, launcher)

    log = Log(kept.path / TRANSFERS)
    with signals.stopping(own.interrupt):
        members = kept.members()
        try:
            if conductor is None:
                launcher.prepare(members)
                own.open(members)
            there = [member for member in members if own.links[member.name].ready and not own.links[member.name].gone]
            if conductor is None:
                for member in members:
                    if gone := own.links[member.name].gone:
                        print(f"hotlap: without {member.name}: {gone[1]}", file=sys.stderr)
            names = [member.name for member in there]
            where = topology.of(asked.leaves, names, asked.limit)
            before = log.mend(PairRecord).records
            if lost := sorted({name for line in before for name in (line.sender, line.receiver)} - set(names)):
                raise MachineError(f"{lost[0]} took part before and has no agent now", "mend that, or isolate the others anew")
            own.begin(kept.step(asked.step), there, asked.time_s)
            transfer = KeptTransfers(log, where, _watched(own), before)
            random = np.random.default_rng(asked.seed)
            isolating = Isolating(where, transfer, random, asked.whole, asked.rounds, None, asked.expected, _progress, more=more)
            answer = isolating.run()[0]
            own.finish()
        finally:
            log.close()
            if conductor is None:
                own.close()
    lost = [each.name for each in members if each.name not in where.names]
    link = LinkKnown(code="given", rate=asked.expected) if asked.expected else expecting.of_links(own.known.values())
    unused = sorted({*own.rdma, *(name for name in asked.rdma if name in where.names)})
    rates = [asked.rdma[name] for name in unused if name in asked.rdma]
    slowest, fastest = min(rates, default=None), max(rates, default=None)
    answer = msgspec.structs.replace(answer, open=_beside(answer, unused, lost), link=link, before=asked.before)
    answer = msgspec.structs.replace(answer, rdma_gbps=slowest, rdma_most_gbps=fastest)
    files.write_whole(kept.path / KEPT, msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n")
    return answer


def _beside(answer: Isolation, with_rdma: Sequence[str], lost: Sequence[str]) -> list[Open]:
    """What is open, with members that have RDMA and such that took no part."""
    rest = list(answer.open)
    if lost:
        names = [*lost, *(name for each in rest if each.code == "untested" for name in each.members)]
        rest = [Open(code="untested", members=names, count=len(names)), *(each for each in rest if each.code != "untested")]
    return [Open(code="rdma", members=list(with_rdma), count=len(with_rdma)), *rest] if with_rdma else rest


def _watched(conductor: pairs.PairController) -> Callable[[Ints], Floats]:
    """Transfers; raises MachineError where in the first most give nothing: then it is no slow part."""
    seen = 0

    def transfer(chosen: Ints) -> Floats:
        nonlocal seen
        rates = conductor.transfer(chosen)
        if not seen and float(np.mean(rates == 0)) > 0.5:
            raise MachineError(f"most transfers gave nothing ({conductor.why})", "let members reach each other by TCP, on any port")
        seen += 1
        return rates

    return transfer


def _progress(what: str, number: int) -> None:
    print(f"hotlap: round {number}: {what}", file=sys.stderr, flush=True)


def read(path: Path) -> Isolation:
    """Of a campaign's folder. Raises InputError for one that kept none, SchemaError for one that cannot be read."""
    file = path / KEPT
    try:
        return msgspec.json.decode(file.read_bytes(), type=Isolation)
    except FileNotFoundError:
        begun = (path / ASKED).exists()
        hint = f"hotlap cluster isolate --resume {path.name} goes on" if begun else "it isolated nothing"
        raise InputError(f"the campaign {path.name} has no {KEPT}: {hint}") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise SchemaError(f"'{file}' cannot be read: {str(error)[:200]}") from None

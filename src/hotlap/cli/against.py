"""What `--against` names: read, and compared with the plan and the machine, before anything is measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hotlap.core import stand_in
from hotlap.core.analysis import expected, reference, standards
from hotlap.core.errors import InputError, nearest
from hotlap.core.measure import session
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.record import Baseline, Machine, Plan
from hotlap.core.store import baselines

RUN_ID = re.compile(r"\d{8}T\d{6}")  # how one begins
NAMES = ("limit", "expected", "baseline", "baseline:NAME", "fleet", "FILE")


@dataclass(frozen=True)
class Against:
    """One of: `kind`, a baseline, rules."""

    kind: str
    baseline: Baseline | None = None
    rules: standards.AgainstRules | None = None

    def standard(self, machine: Machine, min_effect: float, match: reference.Match) -> standards.Standard | None:
        """What the rows of a run on this machine are compared with; None where the kind alone does not say."""
        if self.baseline:
            return reference.AgainstBaseline(self.baseline, machine, min_effect, match)
        return expected.AgainstExpected(machine) if self.kind == expected.NAME else self.rules

    def check(self, plan: Plan, options: session.SessionOptions, match: reference.Match, part: bool) -> None:
        """Raises InputError where it cannot judge what is about to be measured, and what places raises."""
        spec, devices = session.places(plan, options)
        stand_in.refuse_devices(devices, "a verdict")
        if self.baseline:
            reference.check(self.baseline, plan, reference.BaselinePlace(spec.name, fingerprint(devices), devices), match, part)


def read(text: str, home: Path) -> Against:
    """A kind, a baseline by name, or a file: a baseline or rules, by its content. Raises InputError, SchemaError."""
    kind, _, name = text.partition(":")
    if text in ("limit", expected.NAME, "fleet"):
        return Against(text)
    if kind == "baseline":
        return Against(kind, baseline=baselines.load(name, home))
    path = Path(text)
    if path.is_file():
        return _of_file(path)
    if text in baselines.names(home):
        raise InputError(f"there is no file '{text}'; the baseline of that name is baseline:{text}")
    if path.suffix or "/" in text:
        raise InputError(f"there is no file '{text}'; valid: {', '.join(NAMES)}")
    if "=" in text or text == "latest" or RUN_ID.match(text):
        ways = f"hotlap baseline save {text} --name NAME, then --against baseline:NAME; or hotlap compare {text} with the other"
        raise InputError(f"a gate is not against a run, as '{text}'; {ways}")
    raise InputError(f"nothing can be compared with '{text}'; {nearest(text, NAMES)}")


def _of_file(path: Path) -> Against:
    with path.open("rb") as file:
        first = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if first == b"{":
        return Against("baseline", baseline=baselines.read(path))
    return Against("rules", rules=standards.rules(path))

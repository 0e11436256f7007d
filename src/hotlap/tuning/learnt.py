"""What searches found, kept per device and versions in the home, and offered to the next one as a first guess."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hotlap.core.errors import MachineError
from hotlap.core.record import Record, encode
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.tuning.applying import ChosenSwitches
from hotlap.tuning.record import TuningKept, TuningSetting

FILE = "tuning-learnt.jsonl"


class LearntGain(Record, frozen=True, kw_only=True):
    """A gain that was confirmed."""

    when: str  # UTC, ISO 8601
    run: str
    device: str
    versions: dict[str, str]
    subject: str
    goal: str
    settings: list[TuningSetting]
    ratio: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return " ".join(f"{setting.switch}={setting.value}" for setting in self.settings)


def keep(home: Path, kept: TuningKept, run: str) -> None:
    """A gain; anything else teaches no setting. Raises MachineError."""
    done = kept.outcome
    if done is None or done.answer != "gain" or done.ratio is None or done.low is None or done.high is None or kept.device is None:
        return
    when = bundles.read_run(paths.runs(home) / run).began
    line = LearntGain(
        when=when, run=run, device=kept.device.key, versions=kept.versions, subject=kept.asked.subject, goal=kept.asked.goal,
        settings=done.winner, ratio=done.ratio, low=done.low, high=done.high,
    )  # fmt: skip
    try:
        with (home / FILE).open("ab") as file:
            file.write(encode(line) + b"\n")
    except OSError as error:
        raise MachineError(f"what was found cannot be kept in '{home / FILE}': {error.strerror}") from None


def every(home: Path) -> list[LearntGain]:
    """The oldest first; lines that are none are left out."""
    try:
        lines = (home / FILE).read_bytes().splitlines()
    except OSError:
        return []
    gains = []
    for line in lines:
        try:
            gains.append(msgspec.json.decode(line, type=LearntGain))
        except msgspec.MsgspecError:
            continue
    return gains


def guess(home: Path, kept: TuningKept, chosen: ChosenSwitches) -> LearntGain | None:
    """The newest of this device and these versions, of the same subject rather than of another, whose settings are all searched now."""
    fitting = [
        gain for gain in every(home)
        if kept.device is not None and (gain.device, gain.versions) == (kept.device.key, kept.versions)
        and all(setting.value in chosen.values.get(setting.switch, [])[1:] for setting in gain.settings)
    ]  # fmt: skip
    same = [gain for gain in fitting if (gain.subject, gain.goal) == (kept.asked.subject, kept.asked.goal)]
    return (same or fitting)[-1] if fitting else None

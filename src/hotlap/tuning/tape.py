"""Runs of a search, kept one by one: what is there is taken from the tape first, so that a search that was cut off goes on where it was.

Here a run becomes a cost: it counts where it gave a number, its result is the one as found within the tolerance, and it holds the limits.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hotlap.core.errors import InputError, MachineError, NotSupported
from hotlap.core.record import encode
from hotlap.core.store import lines
from hotlap.tuning import benches, restoring
from hotlap.tuning.applying import ChosenSwitches, applied
from hotlap.tuning.benches import Ran, Subject
from hotlap.tuning.record import TRIALS, DropCode, Phase, TuningAsked, TuningTrial
from hotlap.tuning.search import BudgetSpent, Taken, kept
from hotlap.tuning.space import Configuration

HANGS, LEAST_S = 8.0, 5.0  # a run that takes so many times as long as found, and longer than this, hangs
SLACK = 0.1  # of the budget, for runs that take longer than those before: what is planned is planned without
RECENT, LAST = 30, 10  # runs by which the next ones are planned
SAME = 1e-12  # relative: results that are the same
Listener = Callable[[TuningTrial], None]


class TuningTape:
    """The bench of a search. `past`: runs of it that were kept before."""

    def __init__(
        self, subject: Subject, asked: TuningAsked, chosen: ChosenSwitches, folder: Path, past: Sequence[TuningTrial] = (),
        listen: Listener = lambda _: None,
    ) -> None:
        self.subject, self.asked, self.chosen, self.listen = subject, asked, chosen, listen
        self.standing = {name: values[0] for name, values in chosen.values.items()}
        self.limits = benches.limits(",".join(asked.under), asked.kind)
        self.file, self.note = folder / TRIALS, folder / "files-before.json"
        self.past, self.trials = list(past), list[TuningTrial]()

    def take(self, configuration: Configuration, phase: Phase) -> Taken:
        """Raises BudgetSpent where there is no time left for it, MachineError where the tape is of another search, or cannot be written, or
        where the machine spoils every run."""
        number = len(self.trials)
        if number < len(self.past):
            trial = self.past[number]
            if trial.settings != kept(configuration) or trial.phase != phase:
                raise MachineError("what was kept is of another search: begin anew, without --resume")
        else:
            if self.left_s() < self.each_s():
                raise BudgetSpent("there is no time left for another run")
            trial = self._run(configuration, phase, number)
            self._keep(trial)
        self.trials.append(trial)
        self.listen(trial)
        if trial.value is None:
            return Taken(None, trial.code or "failed", trial.reason)
        return Taken(1 / trial.value if self.asked.better == "higher" else trial.value)

    def room(self) -> int:
        """By what the last runs took; below 0 where more is spent than there was."""
        each = self.each_s()
        return math.floor((self.left_s() - SLACK * self.asked.budget_s) / each) if each > 0 else 0

    def each_s(self) -> float:
        """Mean of the last runs, or of the very last where they take longer, or the shortest of three where each of them does; 0 before
        the first."""
        seconds = [trial.seconds for trial in self.trials[-RECENT:]]
        return max(statistics.fmean(seconds), statistics.fmean(seconds[-LAST:]), min(seconds[-3:])) if seconds else 0.0

    def left_s(self) -> float:
        return self.asked.budget_s - sum(trial.seconds for trial in self.trials)

    # ------------------------------------------------------------ one run

    def _run(self, configuration: Configuration, phase: Phase, number: int) -> TuningTrial:
        began = time.monotonic()
        blank = TuningTrial(number=number, phase=phase, settings=kept(configuration))
        wanted = applied(self.chosen.switches, self.standing, configuration)
        limit_s, late, over = self._limit()
        try:
            with restoring.written(self.note, wanted.files):
                ran = self.subject.run(wanted, number, limit_s)
            code, reason = self._fault(ran, configuration)
            value = None if code else ran.value
        except benches.Disturbed:
            raise
        except (InputError, NotSupported, MachineError) as error:
            ran, code, reason, value = Ran(math.nan), "failed", str(error), None
        seconds = time.monotonic() - began
        if code == "failed" and seconds >= limit_s:
            code, reason = late, f"it ran longer than {over}, and was ended"
        return msgspec.structs.replace(
            blank, value=value, result=ran.result, metrics=dict(ran.metrics), seconds=seconds, code=code, reason=reason,
        )  # fmt: skip

    def _limit(self) -> tuple[float, DropCode, str]:
        """Longer than as found ever took, and at most what is left; the code and what it is, for a run that is ended by it."""
        longest = float(self.asked.how.get("timeout", "60"))
        usual = [trial.seconds for trial in self.trials if not trial.settings and trial.value is not None]
        limit_s = min(longest, max(HANGS * max(usual), LEAST_S)) if usual else longest
        if self.left_s() < limit_s:
            return self.left_s(), "no_time", f"the {self.left_s():.3g} s that the budget had left (--budget)"
        return limit_s, "timed_out", f"its limit of {limit_s:.3g} s{' (--timeout)' if limit_s == longest else ''}"

    def _fault(self, ran: Ran, configuration: Configuration) -> tuple[DropCode | None, str]:
        """Why a run with a number does not count."""
        if not (math.isfinite(ran.value) and ran.value > 0):
            return "failed", f"its number is {ran.value:g}: gains are shares of numbers above zero"
        if reason := self._changed(ran, configuration):
            return "results_changed", reason
        for limit in self.limits if configuration else ():
            if limit.metric in ran.metrics and ran.metrics[limit.metric] > limit.limit_s:
                return "over_limit", f"{limit.metric} of {ran.metrics[limit.metric]:.4g} s, over {limit.text}"
        return None, ""

    def _changed(self, ran: Ran, configuration: Configuration) -> str:
        """How its result differs from those as found, beyond what those differ and the tolerance; "" where it does not."""
        usual = [trial.result for trial in self.trials if not trial.settings and trial.result is not None]
        if not configuration or ran.result is None or not usual:
            return ""
        if not math.isfinite(ran.result):
            return f"its result is {ran.result:g}"
        low, high = min(usual), max(usual)
        allowed = self.tolerance(configuration) * max(abs(statistics.median(usual)), 1e-300)
        if low - allowed <= ran.result <= high + allowed:
            return ""
        return f"its result is {ran.result:.6g}, as found {statistics.median(usual):.6g}: further off than {allowed:.2g}"

    def tolerance(self, configuration: Configuration) -> float:
        """Relative: what was asked; else the largest of its switches'."""
        if self.asked.tolerance is not None:
            return self.asked.tolerance
        each = [self.chosen.switches[setting.switch].tolerance for setting in configuration]
        return max([SAME, *(one for one in each if one is not None)])

    def _keep(self, trial: TuningTrial) -> None:
        try:
            with self.file.open("ab") as file:
                file.write(encode(trial) + b"\n")
        except OSError as error:
            raise MachineError(f"the search cannot be kept: {error.strerror}; what there is lies in {self.file.parent}") from None


def read(data: bytes) -> list[TuningTrial]:
    """Runs that were kept; a torn last line is left out. Raises SchemaError for any other that cannot be read."""
    return lines.read(data, TuningTrial, TRIALS).records


def repeats(trials: Sequence[TuningTrial], tolerance: float) -> str:
    """What as found does not repeat of its result; "" where it does."""
    results = [trial.result for trial in trials if not trial.settings and trial.result is not None]
    if len(results) < 2 or max(results) - min(results) <= tolerance * abs(statistics.median(results)):
        return ""
    return f"as found the result is {min(results):.6g} to {max(results):.6g}"



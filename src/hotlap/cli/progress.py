"""How a run is going, on standard error: one line rewritten on a terminal, one line a round in a log (at most one in 5 s)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.measure.protocol import SHORTEST_SLOT_S, CaseDone, CaseStarted, RoundDone
from hotlap.core.measure.rounds import PATIENCE, PATIENCE_ROUND, REPLACED
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import Device, MeasureOptions, Plan, Samples
from hotlap.core.store.fold import FEWEST_GOOD, bad

BAR = 20  # characters
START_S = 2.0  # of a round's process: its target, its sensors
BEYOND = 1.1  # times what was said at the start: what rounding hides is not said
ENOUGH_NODES = 4  # simulated nodes that say how long the others take
LOG_S = 5.0  # between two lines of rounds in a log


class ExpectedTime(NamedTuple):
    """Seconds that a run will take: for the fewest rounds of its plan, for the most, and at most where other programs disturb rounds,
    which are waited for and replaced."""

    low_s: float
    high_s: float
    disturbed_s: float


def expected(
    plan: Plan, target: str, limit_s: float = math.inf, busy: bool = False, start_s: float = START_S,
) -> ExpectedTime | None:  # fmt: skip
    """From what the plan gives its rounds, and its budget; nothing at least for programs, which take the time they take. None for a
    simulated device, whose time is its own. `busy`: the most is that of a machine where others run. `start_s`: of a round's processes."""
    if target.startswith("simulated"):
        return None
    asked = plan.measure
    if asked.sustain_s:
        return ExpectedTime(*(min(asked.sustain_s, limit_s) for _ in range(3)))
    each_s = asked.round_s + start_s
    low_s, high_s = (0.0, asked.budget_s) if (runs := executions(plan, target)) else (each_s * asked.rounds, each_s * asked.rounds_max)
    high_s = max(min(high_s, asked.budget_s), low_s)
    others_s = (1 + PATIENCE) * asked.budget_s if runs else longest(asked, 0.0, rounds_most(asked, 0, 0), each_s)
    disturbed_s = max(others_s, high_s)
    return ExpectedTime(*(min(one, limit_s) for one in (low_s, disturbed_s if busy else high_s, disturbed_s)))


def executions(plan: Plan, target: str) -> bool:
    """Whether a round is an execution of each program."""
    return target == "host" and all(work.traits(case.workload).source == "program" for case in plan.cases)


def rounds_most(asked: MeasureOptions, good: int, bad_ones: int) -> float:
    """Rounds that a case with so many may still have: to all the good ones it may have, and to all the bad ones that may be replaced."""
    over = good >= asked.rounds_max or bad_ones > REPLACED * asked.rounds_max
    return 0.0 if over else (1 + REPLACED) * asked.rounds_max + 1 - good - bad_ones


def longest(asked: MeasureOptions, elapsed_s: float, rounds: float, each_s: float) -> float:
    """When `rounds` more end at the latest where others disturb them: each waiting as long as it may, and no longer than the budget with
    the patience on top of it."""
    by_rounds_s = elapsed_s + rounds * (each_s + PATIENCE_ROUND * asked.round_s)
    return min(by_rounds_s, (1 + PATIENCE) * asked.budget_s + each_s)


class Progress:
    """Listens to a session."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.plan: Plan | None = None
        self.labels: dict[str, str] = {}
        self.done = self.failed = 0
        self.clock = SystemClock()
        self.began_s = self.logged_s = self.clock.now()
        self.limit_s = math.inf
        self.expected: ExpectedTime | None = None
        self.promised: ExpectedTime | None = None  # at the start
        self.rounds_s = 0.0
        self.good: dict[tuple[str, str], int] = {}  # rounds by device and case that count
        self.bad: dict[tuple[str, str], int] = {}  # and those that were disturbed or failed
        self.of_round: dict[str, set[str]] = {}  # by device, the cases of its last round
        self.disturbed = False  # rounds were replaced, or a look found other programs
        self.started_once = False  # one process for all rounds
        self.drawn = False
        self.devices: list[str] = []  # of several that are measured one after another, by key, those that have begun
        self.count_devices, self.together = 1, 0

    def several(self, count: int, together: bool) -> None:
        """How many devices will be measured; where one after another, lines say which one it is. Before `begin`."""
        self.count_devices = 1 if together else count
        self.together = count if together and count > 1 else 0

    def begin(
        self, plan: Plan, target: str = "", limit_s: float = math.inf, busy: bool = False, sides: Sequence[Plan] = (),
    ) -> None:  # fmt: skip
        """What is going to be measured; where it is known on which one device and for how long at most, how long it will take. `busy`:
        a look found other programs. `sides`: the plans, this one too, that are measured in turns; the first one's listener tells of all."""
        self.limit_s, self.started_once, self.disturbed = limit_s, executions(plan, target), busy
        tells = not sides or sides[0] is plan
        self.plan = plan = _in_turns(plan, sides) if sides else plan
        self.labels = {case.id: work.label(case) for case in plan.cases}
        self.began_s = self.clock.now()
        self.logged_s = self.began_s - LOG_S
        self.expected = expected(plan, target, limit_s, busy, START_S * max(len(sides), 1)) if target else None
        self.promised = self.expected
        if not target and tells and (self.together or self.count_devices > 1):
            how = f"{self.together} devices together" if self.together else f"{self.count_devices} devices, one after another"
            self._line(f"{how}: {self._rounds()} round{'' if plan.measure.rounds_max == 1 else 's'} of {_cases([len(plan.cases)])} on each")
        if not self.expected or not tells:
            return
        counts = [len(one.cases) for one in sides or [plan]]
        if short := too_short(plan, target, limit_s, counts):
            self._line(short)
            return
        if plan.measure.sustain_s:
            self._line(f"{_about(self.expected, False)}: {_cases(counts)}, round after round")
            return
        good = "good " if busy and not self.started_once else ""
        what = f"{self._rounds()} {good}round{'' if plan.measure.rounds_max == 1 else 's'} of {_cases(counts)}"
        what += ", until each is as exact as asked" if plan.measure.rounds < plan.measure.rounds_max else ""
        most = int(REPLACED * plan.measure.rounds_max) + 1
        what += f"; disturbed ones are waited for and replaced, at most {most} of a case" if good else ""
        self._line(f"{_about(self.expected, busy)}: {what}")

    def __call__(self, device: Device, number: int, event: CaseStarted | CaseDone | RoundDone | str) -> None:
        if device.key not in self.devices:
            self.devices.append(device.key)
        if isinstance(event, str):
            self._line(event)
        elif isinstance(event, CaseStarted):
            self._draw(device, number, self.labels.get(event.case, event.case))
        elif isinstance(event, CaseDone):
            self.done += 1
            self.count(event.samples)
            if event.samples.status in ("error", "invalid"):
                self.failed += 1
                if number == 0:
                    again = "; another round takes its place" if event.samples.cause == "timers" else ""
                    self._line(f"round 1, {self.labels.get(event.samples.case)}: {event.samples.status}: {event.samples.reason}{again}")
        else:
            self._ended(device, number, event.seconds)

    def count(self, samples: Samples) -> None:
        """What a case gave in a round, also of one that was measured before."""
        cases = self.of_round.setdefault(samples.device, set())
        if samples.case in cases:  # the next round
            cases.clear()
        fault = bad(samples)
        self.disturbed |= bool(fault)
        if fault or samples.status == "measured":
            cases.add(samples.case)
            key = samples.device, samples.case
            self.good[key] = self.good.get(key, 0) + (not fault)
            self.bad[key] = self.bad.get(key, 0) + bool(fault)

    def nodes(self, done: int, total: int) -> None:
        """How many of several simulated nodes are measured."""
        now_s = self.clock.now()
        left_s = (now_s - self.began_s) * (total / done - 1) if done >= ENOUGH_NODES else 0.0
        text = f"{done} of {total} nodes" + (f", about {duration(left_s)} left" if left_s > 0.5 else "")
        if self.live:
            self.stream.write(f"\r\x1b[K{text}")
            self.stream.flush()
            self.drawn = True
        elif now_s - self.logged_s >= LOG_S:
            self.logged_s = now_s
            self._line(text)

    def _ended(self, device: Device, number: int, seconds: float) -> None:
        """A round is over: what is expected of the rest follows from those that are done."""
        assert self.plan is not None
        now_s, asked = self.clock.now(), self.plan.measure
        if self.expected:
            self.rounds_s += seconds
            elapsed_s, done, good = now_s - self.began_s, number + 1, self._good(device, number + 1)
            each_s = (self.rounds_s if self.started_once else elapsed_s) / done
            most = self._most(device, done)
            for_good_s = each_s * done / good if self.disturbed and good else each_s  # as many are replaced as until now
            low_s, high_s = (
                elapsed_s + min(for_good_s * max(rounds - good, 0), each_s * most) for rounds in (asked.rounds, asked.rounds_max)
            )
            disturbed_s = longest(asked, elapsed_s, most, each_s)
            low_s = min(low_s, disturbed_s) if self.disturbed else low_s
            disturbed_s = max(disturbed_s, low_s)
            high_s = min(high_s, disturbed_s) if self.disturbed else min(high_s, max(asked.budget_s, low_s))
            self.expected = ExpectedTime(*(min(one, self.limit_s) for one in (low_s, high_s, disturbed_s)))
        if not self.live and now_s - self.logged_s >= LOG_S:
            self.logged_s = now_s
            left = self._left(now_s, device, number + 1) or self._left_of_devices(now_s, device, number + 1)
            own_clock = " of simulated time" if device.target == "simulated" else ""
            took = f"{self._round(device, number + 1, number + 1)}: {seconds:.1f} s{own_clock}"
            self._line(f"{self._which(device)}{device.selector} {took}{left}")

    def _left(self, now_s: float, device: Device, done: int) -> str:
        """What is left: of the fewest rounds, or at most where those are done; where rounds are replaced, if as many are good as of the
        `done` ones until now, and nothing while none is."""
        if self.expected is None or (self.disturbed and done and not self._good(device, done)):
            return ""
        if_so = " at this rate" if self.disturbed and done else ""
        low_s, high_s, _ = (max(end_s - (now_s - self.began_s), 0.0) for end_s in self.expected)
        if low_s > 0.5:
            return f", {self._slower(self.expected.low_s)}about {duration(low_s)} left{if_so}"
        if high_s <= 0.5:
            return ""
        return f", {self._slower(self.expected.high_s)}at most {duration(high_s)} left{if_so or ' if no other program runs'}"

    def _which(self, device: Device) -> str:
        """Of several that are measured one after another: which one it is."""
        if self.count_devices < 2:
            return ""
        return f"device {self.devices.index(device.key) + 1} of {self.count_devices}, "

    def _left_of_devices(self, now_s: float, device: Device, done: int) -> str:
        """Of devices one after another: what is left if the others take as long as those until now."""
        if self.count_devices < 2 or self.plan is None or (device.target == "simulated" and len(self.devices) < 2):
            return ""  # the first simulated device takes longest: it begins the process
        over = self.devices.index(device.key) + min(done / self.plan.measure.rounds, 1.0)
        if not over or over >= self.count_devices:
            return ""
        return f", about {duration((now_s - self.began_s) * (self.count_devices / over - 1))} left at this rate"

    def _slower(self, end_s: float) -> str:
        """That a run which ends then takes longer than was said at its start; "" where it does not."""
        if self.promised is None:
            return ""
        most_s = self.promised.disturbed_s if self.disturbed else self.promised.high_s
        return "slower than expected: " if end_s > BEYOND * most_s else ""

    def _good(self, device: Device, done: int) -> int:
        """Good rounds of the case of its last round that has the fewest; `done` where nobody told of its cases."""
        return min((self.good[device.key, case] for case in self.of_round.get(device.key, ())), default=done)

    def _most(self, device: Device, done: int) -> float:
        """Rounds that may still come, of the case that may have most; 0 where each has all it may."""
        assert self.plan is not None
        keys = [key for key in self.good if key[0] == device.key]
        asked = self.plan.measure
        return max((rounds_most(asked, self.good[key], self.bad[key]) for key in keys), default=rounds_most(asked, done, 0))

    def _round(self, device: Device, number: int, done: int) -> str:
        """Which round this is; where some were replaced, how many of those that are over are good, and what comes of too few."""
        if self.plan is not None and self.plan.measure.sustain_s:
            return f"round {number}"  # their number is what the time makes of it
        good = self._good(device, done)
        if good >= done:
            return f"round {number} of {self._rounds()}"
        below = f"; if fewer than {FEWEST_GOOD} are good at the end, disturbed rounds count, too" if good < FEWEST_GOOD else ""
        return f"round {number}, {good} of {done} good ({self._rounds()} wanted{below})"

    def _rounds(self) -> str:
        assert self.plan is not None
        low, high = self.plan.measure.rounds, self.plan.measure.rounds_max
        return str(low) if low == high else f"{low} to {high}"

    def _draw(self, device: Device, number: int, label: str) -> None:
        if not self.live or self.plan is None:
            return
        total = max(len(self.plan.cases) * self.plan.measure.rounds, 1)
        filled = int(min(self.done / total, 1.0) * BAR)
        now_s = self.clock.now()
        left = self._left(now_s, device, number) or self._left_of_devices(now_s, device, number)
        text = f"{'━' * filled}{'╌' * (BAR - filled)} {self._round(device, number + 1, number)}{left}  {label}"
        self.stream.write(f"\r\x1b[K{self._which(device)}{device.selector}  {text}"[:160])
        self.stream.flush()
        self.drawn = True

    def _line(self, text: str) -> None:
        self.end()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def end(self) -> None:
        """Clears the line that was being rewritten."""
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.drawn = False


def _in_turns(plan: Plan, sides: Sequence[Plan]) -> Plan:
    """The plan with the times of all `sides`, for a round of each is over before its next one."""
    round_s, budget_s = (sum(getattr(one.measure, name) for one in sides) for name in ("round_s", "budget_s"))
    return replace(plan, measure=replace(plan.measure, round_s=round_s, budget_s=budget_s))


def _cases(counts: Sequence[int]) -> str:
    """How many cases; of several sides, of each."""
    said = f"{' and '.join(map(str, dict.fromkeys(counts)))} case{'' if set(counts) == {1} else 's'}"
    return said if len(counts) == 1 else f"{said} {'each ' if len(set(counts)) == 1 else ''}on {len(counts)} targets, in turns"


def too_short(plan: Plan, target: str, limit_s: float, counts: Sequence[int] = ()) -> str:
    """What a budget cannot give, and which can; "" where the fewest rounds fit. Each round is a fresh process, but for programs.
    `counts`: cases of each side, where several are measured in turns."""
    asked = plan.measure
    start_s = START_S * max(len(counts), 1)
    round_s = start_s + SHORTEST_SLOT_S * sum(counts or [len(plan.cases)])
    if executions(plan, target) or limit_s >= asked.rounds * round_s:
        return ""
    used_s = max(asked.budget_s - limit_s, 0.0)  # to find devices and to look at the machine
    count, needed_s = max(int(limit_s / round_s), 1), 5 * math.ceil((asked.rounds * round_s + used_s) / 5 + 1)
    used = f", of which finding devices took {duration(used_s)}," if used_s >= 1 else ""
    wanted, yields = f"{asked.rounds} rounds", f"{count}, and an interval from few rounds or none"
    if limit_s < round_s:
        wanted, yields = "a single round", "numbers of some cases at most, without intervals"
    return (
        f"a budget of {duration(asked.budget_s)}{used} is too short for {wanted} of about {duration(round_s)}, {start_s:g} s of it "
        f"to start: expect {yields}; --budget '{needed_s} s' is enough for {asked.rounds} on an idle machine"
    )


def _about(whole: ExpectedTime, busy: bool) -> str:
    """How long, and what decides it. `busy`: the most is that of a busy machine."""
    low, high, disturbed = map(duration, whole)
    if busy and whole.low_s and low != high:
        return f"at least {low}, and up to about {high} on a machine as busy as this"
    said = f"at most {high}" if not whole.low_s else f"about {low}" if low == high else f"about {low} to {high}"
    return said if disturbed == high else f"{said}, up to {disturbed} if other programs run"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``70 s``, ``5 min``; no finer than is known."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds < 20 else f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

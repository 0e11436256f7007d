"""Events of one kernel: blocks take slots, fill, run their steps at rates that depend on who else runs, and end.

Between two events every rate is constant: a step of a tile takes as long as its unit's busiest pipe needs for all tiles there,
or as its own loads need to arrive (bytes in flight ÷ latency); L2 and memory are shared in proportion to demand when more is
asked than they give. Time is in seconds. Nothing is random.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels.base import Chip, Floats
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate.cache import Cache
from hotlap.core.model.simulate.tasks import SimulatedKernel, pipe_cycles, slots

IDLE, FILLING, RUNNING, ENDING = 0, 1, 2, 3
DRAINED = 1e-6  # of what may wait: so much below, writes no longer hold up reads
READS = 0.5  # of memory's bandwidth for reads, while more writes wait than L2 holds
ONE = np.ones(1)
# Events within this share of a mean tile's time are handled at once; what one lacked it makes up later: off by 0.2 % on average.
TOGETHER = 0.05


@dataclass
class Trace:
    """What a kernel did. `causes`: seconds by what the units waited for; they add up to `seconds`."""

    seconds: float
    events: int
    slots: int
    dram_read: float
    dram_written: float
    l2_bytes: float
    l2_missed: float
    causes: dict[str, float] = field(default_factory=dict)


class Engine:
    """One kernel on one machine at one clock."""

    def __init__(self, kernel: SimulatedKernel, chip: Chip) -> None:
        self.kernel, self.chip, self.cache = kernel, chip, Cache(chip, kernel)
        self.slots = slots(kernel.block, chip)
        if kernel.tiles < chip.units * self.slots:
            self.slots = max(1, -(-kernel.tiles // chip.units))
        n = self.slots * chip.units  # slot-major: blocks go to all units before a second one to any
        self.phase = np.zeros(n, np.int8)
        self.left = np.full(n, np.inf)  # steps of a running tile, seconds of a filling or ending one
        self.steps, self.cap, self.dram, self.writes = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        self.next = self.events = self.started = self.active = 0
        self.time_s, self.read, self.reading, self.backlog = 0.0, 0.0, 0.0, 0.0
        self.causes: dict[str, float] = defaultdict(float)
        self.split: tuple[tuple[str, float], ...] = ()
        self._rates()

    def _rates(self) -> None:
        """Steps per second of each of c tiles on one unit, and what holds them there."""
        kernel, clock = self.kernel, self.chip.clock_hz
        pipes = pipe_cycles(kernel, self.chip)
        top = max(pipes, key=lambda name: pipes[name])
        cycles = pipes[top] + (1.0 - kernel.overlap) * (sum(pipes.values()) - pipes[top] - pipes["L2 port"] * (top != "L2 port"))
        c = np.arange(self.slots + 1)
        self.table = clock / np.maximum(np.maximum(c * cycles, kernel.step.latency_cycles), 1e-9)
        self.holds = [top if k * cycles >= kernel.step.latency_cycles else "instruction latency" for k in range(self.slots + 1)]
        self.l2_b_s = facts.L2_SLICE_BYTES * self.chip.l2_factor * self.chip.units * self.chip.clock_max_hz
        self.dram_b_s = facts.DRAM_SHARE * kernel.dram_share * self.chip.memory_b_s
        self.l2_s = facts.L2_CYCLES / clock
        self.l2_step_bytes = kernel.step.l2_bytes + kernel.step.l2_written_bytes
        self.start_s, self.end_s = kernel.start_cycles / clock, kernel.end_cycles / clock
        self.turn_s = self.end_s if kernel.turn_cycles is None else kernel.turn_cycles / clock
        self.together_s = TOGETHER * (float(kernel.steps.mean()) / self.table[-1] + self.end_s)

    def start(self, at: NDArray[np.int64], warm: bool) -> None:
        """Puts the next tiles on these slots; `warm`: their loads began while the tiles before them ended."""
        kernel = self.kernel
        self.started = n = min(len(at), kernel.tiles - self.next)
        at, first, end = at[:n], self.next, self.next + n
        self.next = end
        steps = kernel.steps[first:end]
        came = self.cache.touch(kernel, first, end)
        total = float(np.add.reduce(steps))
        asked = total * kernel.step.l2_bytes
        latency = self.l2_s + min(1.0, came / asked if asked else 0.0) * facts.MEMORY_S
        self.read += came
        self.phase[at], self.steps[at] = FILLING, steps
        out = kernel.written_bytes[first:end] * self.cache.written_share
        flows = kernel.step.l2_written_bytes > 0.0  # written as it goes, beside what is read
        self.dram[at] = (came + (float(np.add.reduce(out)) if flows else 0.0)) / max(total, 1e-30)
        self.writes[at] = 0.0 if flows else out
        self.cap[at] = kernel.stages / latency
        first_load = latency * kernel.loads if asked else 0.0
        hidden = kernel.ahead and warm
        wait_s = self.turn_s if hidden else self.start_s + first_load
        if n < len(self.phase):
            self.left[at] = wait_s
        else:  # nothing else runs: no event until all are filled
            self.wait(wait_s)
            self.phase[at], self.left[at] = RUNNING, steps

    def wait(self, seconds: float) -> None:
        """Time in which no tile runs."""
        self.account(0, seconds)
        self.time_s += seconds
        self.backlog = max(0.0, self.backlog - seconds * self.dram_b_s)

    def advance(self) -> None:
        """To the next event."""
        running = self.phase == RUNNING
        here = running if self.slots == 1 else running.reshape(self.slots, -1).sum(axis=0)
        units = int(np.count_nonzero(here))
        speed = np.where(running, self.share(running, here), 1.0) if units else ONE  # seconds pass at one second a second
        need = self.left / speed
        passed = min(float(need.min()), self.drained())
        self.account(units, passed)
        self.time_s += passed
        self.events += 1
        self.backlog = max(0.0, self.backlog - passed * (self.dram_b_s - self.reading * (units > 0)))
        self.left -= speed * passed
        done = (need <= passed + self.together_s).nonzero()[0]
        if len(done):  # none where writes have drained
            self.finish(done, need[done] - passed)

    def drained(self) -> float:
        """Seconds until waiting writes fit L2 again and reads have all of memory's bandwidth; inf where they do."""
        over, pace = self.backlog - self.cache.dirty, self.dram_b_s - self.reading
        return (over + DRAINED * self.cache.dirty) / pace if over >= 0.0 and pace > 0.0 else np.inf

    def share(self, running: NDArray[np.bool_], here: NDArray[np.int64] | NDArray[np.bool_]) -> Floats:
        """Steps per second of all running tiles, and what holds them."""
        if self.slots == 1:
            most, alone = 1, np.full(len(running), self.table[1])
        else:
            most, alone = int(here.max()), np.tile(self.table[here], self.slots)
        rate: Floats = np.minimum(alone, self.cap)
        rate *= running
        relative, tiles = rate / alone, float(np.count_nonzero(running))
        dram, l2 = float(rate @ self.dram), float(np.add.reduce(rate)) * self.l2_step_bytes
        room = self.dram_b_s * (1.0 if self.backlog < self.cache.dirty else READS)
        down_dram, down_l2 = min(1.0, room / max(dram, 1.0)), min(1.0, self.l2_b_s / max(l2, 1.0))
        capped = free = float(np.add.reduce(relative)) / tiles
        if down_dram < 1.0 or down_l2 < 1.0:
            down = np.where(self.dram > 0, min(down_dram, down_l2), down_l2)
            rate *= down
            free = float(relative @ down) / tiles
        self.reading = dram * min(down_dram, down_l2)
        self.split = ((self.holds[most], free), ("memory latency", 1.0 - capped), ("DRAM" if down_dram < down_l2 else "L2", capped - free))
        return rate

    def account(self, units: int, passed: float) -> None:
        """Who waited for what, as shares of all units."""
        active = self.phase != IDLE
        if self.slots > 1:
            active = active.reshape(self.slots, -1).any(axis=0)
        occupied, causes, share = int(np.count_nonzero(active)), self.causes, passed / self.chip.units
        causes["tail"] += share * (self.chip.units - occupied)
        causes["fill and drain"] += share * (occupied - units)
        if units:
            for name, part in self.split:
                causes[name] += share * units * part

    def finish(self, done: NDArray[np.int64], late_s: Floats) -> None:
        """Moves tiles on: filled ones run; those that ran end; where a block ends or looks ahead, the next tile starts."""
        was = self.phase[done]
        one = bool((was == was[0]).all())
        for phase in (ENDING, RUNNING, FILLING):  # what falls free is known before anything new starts
            if one and was[0] == phase:
                self.move(phase, done, late_s)
            elif not one and (here := was == phase).any():
                self.move(phase, done[here], late_s[here])

    def move(self, phase: int, at: NDArray[np.int64], late_s: Floats) -> None:
        """Takes slots out of this phase; `late_s`: what they still lacked, made up in the next."""
        more, ahead = self.next < self.kernel.tiles, self.kernel.ahead
        if phase == FILLING:
            self.phase[at], self.left[at] = RUNNING, self.steps[at] + late_s * self.table[-1]
            return
        if phase == RUNNING:
            self.backlog += float(np.add.reduce(self.writes[at]))
            self.phase[at], self.left[at] = ENDING, self.end_s + late_s
            if more and not ahead and len(at) == len(self.phase):  # nothing else runs: no event until all have ended
                self.wait(self.end_s)
                phase = ENDING
        if phase == ENDING:
            self.phase[at], self.left[at] = IDLE, np.inf
            self.active -= len(at)
        if more and (phase == RUNNING) == ahead:
            self.start(at, warm=True)
            self.active += 0 if ahead else self.started
            started = at[: self.started]
            self.left[started] += late_s[: self.started] * (self.table[-1] if self.phase[started[0]] == RUNNING else 1.0)

    def run(self) -> Trace:
        self.start(np.arange(len(self.phase)), warm=False)
        self.active = self.started
        while self.active:
            self.advance()
        kernel = self.kernel
        moved = self.read + float(kernel.written_bytes.sum()) * self.cache.written_share
        owed = moved / self.dram_b_s - self.time_s  # writes that are still in L2: the next call would wait for them
        if owed > 0:
            self.causes["DRAM"] += owed
            self.time_s += owed
        asked = float(kernel.steps.sum()) * kernel.step.l2_bytes
        written = float(kernel.written_bytes.sum())
        return Trace(
            self.time_s, self.events, self.slots, self.read, written * self.cache.written_share, asked + written,
            min(self.read, asked), dict(self.causes),
        )  # fmt: skip


def run(kernel: SimulatedKernel, chip: Chip) -> Trace:
    """Simulates one kernel with all blocks waiting at time 0."""
    return Engine(kernel, chip).run()

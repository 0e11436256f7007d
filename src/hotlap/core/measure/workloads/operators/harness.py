"""An operator into something that can be timed and checked, such that only the work itself can make it fast and right.

Inputs are rotated past the last cache and changed between samples; an output of the timed loop itself is compared with the reference,
as is one of fresh inputs in memory that was poisoned; see docs/honest-timing.md for what each step is there to catch.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure import caches
from hotlap.core.measure.guard import Guard
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.targets.sticky import ended, sticky
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.flush import flusher
from hotlap.core.measure.workloads.operators import FAMILIES, footprint, in_wgsl, memory
from hotlap.core.measure.workloads.operators.base import Exact, Operator, OperatorFamily
from hotlap.core.measure.workloads.operators.compare import alike, farthest
from hotlap.core.measure.workloads.operators.making import Tensors
from hotlap.core.record import Case, Check, Notice
from hotlap.core.work import find

ROTATED_CACHES, MOST_SETS = 2.0, 64  # inputs are rotated over so many last-level caches, in at most so many sets
DRAWN = 4  # sets of content of their own; further ones hold copies, in memory of their own
EARLY = 8  # one of the first so many samples is looked at, beside the last
PAIRS, MOST_PAIRS, AGAIN, AGAIN_S = 4, 24, 2.0, 20e-6  # calls on changed input may take so much longer than the same call again, by both
SHORT_S = 0.05  # where calls or drawing input take longer, there are fewer pairs

ALONE_BYTES, ALONE_OPERATIONS = 4 << 20, 2e8  # below both, a CPU makes and checks in one thread: several would wait for each other
DRAWINGS = 4  # of input, for what is changed in place
NEAR = 16.0  # an error within so many times what is allowed may be that of a sum
WOKEN = 10  # in batches of so many calls or more, the first is no longer one after a pause
CHANGING_SHARE = 0.25  # of the time for samples, to change inputs between them

_clock = time.perf_counter  # bound before any operator runs


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Targets with a library of operators run them, and those with kernels in WGSL some. Raises NotSupported."""
    if target.dialect == "wgsl":
        return in_wgsl.prepare(target, case, rng)
    if target.dialect != "torch":
        device = "cpu" if target.device.kind == "cpu" else "cuda"
        what = f"{case.workload} is measured by PyTorch's operators, which the target {target.device.target} does not run"
        missing = "" if importlib.util.find_spec("torch") else " (pip install torch)"
        raise NotSupported(f"{what}; use --target torch:{device}{missing}")
    module = cast(OperatorFamily, importlib.import_module(f"hotlap.core.measure.workloads.operators.{FAMILIES[case.workload]}"))
    return prepared(target, case, module.operator(case, target.library), rng)


def prepared(target: Target, case: Case, operator: Operator, rng: np.random.Generator, guard: Guard | None = None) -> Prepared:
    """`guard`: of code that nobody vouches for. Raises NotSupported where the library refuses the case or it does not fit."""
    run = _Run(target, case, operator, rng, guard or Guard())
    variant = operator.chosen() if operator.chosen else operator.variant
    return Prepared(
        run.enqueue, run.check, variant=variant, flush=flusher(target, case), graph=operator.graph, capture=run.in_place(),
        rotation=len(run.sets),
        before=run.before, after=run.after, metrics=lambda: run.metrics, notices=lambda: run.notices,
    )


class _Kept(NamedTuple):
    """An output of the timed loop, and the set of inputs that it is of."""

    outputs: Any
    of: int


class _Run:
    """The sets of inputs of one case, and the operator that goes round them."""

    def __init__(self, target: Target, case: Case, operator: Operator, rng: np.random.Generator, guard: Guard) -> None:
        self.target, self.operator, self.rng, self.torch, self.guard = target, operator, rng, target.library, guard
        self.place = target.device.facts["place"]
        self.looped = (0.0, 1.0)  # error of the timed loop's output, and what is allowed
        self.exact = self.place if "fp64" in target.features else "cpu"  # where references are computed
        self.chance = random.SystemRandom()  # what a kernel must not know beforehand, whatever the plan's seed is
        guard.watch(self.torch, target, ((_Run, _STEPS), (memory, _MEMORY)))
        self.fault = ""  # the first thing that was seen and cannot stand
        self.metrics: dict[str, float] = {}
        self.notices: list[Notice] = []
        self.calls, self.next, self.share, self.samples, self.early = 0, 0, 1.0, 0, self.chance.randrange(EARLY)
        self.kept: _Kept | None = None
        self.latest: _Kept | None = None  # of the last calls that were enqueued: a recorded graph's, whose replays enqueue nothing
        self.common: dict[str, Any] = {}  # inputs that all sets share
        self.alone = False
        try:
            first = self._fresh()
            self.bytes = sum(one.numel() * one.element_size() for _, one in memory.tensors(self.torch, first))
            operations = sum(find(case.workload).work(case.params).operations.values())
            self.alone = self.place == "cpu" and self.bytes < ALONE_BYTES and operations < ALONE_OPERATIONS
            with footprint.threads(self.torch, self.alone):
                self.sets, self.marks, self.content = [first], [self._mark(first)], [0]
                while len(self.sets) < sets(target, case, self.bytes):
                    self._add()
                self.spare: dict[str, Any] | None = self._fresh()
            self.drawn = len(self.sets)  # every content that was drawn has a number
            self.content_of_spare = self.drawn
            self.enqueue(1)
            target.sync()
        except InputError:  # of a user's kernel
            raise
        except (RuntimeError, MemoryError, NotImplementedError) as error:
            if sticky(error):
                raise ended(error) from error
            raise NotSupported(f"PyTorch refuses this {case.workload} ({_line(error)})") from error
        self.began_s, self.changing_s = _clock(), 0.0
        self.memory = footprint.MemoryFootprint(self.torch, self.place)
        self.new = footprint.NewMemory() if self.place == "cpu" else None

    def _fresh(self, seed: int | None = None) -> dict[str, Any]:
        maker = Tensors(self.torch, self.place, int(self.rng.integers(2**31)) if seed is None else seed)
        made = self.operator.inputs(maker)
        self.blank = all(any(made.get(name) is one for one in maker.blank) for name in self.operator.writes)
        return {name: self._placed(name, value) for name, value in made.items()}

    def _add(self) -> None:
        """One more set: of fresh content, or where there are enough of those a copy, which takes less time to make."""
        source = len(self.sets) - DRAWN
        if source >= 0 and memory.copyable(self.torch, self.sets[source]):
            inputs = {name: value if name in self.common else self._copied(value) for name, value in self.sets[source].items()}
            self.marks.append(self.marks[source])
            self.content.append(self.content[source])
        else:
            inputs = self._fresh()
            self.marks.append(self._mark(inputs))
            self.content.append(len(self.sets))
        self.sets.append(inputs)

    def _copied(self, value: Any) -> Any:
        return self.guard.placed(memory.copied(self.torch, value))

    def _placed(self, name: str, value: Any) -> Any:
        """As the guard has it; one for all sets where they share it."""
        if name not in self.operator.shared:
            return self.guard.placed(value)
        if name not in self.common:
            self.common[name] = self.guard.placed(value)
        return self.common[name]

    def _mark(self, inputs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return memory.fingerprint(self.torch, inputs, self.operator.writes)

    # ------------------------------------------------------------ the timed path

    def enqueue(self, calls: int) -> None:
        """One call's output is kept to be looked at; which one, is known to nobody before."""
        launch, sets, count, at = self.operator.launch, self.sets, len(self.sets), self.next
        pick = min(int(self.share * calls), calls - 1)
        for _ in range(pick):
            launch(sets[at])
            at = at + 1 if at + 1 < count else 0
        self.kept = _Kept(launch(sets[at]), at)
        for _ in range(calls - 1 - pick):
            at = at + 1 if at + 1 < count else 0
            launch(sets[at])
        self.next, self.calls, self.latest = at + 1 if at + 1 < count else 0, calls, self.kept

    # ------------------------------------------------------------ between samples

    def before(self) -> None:
        """Outside the timed region: other content for the inputs that were looked at last, and no L2 lines held back."""
        footprint.reset_persisting_l2(self.place)
        if self.kept is not None:
            of, self.kept = self.kept.of, None
            began_s = _clock()
            if self.samples < 3 or self.changing_s < CHANGING_SHARE * (began_s - self.began_s):
                with footprint.threads(self.torch, self.alone):
                    self._swap(of)
                self.changing_s += _clock() - began_s
        self.share = 1.0 if self.chance.random() < 0.5 else self.chance.random()
        if self.calls >= WOKEN:  # threads that slept meanwhile and code that left the caches would make the first call slower than the rest
            self.operator.launch(self.sets[self.next - 1])
            self.target.sync()
        if self.new:
            self.new.before()

    def in_place(self) -> bool:
        """Whether other content goes where the inputs are: a recorded graph of the calls then works on it too."""
        mine, spare = ([one for _, one in memory.tensors(self.torch, found)] for found in (self.sets[0], self.spare or {}))
        alike = all(a.shape == b.shape and a.layout is self.torch.strided for a, b in zip(mine, spare, strict=False))
        return alike and len(mine) == len(spare)

    def _swap(self, of: int) -> None:
        """Content of the spare set into set `of`, and its own into the spare one; memory stays where it is."""
        if self.spare is None:
            return
        if self.content[of] == self.content_of_spare:
            self.drawn += 1
            self.spare, self.content_of_spare = self._fresh(), self.drawn
        self.content[of], self.content_of_spare = self.content_of_spare, self.content[of]
        mine, spare = ([one for _, one in memory.tensors(self.torch, found)] for found in (self.sets[of], self.spare))
        if any(one.shape != other.shape or one.layout is not self.torch.strided for one, other in zip(mine, spare, strict=True)):
            self.sets[of], self.spare = self.spare, dict(self.sets[of])
        else:
            for one, other in zip(mine, spare, strict=True):
                if one is not other:  # else all sets share it
                    held_over = one.clone()
                    one.copy_(other)
                    other.copy_(held_over)
        self.marks[of] = self._mark(self.sets[of])

    def after(self) -> None:
        """Right after the timed region: one of the first samples is looked at at once."""
        if self.new:
            self.new.after(self.calls)
        self.memory.after()
        self.kept = self.kept or self.latest
        self.samples += 1
        if self.samples - 1 == self.early and not self.fault:
            self._look()

    def _look(self) -> None:
        """The output that the timed loop left: complete at once, plain, right, with nothing going on behind it."""
        if self.kept is None or self.looped[0] > self.looped[1]:
            return
        found, inputs = _listed(self.kept.outputs), self.sets[self.kept.of]
        self.fault = self.fault or self.guard.refused(found, inputs, self.place, self.operator.writes)
        if self.fault:
            return
        at_once = self._cloned(found)
        self._settle(at_once, found)
        if self._touched(inputs, self.marks[self.kept.of]) or not self.blank:
            return  # what it changes in place is no longer what it was made from: the check on fresh inputs looks at those
        self.looped = self._worst(at_once, inputs)

    def _cloned(self, outputs: Sequence[Any]) -> list[Any]:
        with footprint.threads(self.torch, self.alone):
            return [one.clone() for one in outputs]

    def _settle(self, at_once: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Whether the work was done when the call had returned and the device was idle."""
        self.fault = self.fault or self.guard.unfinished(self.place)
        self.target.sync()
        with footprint.threads(self.torch, self.alone):
            same = memory.equal(self.torch, at_once, outputs)
        if not self.fault and not same:
            self.fault = "an output changed after the call had returned and the device was idle: work is left outside the timed region"

    def _touched(self, inputs: Mapping[str, Any], mark: Mapping[str, tuple[int, ...]]) -> bool:
        """Names what was written and should not have been."""
        with footprint.threads(self.torch, self.alone):
            outside = self.guard.outside(inputs)
            now = {} if outside else self._mark(inputs)
        name = next((name for name in mark if not outside and mark[name] != now.get(name)), "")
        if outside and not self.fault:
            self.fault = f"wrote outside the memory of '{outside}'"
        elif name and not self.fault:
            self.fault = f"changed its input '{name}', which it may only read"
        return bool(outside or name)

    # ------------------------------------------------------------ after the samples

    def check(self) -> Check:
        """The last sample's output, then fresh content in memory that the loop has used, then whether time itself was touched."""
        if self.samples and not self.fault:
            self._look()
        seed, worst = self._fresh_calls()
        right = worst[0] <= worst[1]
        if right and not self.fault:
            self.fault = self._wrong_in_the_loop()
        if right and not self.fault and self.guard.again:
            self._again()
        self.fault = self.guard.replaced() or self.fault
        if leak := self.memory.leak(4 * self.bytes):
            self.notices.append(Notice(code="leak", seen=leak))
        if self.new and (new := self.new.notice()):
            self.notices.append(Notice(code="new_memory", seen=new))
        if self.fault:
            return Check(passed=False, what=self.fault)
        said = f"{self.metrics.pop('outputs', 1):.0f} outputs against fp64{', one of them from the timed loop' if self.blank else ''}"
        return Check(passed=right, what=said if right else f"{said} (seed {seed})", error=worst[0], tolerance=worst[1])

    def _fresh_calls(self) -> tuple[int, tuple[float, float]]:
        """The last seed, and the worst error with what is allowed. What is changed in place was not looked at in the loop: it is drawn more
        often, so that little that is wrong in one drawing is not in another."""
        seed, worst = 0, (0.0, 1.0)
        for _ in range(1 if self.blank else DRAWINGS):
            if self.fault or worst[0] > worst[1]:
                break
            seed = self.chance.getrandbits(31)
            worst = max(worst, self._on_fresh(seed), key=lambda one: one[0] / one[1])
        return seed, worst

    def _wrong_in_the_loop(self) -> str:
        """What the timed loop did to a kernel that is right on fresh input; "" where it was right there too."""
        error, allowed = self.looped
        if error <= allowed:
            return ""
        near = "sums that lose digits (a kernel's file says by terms how many numbers an element sums), or a part of the work left out"
        why = near if error < NEAR * allowed else "stale, skipped or less work than asked"
        return f"a call of the timed loop was wrong (error {error:.3g} against {allowed:.3g} allowed): {why}"

    def _on_fresh(self, seed: int) -> tuple[float, float]:
        """Three calls on the same fresh input: two alive at once, then one in the memory of both, poisoned. The error of the last one."""
        inputs = self._refill(seed)
        pristine = {name: _copied(inputs[name]) for name in self.operator.writes}
        mark = self._mark(inputs)
        first, second = _listed(self._launch(inputs, {})), _listed(self._launch(inputs, pristine))
        self.fault = self.guard.refused(first, inputs, self.place, self.operator.writes) or self.guard.shared(
            first, second, inputs, self.operator.writes
        )
        if self.fault:
            return 0.0, 1.0
        kept = self._cloned(second)
        with footprint.threads(self.torch, self.alone):
            memory.poison(self.torch, [*first, *second], inputs)
        first.clear()
        second.clear()
        third = _listed(self._launch(inputs, pristine))
        at_once = self._cloned(third)
        self._settle(at_once, third)
        if self.fault or self._touched(inputs, mark):
            return 0.0, 1.0
        same = memory.equal(self.torch, kept, at_once)
        steady = same and self.metrics.get("deterministic", 1.0) == 1.0
        self.metrics |= {"deterministic": float(steady), "outputs": float(len(third))}
        if not same and not any(notice.code == "not_deterministic" for notice in self.notices):
            self.notices.append(Notice(code="not_deterministic", seen="the same call on the same input gives other bits"))
        return self._worst(at_once, {**inputs, **pristine})

    def _launch(self, inputs: Mapping[str, Any], pristine: Mapping[str, Any]) -> Any:
        """One call, waited for; what it writes is first as it was."""
        for name, value in pristine.items():
            _restore(inputs[name], value)
        found = self.operator.launch(inputs)
        self.target.sync()
        return found

    def _refill(self, seed: int) -> dict[str, Any]:
        """Fresh content where the timed loop has found its inputs: what is remembered by address is stale."""
        with footprint.threads(self.torch, self.alone):
            return self._refilled(seed)

    def _refilled(self, seed: int) -> dict[str, Any]:
        fresh, of = self._fresh(seed), self.kept.of if self.kept else 0
        inputs = self.sets[of] = dict(self.sets[of])
        for name, value in fresh.items():
            here = inputs[name]
            alike = isinstance(value, self.torch.Tensor) and value.layout is self.torch.strided and value.shape == here.shape
            if alike:
                here.copy_(value)
            else:
                inputs[name] = value
        self.marks[of] = self._mark(inputs)
        self.drawn += 1
        self.content[of] = self.drawn
        return inputs

    def _again(self) -> None:
        """A call on changed input against the same call again: who remembers results is faster the second time, however often it is tried,
        and with empty caches too. Others are so on a busy host, until it is tried again, or because the first call fetched what the second
        one found in caches."""
        changed: list[float] = []
        again: list[float] = []
        junk, began_s = None, _clock()
        for pair in range(MOST_PAIRS):
            inputs = self._refill(self.chance.getrandbits(31))
            other = self.sets[(self.kept.of if self.kept else 0) - 1] if len(self.sets) > 1 else self.spare
            if other is not None:
                self.operator.launch(other)
            for times in (changed, again):
                if junk is not None:
                    junk.add_(1)
                    self.target.sync()
                times.append(self.target.time(lambda _, inputs=inputs: self.operator.launch(inputs), 1).wall_s)  # type: ignore[misc]
            slow, fast = min(changed), min(again)
            suspicious = slow > AGAIN * fast and slow - fast > AGAIN_S
            if not suspicious and (pair >= PAIRS - 1 or (_clock() - began_s > SHORT_S and pair > 0)):
                return
            if suspicious and junk is None and pair >= PAIRS - 1:
                size = 2 * caches.last_bytes(self.target.device)
                junk = self.torch.zeros(size, dtype=self.torch.uint8, device=self.place)
                changed.clear()
                again.clear()
        self.fault = f"the same call again took {fast:.3g} s, on changed input {slow:.3g} s: results are remembered"

    def _worst(self, outputs: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[float, float]:
        """Error and what is allowed, of the output that is farthest off."""
        with footprint.threads(self.torch, self.alone):
            return self._farthest(outputs, inputs)

    def _farthest(self, outputs: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[float, float]:
        repeats: Sequence[Any] = [one.to(self.exact) for one in outputs]
        wide = self._widened(inputs) if self.operator.widen or self.operator.settle is not None else inputs
        if self.operator.settle is not None:
            repeats = self.operator.settle(wide, repeats)
        exact = self.operator.reference(wide if self.operator.widen else inputs)
        if self.operator.twice:
            self._once_more(exact, inputs)
        error, allowed, wrong = farthest([one.to(self.exact) for one in repeats], exact, self.operator.dtype)
        self.fault = self.fault or wrong
        return error, allowed

    def _once_more(self, exact: Sequence[Exact], inputs: Mapping[str, Any]) -> None:
        """The reference on inputs of its own, for it may have changed those that it was given."""
        other = self.operator.reference(self._widened(inputs))
        if not all(_same(one.value, again.value) for one, again in zip(exact, other, strict=True)):
            self.fault = self.fault or "the reference disagrees with itself: two runs on the same input differ by more than rounding"

    def _widened(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._wide(value) for name, value in inputs.items()}

    def _wide(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._wide(one) for one in value)
        if not isinstance(value, self.torch.Tensor):
            return value
        value = value.to(self.exact)
        return value.double() if value.is_floating_point() else value


_STEPS = (
    "enqueue", "before", "after", "_look", "check", "_fresh_calls", "_wrong_in_the_loop", "_on_fresh",
    "_refill", "_refilled", "_again", "_worst", "_farthest", "_once_more", "_touched", "_settle", "_cloned",
)  # fmt: skip
_MEMORY = ("poison", "equal", "fingerprint")


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _copied(value: Any) -> Any:
    return [_copied(one) for one in value] if isinstance(value, (list, tuple)) else value.clone()


def _restore(value: Any, was: Any) -> None:
    for one, before in zip(value, was, strict=True) if isinstance(value, (list, tuple)) else [(value, was)]:
        one.copy_(before)


def _same(value: Any, other: Any) -> bool:
    near = (value - other).abs() <= 1e-9 * (1.0 + value.abs()) if value.is_floating_point() or value.is_complex() else False
    return bool((alike(value, other) | near).all())


def sets(target: Target, case: Case, nbytes: int = 0) -> int:
    """One set of inputs for warm and cold cases; as many as pass the last cache for rotated ones. `nbytes`: of the inputs, where known."""
    if case.params.get("cache", "rotated") != "rotated":
        return 1
    working = max(find(case.workload).work(case.params).working_set_bytes, nbytes)
    wanted = ROTATED_CACHES * caches.last_bytes(target.device)
    return int(np.clip(np.ceil(wanted / max(working, 1.0)), 1, MOST_SETS))


def _line(error: BaseException) -> str:
    """The first sentence: PyTorch goes on to list every backend that there is."""
    return (str(error).splitlines() or [""])[0].split(". This could be")[0][:300]

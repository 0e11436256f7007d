"""What a step of a server takes, by the model: all kernels of a step expected at the start, on a grid; a step is looked up between.

The kernels of a step with prompts and answers in it, as vLLM runs it: products, norms and exchanges once, over all tokens; attention of
answers and of each prompt for itself; the head for the last token of every sequence. A step of answers alone, or of one whole prompt, is
the step that `hotlap predict net` expects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.cases import alike, times
from hotlap.core.model.machines import Spec
from hotlap.core.model.networks import memory
from hotlap.core.record import Case
from hotlap.core.work import traits
from hotlap.core.work.networks import transformer
from hotlap.core.work.networks.calls import Call, Setting
from hotlap.core.work.networks.shape import Network
from hotlap.core.work.networks.steps import USUAL_CONTEXT
from hotlap.serving.simulated.engine import Chunk

MEMORY_SHARE = 0.9  # of a GPU's memory that a server takes: vLLM's --gpu-memory-utilization had this default for long
EVEN = 8  # tokens between points of the grid where batches are small; vLLM records its graphs for these batches, too
EVEN_TO = 256
FIRST_PAST = 128
CACHE = "cache of keys and values"  # what `memory.needed` calls it
_PROBE = 8  # tokens of the step in which kernels of both phases are told apart


def grid(most: int) -> list[int]:
    """Counts from 1 to `most`: 1, 2, 4, every 8th to 256, then 8 for each doubling, each with its next: a product of one token more than
    fills its tiles takes one wave of them more."""
    points = [1, 2, 4, *range(EVEN, EVEN_TO + 1, EVEN)]
    while points[-1] < most:
        eighth = points[-1] // EVEN
        points += [eighth * count for count in range(EVEN + 1, 2 * EVEN + 1)]
    both = {*points, *(point + 1 for point in points if point >= EVEN_TO / 2)}
    return [*sorted(point for point in both if point < most), most]


def coarse(most: int) -> list[int]:
    """The same with a quarter of the even ones, and without the next ones."""
    return [point for point in grid(most) if point < EVEN or point % (4 * EVEN) == 0 or point == most]


def pasts(most: int) -> list[int]:
    """Tokens in memory: 0, then doublings from 128."""
    points = [0, FIRST_PAST]
    while points[-1] < most:
        points.append(points[-1] * 2)
    return [*(point for point in points if point < most), most]


class StepTable:
    """`base`: how the network is cut and stored; `batch`, `chunk`, `context`: the most of a step. Raises InputError for what the model
    cannot expect."""

    def __init__(
        self, network: Network, base: Setting, spec: Spec, limits: tuple[int, int, int], calibration: Calibration | None = None
    ) -> None:
        self.network, self.base, self.spec, self.calibration = network, base, spec, calibration
        batch, chunk, context = limits
        self.tokens, self.sequences = grid(chunk), grid(batch)
        self.chunks, self.past, self.contexts = coarse(min(chunk, context)), pasts(context), [1, *pasts(context)[1:]]
        short, long = self._prompt(_PROBE), self._prompt(2 * _PROBE)
        self._fixed = {call.name for call in short if call in long}  # of the last token of a sequence, however long it is
        in_decode = self._answers(_PROBE) if network.causal else short
        self._both = {call.name for call in short if call in in_decode and not _attends(call)} - self._fixed
        self.shared = self._line(self.tokens, self._prompt, lambda call: call.name in self._both)
        self.of_prompt = self._line(self.chunks, self._prompt, lambda call: self._alone(call))
        self.head = self._line(self.sequences, self._sequences, lambda call: call.name in self._fixed)
        self.prompt_attention = self._plane(self.chunks, self.past, lambda tokens, past: self._prompt(tokens, past))
        if network.causal:
            self.of_answers = self._line(self.sequences, self._answers, lambda call: self._alone(call))
            self.answer_attention = self._plane(self.sequences, self.contexts, lambda count, kv: self._answers(count, kv))

    def seconds(self, decodes: int, context: int, chunks: Sequence[Chunk]) -> float:
        """Of a step, as `engine.StepCost`."""
        prompts = sum(chunk.tokens for chunk in chunks)
        total = _at(self.tokens, self.shared, decodes + prompts) + _at(self.sequences, self.head, decodes + len(chunks))
        for chunk in chunks:
            total += _between(self.chunks, self.past, self.prompt_attention, chunk.tokens, chunk.past)
        if chunks:
            total += _at(self.chunks, self.of_prompt, prompts)
        if decodes:
            total += _at(self.sequences, self.of_answers, decodes)
            total += _between(self.sequences, self.contexts, self.answer_attention, decodes, context / decodes)
        return total

    def prompt_s(self, tokens: int) -> float:
        """Of a prompt alone, in chunks."""
        starts = range(0, tokens, self.tokens[-1])
        return sum(self.seconds(0, 0, [Chunk(min(self.tokens[-1], tokens - start), start)]) for start in starts)

    def _prompt(self, tokens: int, past: int = 0) -> list[Call]:
        calls = transformer.forward(self.network, replace(self.base, phase="prefill", batch=1, context=tokens))
        return [replace(call, params={**call.params, "kv": tokens + past}) if past and _attends(call) else call for call in calls]

    def _answers(self, count: int, context: int = 1) -> list[Call]:
        return transformer.forward(self.network, replace(self.base, phase="decode", batch=count, context=context))

    def _sequences(self, count: int) -> list[Call]:
        phase: Any = "decode" if self.network.causal else "prefill"
        return transformer.forward(self.network, replace(self.base, phase=phase, batch=count, context=1))

    def _alone(self, call: Call) -> bool:
        """Of one phase only: neither attention, nor of the head, nor met in the other phase alike."""
        return not _attends(call) and call.name not in self._fixed and call.name not in self._both

    def _line(self, points: Sequence[int], calls: Callable[[int], list[Call]], wanted: Callable[[Call], bool]) -> list[float]:
        return self._priced([[call for call in calls(point) if wanted(call)] for point in points])

    def _plane(self, rows: Sequence[int], columns: Sequence[int], calls: Callable[[int, int], list[Call]]) -> list[list[float]]:
        steps = [[call for call in calls(row, column) if _attends(call)] for row in rows for column in columns]
        flat = self._priced(steps)
        return [flat[first : first + len(columns)] for first in range(0, len(flat), len(columns))]

    def _priced(self, steps: Sequence[Sequence[Call]]) -> list[float]:
        """Seconds of each of the steps, all of their kernels expected at once."""
        calls = [(place, call) for place, step in enumerate(steps) for call in step]
        cases = [Case(workload=call.workload, params=work.find(call.workload).parse(call.params)) for _, call in calls]
        expected = times(alike(cases), self.spec, self.calibration)
        if expected.missing:
            first = min(expected.missing)
            what = f"{calls[first][1].name} of {self.network.name} on {self.spec.slug}"
            raise InputError(f"no time is expected of {what}: {expected.missing[first]}")
        totals = np.zeros(len(steps))
        for (place, call), each_s in zip(calls, expected.seconds.tolist(), strict=True):
            totals[place] += call.times * each_s
        return [float(total) for total in totals]


def _attends(call: Call) -> bool:
    return traits(call.workload).model == "attention"


def _place(points: Sequence[int], value: float) -> tuple[int, float]:
    """The point below, and the share of the way to the next; past the last one the last two go on."""
    low = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return low, (value - points[low]) / (points[low + 1] - points[low])


def _at(points: Sequence[int], line: Sequence[float], value: float) -> float:
    if len(points) == 1:
        return line[0]
    low, share = _place(points, value)
    return line[low] + share * (line[low + 1] - line[low])


def _between(rows: Sequence[int], columns: Sequence[int], plane: Sequence[Sequence[float]], row: float, column: float) -> float:
    if len(rows) == 1:
        return _at(columns, plane[0], column)
    low, share = _place(rows, row)
    below, above = _at(columns, plane[low], column), _at(columns, plane[low + 1], column)
    return below + share * (above - below)


def capacity(network: Network, base: Setting, spec: Spec, chunk: int) -> int:
    """Tokens that the cache of keys and values holds: the GPU's memory less weights, runtime and what a step needs beside. A layer with a
    window is counted as it is at a usual context. Raises InputError where nothing is left."""
    if spec.memory_bytes is None:
        raise InputError(f"the memory of {spec.slug} is not known: take a machine of 'hotlap model machines' with one")
    prompt = memory.needed(network, replace(base, phase="prefill", batch=1, context=chunk))
    needed = {name: size for name, size in prompt.items() if name != CACHE}
    left = spec.memory_bytes * MEMORY_SHARE - sum(needed.values())
    if left <= 0:
        most = f"of {spec.memory_bytes * MEMORY_SHARE / 1e9:.0f} GB"
        raise InputError(f"{network.name} does not fit: {_words(needed)}, {most}; take a larger --tp")
    if not network.causal:
        return 2**30  # it keeps nothing
    cached = memory.needed(network, replace(base, phase="decode", batch=1, context=USUAL_CONTEXT))[CACHE]
    return int(left / (cached / USUAL_CONTEXT))


def _words(needed: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {size / 1e9:.1f} GB" for name, size in needed.items())

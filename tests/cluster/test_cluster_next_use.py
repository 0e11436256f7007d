"""What one who knows the first steps of campaigns meets next: what to read next, one screen, simulated devices, times of what runs, dry runs
outside of a job, and which program an output is of."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hotlap.cluster import folder, live, show, states
from hotlap.cluster.record import AttemptDone, Member, MemberEvent
from hotlap.core.analysis.fleets import DeviceFacts, FleetCase, FleetDevice, FleetVerdict
from hotlap.core.show import fleet, layout, listing
from hotlap.core.show.table import Cell, Column
from hotlap.core.store.bundle import RunHeader

Answer = Callable[..., tuple[int, str, str]]
RANKS = ("OMPI_COMM_WORLD_RANK", "RANK", "PMI_RANK", "SLURM_PROCID")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def newest(home: Path) -> folder.CampaignFolder:
    return folder.load(max(path for path in (home / "runs").iterdir() if not path.name.startswith(".")))


def verdict(devices: int, cases: int, spread: float | None, simulated: bool = False) -> FleetVerdict:
    names = [f"n{number}" for number in range(devices)]
    each = [FleetDevice("r", "h", name, "m", "pass", facts=DeviceFacts(simulated=simulated)) for name in names]
    values = {f"h {name}": 1.0 for name in names}
    of = [
        FleetCase(f"c{number}", f"case {number}", "m", "s", "lower", values, spread, reach=0.1 if spread is not None else None)
        for number in range(cases)
    ]
    return FleetVerdict("pass", each, of, 0.02, {"m": 0.1 if spread is not None else None}, 1, 1)


def test_the_next_step_after_commands_is_what_they_printed(home: Path, cluster: Answer) -> None:
    code, out, _ = cluster("run", "--local", "1", "--", "echo", "hello")
    command = f"hotlap cluster logs --all --campaign {newest(home).campaign.id}"
    assert (code, f"next    {command} (all that the programs printed)\n" in out) == (0, True)
    assert "hello\n" in cluster(*command.split()[2:])[1]


def test_an_output_that_an_earlier_attempt_made_is_named_as_that(home: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "echo", "hello")[0] == 0
    assert "earlier" not in cluster("logs", "--all")[1]
    (path,) = newest(home).path.glob("steps/*/*/*/done.json")
    done = msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=AttemptDone), by="earlier")
    path.write_bytes(msgspec.json.encode(done))
    assert "measured: of a program that an earlier attempt started, which went on" in cluster("logs", "--all")[1]


def test_what_runs_has_the_time_since_it_began() -> None:
    begun = MemberEvent(time_s=10.0, member="n1", step=1, attempt=1, to="running")
    quiet = MemberEvent(time_s=20.0, member="n1", step=1, attempt=1, was="running", to="silent")
    again = MemberEvent(time_s=25.0, member="n1", step=1, attempt=1, was="silent", to="running")
    (state,) = states.derive([Member(name="n1", index=0)], [1], [begun, quiet, again], {}, 40.0, 20.0)
    assert (state.state, state.seconds) == ("running", 30.0)
    assert show._took(state) == "30.0 s so far"
    (state,) = states.derive([Member(name="n1", index=0)], [1], [begun], {}, 0.0, 20.0)
    assert state.seconds is None


def test_a_time_out_has_one_time_and_who_is_waited_for_is_called_that() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    view = live.ClusterView(2, 2, {1: "sh"}, out)
    view.tell(MemberEvent(time_s=0.0, member="a", step=1, to="timed out", why="after 2 s", seconds=2.52))
    assert "hotlap: a: timed out: after 2 s\n" in out.getvalue()
    view._drawn_s = 0.0
    view.draw(["b"])
    assert "· waits for the agent of b ·" in out.getvalue()


def test_cases_are_folded_and_differ_less_only_where_that_is_known() -> None:
    assert "… and 2 more cases, which differ less" in "\n".join(fleet.folded(verdict(6, 10, 0.001), 100, False))
    unknown = "\n".join(fleet.folded(verdict(2, 10, None), 100, False))
    assert "… and 2 more cases\n" in unknown
    assert "… and 1 more case\n" in "\n".join(fleet.folded(verdict(2, 9, None), 100, False))


@pytest.mark.parametrize(("cases", "rows"), [(4, True), (5, False)])
def test_many_values_are_a_row_per_case(cases: int, rows: bool, home: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "true")[0] == 0
    kept = newest(home)
    shown = show.CampaignShown(kept.campaign, kept.members(), kept.states(0.0), verdict(6, cases, 0.001))
    text = "\n".join(show.lines(shown, 100, False))
    assert ("to median" in text) == rows
    assert ("--format csv has each number" in text) != rows


def test_simulated_devices_are_called_that_in_every_table(home: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "true")[0] == 0
    kept = newest(home)
    for simulated in (True, False):
        judged = verdict(6, 2, 0.001, simulated)
        shown = show.CampaignShown(kept.campaign, kept.members(), kept.states(0.0), judged)
        assert ("m (simulated): a device is named" in "\n".join(show.lines(shown, 100, False))) == simulated
        assert ("1 measured, on simulated GPUs" in show.summary(shown)) == simulated
        assert ("(m (simulated))" in fleet.summary(judged)) == simulated


def test_a_value_that_is_very_far_off_is_a_ratio() -> None:
    assert [show._apart(ratio) for ratio in (None, 0.75, 1.5, 3141.1)] == ["–", "-25.0 %", "+50.0 %", "3,141 ×"]


def test_a_dry_run_needs_no_ranks_and_says_how_agents_come_back(cluster: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = cluster("run", "--mpi", "--dry-run", "--", "true")
    assert (code, "the ranks of a start such as mpirun -np 4" in out) == (0, True)
    assert "by --meet HOST:PORT, where rank 0 listens, with HOTLAP_TOKEN" in out
    code, _, err = cluster("run", "--mpi", "--", "true")
    assert (code, "nobody started this as a rank" in err) == (2, True)
    out = cluster("run", "--ray", "auto", "--dry-run", "--", "true")[1]
    assert "takes all GPUs of the node" in out
    assert "comes back to this machine by TCP, with the token of its task" in out
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    assert "members by mpi: the 4 ranks of this start\n" in cluster("run", "--mpi", "--dry-run", "--", "true")[1]


def test_names_keep_their_room_longest() -> None:
    columns = [
        Column("case", [Cell("gemm fp32 m=2048 n=2048 k=2048")], wrap=True, names=True), Column("value", [Cell("x" * 30)]),
        Column("is", [Cell("inconclusive (MDE 3.2 %)")], wrap=True),
    ]  # fmt: skip
    assert layout.Grid(columns, 70).sizes == [20, 30, 16]
    assert layout.Grid(columns, 60).sizes == [12, 30, 16]


def header(devices: list[str]) -> RunHeader:
    return RunHeader(id="r", began="", plan="quick", devices=devices, rounds=1, cases=1, ended="", stops=[], labels={})


def test_devices_of_one_selector_are_counted_in_a_list() -> None:
    def listed(*devices: str) -> str:
        return listing._on(header(list(devices)))

    assert listed("simulated:0", "simulated:0") == "simulated:0 × 2"
    assert listed("cuda:0", "cuda:1") == "cuda:0, cuda:1"

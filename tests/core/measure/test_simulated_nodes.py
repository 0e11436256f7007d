"""Many simulated machines: runs of their own, noise of their own, and node 0 as if it were alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

import hotlap
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.measure import session, simulated_nodes, targets
from hotlap.core.measure.targets.faults import Faults
from hotlap.core.plan import case
from hotlap.core.record import MeasureOptions, Plan, Stop, encode
from hotlap.core.store import bundle as bundles

PLAN = Plan(
    name="few", cases=[case("stream", {"op": "copy", "size": "1 GiB"}), case("chase", {"size": "1 MiB"})],
    measure=MeasureOptions(rounds=2, rounds_max=2, round_s=0.2, seed=5),
)
TARGET = "simulated:h200-sxm?count=2&noise=0.01&run_noise=0.01&spread=0.01&seed=7"


def text(home: Path, host: str) -> bytes:
    runs = [path for path in (home / "runs").iterdir() if json.loads((path / "run.json").read_bytes())["machine"]["host"] == host]
    assert len(runs) == 1
    return (runs[0] / "samples.jsonl").read_bytes() + (runs[0] / "readings.log").read_bytes()


def test_each_node_is_a_run_and_the_first_is_as_if_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "many"))
    many = session.SessionOptions(target=f"{TARGET}&nodes=3&slow=0.5@2.1", device="all", home=tmp_path / "many", labels={"rack": "4"})
    found = simulated_nodes.run(PLAN, simulated_nodes.each(many), lambda _: None)
    alone = hotlap.load(session.run(PLAN, session.SessionOptions(target=TARGET, device="all", home=tmp_path / "alone"), lambda *_: None))
    runs = [hotlap.load(path) for path in found.paths]
    assert (found.failures, [run.bundle.run.machine.host for run in runs]) == ([], ["node0", "node1", "node2"])
    assert text(tmp_path / "many", "node0") == text(tmp_path / "alone", alone.bundle.run.machine.host)
    assert {run.bundle.run.labels["rack"] for run in runs} == {"4"}
    assert len({device.uuid for run in runs for device in run.bundle.run.machine.devices}) == 6
    assert len({samples.values[0] for run in runs for samples in run.samples}) == 3 * 2 * 2 * 2  # nobody's noise is another's
    times = {(n, row.device): row.summary.median for n, run in enumerate(runs) for row in run.rows if row.case.workload == "stream"}
    slowest = min(times, key=lambda where: times[where])
    assert slowest == (2, runs[2].bundle.run.devices[1])
    assert times[slowest] == pytest.approx(times[0, runs[0].bundle.run.devices[0]] / 1.5, rel=0.1)
    assert {one.run.id for one in hotlap.core.store.select.runs(found.selector, tmp_path / "many")} == {run.id for run in runs}


def test_what_is_slow_is_named_by_node_and_device() -> None:
    def slow(which: str, node: int) -> list[int]:
        faults = Faults.parse({"count": "4", "nodes": "3", "node": str(node), "slow": f"0.5@{which}"})
        return [index for index in range(4) if faults.of_device(index) > 1]

    assert [slow("2.1,0.3", node) for node in range(3)] == [[3], [], [1]]
    assert [slow("1.*", node) for node in range(3)] == [[], [0, 1, 2, 3], []]
    assert Faults.parse({"slow": "0.5@0.3", "count": "4"}).of_device(3) == 1.5
    for wrong, why in (("3.1", "nodes are 0 to 2"), ("1.4", "devices 0 to 3"), ("1", "of no node"), ("*", "write it as in"), ("1.x", "write it as in")):
        with pytest.raises(InputError, match=why):
            slow(wrong, 0)
    for count, valid in (("4", "devices are 0 to 3; count=8"), ("1", "there is device 0 alone; count=8")):
        with pytest.raises(InputError, match=f"'slow' names device 7, but {valid} has it"):
            Faults.parse({"slow": "0.05@7", "count": count})
    for options in ({"nodes": "0"}, {"nodes": "2", "node": "2"}, {"node": "1"}, {"nodes": "1.5"}):
        with pytest.raises(InputError):
            Faults.parse(options)


def test_python_and_other_verbs_name_the_command() -> None:
    with pytest.raises(InputError, match=r"hotlap run PLAN --target 'simulated:h200-sxm.*nodes=2' --device all.*&node=0"):
        hotlap.run(PLAN, target=f"{TARGET}&nodes=2")
    assert len(targets.find(targets.parse(f"{TARGET}&nodes=2&node=1"))) == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_says_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    plan = tmp_path / "plan.toml"
    plan.write_text('schema = 1\nname = "p"\n[measure]\nrounds = 2\nrounds_max = 2\nround_time = "0.2 s"\n[[case]]\nworkload = "chase"\nsize = "1 MiB"\n')
    command = ["run", str(plan), "--target", f"{TARGET}&nodes=2", "--device", "all"]
    assert main([*command, "--json"] if as_json else command) == 0
    said = capsys.readouterr().out
    if as_json:
        document = json.loads(said)
        assert (len(document["runs"]), document["failures"], document["selector"][:6]) == (2, [], "nodes=")
        return
    first, listed, following = said.splitlines()
    assert first == "2 of 2 nodes measured: 2 devices each, 1 case"
    assert listed.startswith("list    hotlap list nodes=")
    assert following.endswith("--against fleet")
    assert not list(tmp_path.glob("runs/*/report.html"))


def test_a_node_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    options = session.SessionOptions(target=f"{TARGET}&nodes=2&lost=0.3s", home=tmp_path)
    found = simulated_nodes.run(PLAN, simulated_nodes.each(options), lambda _: None)
    assert [failure.split(":")[0] for failure in found.failures] == ["node0", "node1"]
    assert all("has fallen off the bus" in failure for failure in found.failures)


def test_nodes_that_were_interrupted_say_how_the_rest_is_measured() -> None:
    sentence = simulated_nodes.left((131, 2, 1, 200), "nodes=x1")
    assert "of 200 nodes 131 whole, 2 in part, 1 failed, 66 not begun; what was measured is kept: hotlap list nodes=x1" in sentence
    assert "the same command with --label nodes=x1 measures all 200 again" in sentence


def test_nodes_without_a_run_are_named_when_the_others_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    plan = tmp_path / "p.toml"
    plan.write_text('[[case]]\nworkload = "chase"\nsize = "1 MiB"\n')
    assert main(["run", str(plan), "--target", "simulated:h200-sxm?nodes=4", "--label", "nodes=pallet", "--rounds", "6", "--no-report"]) == 0
    for path in (tmp_path / "runs").iterdir():
        if bundles.read_run(path).machine.host in ("node1", "node3"):
            shutil.rmtree(path)
    capsys.readouterr()
    main(["gate", "nodes=pallet", "--against", "fleet"])
    assert "hotlap: 2 of the 4 nodes of nodes=pallet have no run and are not judged: node1, node3\n" in capsys.readouterr().err
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nwhy = "any"\nwhere = { workload = "chase" }\nat_most = "1 s"\n')
    assert main(["gate", "nodes=pallet", "--against", str(rules), "--where", "workload=chase", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "inconclusive"
    assert {one["state"] for one in document["cases"]} == {"pass"}
    assert [one["missing"] for one in document["runs"] if one.get("missing")] == [{"node1": "no run", "node3": "no run"}]


def test_a_run_that_was_cut_says_so_and_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Interrupted on its second device: nothing but the first was measured."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    nodes = simulated_nodes.each(session.SessionOptions(target=f"{TARGET}&nodes=3", device="all", home=tmp_path, labels={"nodes": "x"}))
    whole = [session.run(PLAN, one, lambda *_: None) for one in nodes[:2]]
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nwhy = "any"\nhalf_width_at_most = "99 %"\n[[rule]]\nwhy = "seen"\nno_notices = ["throttled"]\n')
    run = bundles.read_run(whole[1])
    samples = whole[1] / "samples.jsonl"
    samples.write_text("".join(line for line in samples.read_text().splitlines(True) if json.loads(line)["device"] == run.devices[0]))
    (whole[1] / "run.json").write_bytes(encode(replace(run, stops=[Stop("interrupted")], kept=None)))
    assert main(["gate", "nodes=x", "--against", "limit"]) == 3
    answer = capsys.readouterr().out
    assert "part of node1 was interrupted: 2 of 4 results missing, on 1 of 2 devices" in answer
    assert "2 without a result" in answer
    assert "node2 no run" in answer

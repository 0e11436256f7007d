"""Acceptances of simulated fleets: every planted fault has its cause, healthy nodes are accepted, and a run that was stopped goes on to the
same ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hotlap.bringup import accept_driver, accept_folder, accept_plan, accept_show, accept_simulate
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_judge import ExpectedRate, StepRaw
from hotlap.bringup.accept_record import PATH, AcceptEvent
from hotlap.bringup.accept_show import AcceptanceSeen
from hotlap.core.errors import InputError, SchemaError

CAUSES = {  # planted → named, in which state
    "gpu-missing": ("gpu-missing", "quarantined"), "gpu-count": ("gpu-count", "quarantined"), "rail": ("rail", "quarantined"),
    "firmware": ("firmware", "quarantined"), "slow-link": ("slow-link", "quarantined"), "throttling": ("throttling", "quarantined"),
    "corruption": ("corruption", "quarantined"), "bmc": ("bmc", "quarantined"), "serial": ("serial", "quarantined"), "late": ("late", "accepted"),
    "clock": ("clock", "quarantined"), "vanished": ("vanished", "lost"),
}  # fmt: skip


def begun(home: Path, fleet: str, name: str = "", **more: object) -> AcceptFolder:
    data = accept_plan.text({**accept_simulate.draft(fleet), **more}).encode()
    return accept_folder.create(home, accept_plan.parse(data, "hall.toml"), data, name, sync=False)


def driven(folder: AcceptFolder, max_out: float = 1.0, scope: frozenset[str] = frozenset()) -> AcceptFolder:
    with folder.held():
        accept_driver.AcceptDriver(folder, accept_simulate.fleet(folder.plan, folder.standings), max_out, scope).run()
    folder.checked()
    return folder


@pytest.mark.slow("a simulated fleet, accepted")
def test_every_planted_fault_has_its_cause_and_no_healthy_node_is_out(tmp_path: Path) -> None:
    planted = {f"n{3 + 4 * place:02}": kind for place, kind in enumerate(CAUSES)}
    fleet = "fleet?nodes=60&products=3&seed=2" + "".join(f"&fault={kind}:{node}" for node, kind in planted.items())
    folder = driven(begun(tmp_path, fleet))
    standings, events = folder.standings(), folder.events()
    for node, kind in planted.items():
        code, state = CAUSES[kind]
        assert standings[node].state == state, (kind, standings[node])
        assert code in {fault.code for event in events if event.node == node for fault in event.faults}, kind
    assert {standings[name].state for name in folder.plan.nodes if name not in planted} == {"accepted"}
    seen = AcceptanceSeen(folder.id, folder.plan, standings, [], True, 1.0)
    assert (seen.code, seen.document().on_evidence) == (1, 49)
    text = "\n".join(accept_show.lines(seen, 300, False))
    assert "7 of 8 GPUs are on the bus" in text
    assert "its clock is 1 h 0 min off" in text


@pytest.mark.parametrize("stop", [1, 12, 24, 25, 60, 80])
def test_a_run_that_is_stopped_at_any_event_goes_on_to_the_same_ledger(stop: int, tmp_path: Path) -> None:
    fleet = "fleet?nodes=12&seed=5&fault=slow-link:n02&fault=late:n05&fault=vanished:n11"
    whole = driven(begun(tmp_path / "whole", fleet, "same"))
    folder, written = begun(tmp_path / "cut", fleet, "same"), 0

    def killed(event: AcceptEvent) -> None:
        nonlocal written
        if written == stop:
            with open(folder.path / accept_folder.LEDGER, "ab") as file:
                file.write(b'{"number":99,"tim')  # the half of a line
            raise SystemError
        written += 1
        AcceptFolder.append(folder, event)

    folder.append = killed  # type: ignore[method-assign]
    with pytest.raises(SystemError):
        driven(folder)
    again = driven(accept_folder.load(folder.path))
    for name in (accept_folder.LEDGER, *(path.relative_to(whole.path) for path in (whole.path / "steps").iterdir())):
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_never_more_are_out_than_may_be_and_no_wave_begins_after_that(tmp_path: Path) -> None:
    bad = "".join(f"&fault=firmware:n{number:02}" for number in range(1, 17))
    folder = driven(begun(tmp_path, f"fleet?nodes=24{bad}"), 0.1)
    states = Counter(each.state for each in folder.standings().values())
    assert states == {"suspect": 6, "quarantined": 2, "expected": 16}
    seen = AcceptanceSeen(folder.id, folder.plan, folder.standings(), [], True, 0.1)
    assert seen.code == 1
    assert "6 suspects may not be taken out: 2 of 24 is the most" in "\n".join(accept_show.lines(seen, 300, False))
    assert Counter(each.state for each in driven(folder, 1.0).standings().values()) == {"quarantined": 16, "accepted": 8}


def test_where_all_nodes_are_slow_the_model_says_so(tmp_path: Path) -> None:
    folder = begun(tmp_path, "fleet?nodes=6")
    fleet = accept_simulate.fleet(folder.plan, folder.standings)

    class Slow(accept_simulate.SimulatedFleet):
        def measure(self, *asked: Any) -> StepRaw:
            raw = super().measure(*asked)
            raw.models = {name: {key: ExpectedRate(4 * each.rate, 4 * each.low) for key, each in model.items()} for name, model in raw.models.items()}
            return raw

    with folder.held():
        accept_driver.AcceptDriver(folder, Slow(fleet.plan, {}, 0, folder.standings), 0.5).run()
    standings = folder.standings()
    assert Counter(each.state for each in standings.values()) == {"quarantined": 3, "suspect": 3}
    assert all("below-model" in {fault.code for fault in each.faults} for each in standings.values())


def test_a_node_of_another_product_is_named_as_that(tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, "fleet?nodes=24&products=2&fault=product:n03"))
    (fault,) = folder.standings()["n03"].faults
    assert (fault.code, fault.values) == ("product", {"seen": "hgx-h100", "expected": "hgx-h200"})


def test_a_repaired_node_is_accepted_and_one_that_is_not_is_rejected(tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, "fleet?nodes=12&fault=gpu-count:n02&fault=corruption:n07"))
    for node, repair in (("n02", "new GPU 3"), ("n07", "")):
        now, events = folder.standings()[node], folder.events()
        assert now.state == "quarantined"
        asked = AcceptEvent(
            number=len(events) + 1, time_s=1.0, node=node, was="quarantined", to="retest", step=now.step, faults=now.faults, by="me", reason=repair
        )  # fmt: skip
        with folder.held():
            folder.append(asked)
        driven(folder, 1.0, frozenset([node]))
    states = {name: [event.to for event in folder.events() if event.node == name] for name in ("n02", "n07")}
    assert states["n02"][-10:] == ["quarantined", "retest", *PATH]
    assert states["n07"][-3:] == ["quarantined", "retest", "rejected"]


def test_a_budget_says_what_it_leaves_out_and_no_node_is_accepted_without_it(tmp_path: Path) -> None:
    shorter = begun(tmp_path, "fleet?nodes=8", "a", budget="30 min", waves=["rest"])
    (left,) = [each.left_out for each in accept_plan.planned(shorter.plan) if each.left_out]
    assert (left.step, left.asked_s) == ("soak", 3600.0)
    assert 360 < left.kept_s < 1800
    assert {each.state for each in driven(shorter).standings().values()} == {"accepted"}
    without = driven(begun(tmp_path, "fleet?nodes=8", "b", budget="8 min", waves=["rest"]))
    assert {each.state for each in without.standings().values()} == {"together"}
    seen = AcceptanceSeen(without.id, without.plan, without.standings(), [], True, 0.1)
    assert seen.code == 3
    assert "The budget leaves out soak: no node is accepted without it." in accept_show.remarks(seen)
    with pytest.raises(InputError, match="too small for anything: to reach and inspect 8 nodes takes"):
        begun(tmp_path, "fleet?nodes=8", budget="10 s")


def test_few_nodes_that_no_model_knows_are_no_fleet(tmp_path: Path) -> None:
    given = accept_simulate.draft("fleet?nodes=4")
    given["product"][0]["machine"] = ""
    data = accept_plan.text(given).encode()
    folder = driven(accept_folder.create(tmp_path, accept_plan.parse(data, "x.toml"), data, sync=False))
    assert {(each.state, *each.open) for each in folder.standings().values()} == {("inspected", "alone")}
    seen = AcceptanceSeen(folder.id, folder.plan, folder.standings(), [], True, 0.1)
    assert seen.code == 3
    assert "4 nodes are no fleet" in "\n".join(accept_show.lines(seen, 200, False))


def test_changed_evidence_is_noticed(tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, "fleet?nodes=6"))
    path = folder.path / "steps" / "0003-alone.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"wrong":0', b'"wrong":1', 1))
    with pytest.raises(SchemaError, match="is not in the file of step 3"):
        folder.checked()
    path.write_bytes(path.read_bytes().replace(b'"wrong":1', b'"wrong":0', 1))
    folder.checked()
    first = path.read_bytes().partition(b"\n")[0]
    assert b'"loss":0.' in first
    path.write_bytes(path.read_bytes().replace(first, first.replace(b'"loss":0.', b'"loss":0.0'), 1))
    with pytest.raises(SchemaError, match="its first line was changed"):
        folder.checked()

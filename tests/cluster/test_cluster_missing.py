"""A member without a result: a gate does not pass without it, and names it with its reason; equal reasons stand together."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hotlap.cli import main
from hotlap.cluster import cli_check, cli_run, folder, show_kind
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import Campaign, Member, MemberEvent, StepRecord
from hotlap.core.analysis import absent
from hotlap.core.record import Device, Samples, encode
from hotlap.core.show import fleet
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files
from hotlap.core.work import program

CASE = program.COMMAND.case({"argv": ["bench"]})
RULES = '[[rule]]\nwhy = "acceptance"\nwhere = { workload = "command" }\nat_most = "5 s"\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def campaign(home: Path, measured: int, lost: Sequence[str], label: str = "a", slow: float = 0.0) -> CampaignFolder:
    """The first takes `slow` longer, as a share. One of nodes n01 and on, of which the last are `lost`: each with why it died, "" for one that never started."""
    named, began = folder.new_id()
    step = StepRecord(number=1, name="bench", gather="command", argv=["bench"], label="bench")
    members = [Member(name=f"n{place:02}", index=place - 1) for place in range(1, measured + len(lost) + 1)]
    asked = Campaign(id=named, hotlap="0.2.0", began=began, launcher="ssh", python="python3", steps=[step])
    kept = folder.create(home, asked, members, {"part": label}, "")
    devices = [Device(target="host", index=one.index, name="cpu", kind="cpu", uuid=one.name) for one in members[:measured]]
    samples = [
        Samples(case=CASE.id, device=device.key, round=number, values=[1 + slow * (device.index == 0) + (7 * device.index + 3 * number) % 11 / 1e4], unit="s", method="program")
        for device in devices for number in range(8)
    ]  # fmt: skip
    (kept.path / files.SAMPLES).write_bytes(b"".join(encode(one) + b"\n" for one in samples))
    run = bundles.read_run(kept.path)
    plan, machine = msgspec.structs.replace(run.plan, cases=[CASE] if devices else []), msgspec.structs.replace(run.machine, devices=devices)
    run = msgspec.structs.replace(run, plan=plan, machine=machine, devices=[one.key for one in devices], ended=began)
    files.write_whole(kept.path / files.RUN, encode(run) + b"\n")
    with kept.held():
        for member, why in zip(members, [None] * measured + list(lost), strict=True):
            if why != "":
                kept.append(MemberEvent(time_s=1.0, member=member.name, step=1, attempt=1, to="measured" if why is None else "died", why=why or ""))
    return kept


@pytest.mark.parametrize("measured", [6, 10])
def test_a_gate_does_not_pass_without_a_member(measured: int, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign(home, measured, ["exit status 7: no license"])
    name, written, marks = f"n{measured + 1:02}", tmp_path / "junit.xml", tmp_path / "gate.md"
    asked = ["gate", "part=a", "--against", "fleet"]
    assert main([*asked, "--junit", str(written), "--report", f"markdown={marks}"]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert f"1 without a result: {name} died: exit status 7: no license" in text
    assert "INCONCLUSIVE" in text
    assert "PASS" not in text
    assert 'errors="1"' in written.read_text()
    assert f'name="{name}"' in written.read_text()
    assert "INCONCLUSIVE" in marks.read_text()
    assert f"- `{name}`: died: exit status 7: no license" in marks.read_text()
    assert main([*asked, "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["exit_code"], answer["runs"][0]["state"]) == ("inconclusive", 3, "inconclusive")
    assert answer["runs"][0]["missing"] == {name: "died: exit status 7: no license"}
    assert main([*asked, "--json=2"]) == 3
    assert '"pass",' not in capsys.readouterr().out.partition("rows")[0].partition("devices")[0]


def test_no_standard_passes_without_a_member(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, rules = campaign(home, 6, [""]), tmp_path / "rules.toml"
    rules.write_text(RULES)
    assert main(["baseline", "save", "part=a", "--to", str(tmp_path / "base.json")]) in (0, 3)
    capsys.readouterr()
    for against in (str(rules), "limit", "expected", str(tmp_path / "base.json")):
        assert main(["gate", kept.campaign.id, "--against", against]) == 3
        assert "1 without a result: n07 never started" in " ".join(capsys.readouterr().out.split())
    with kept.held():
        kept.append(MemberEvent(time_s=2.0, member="n07", step=1, attempt=1, to="measured"))
    assert main(["gate", kept.campaign.id, "--against", str(rules)]) == 0


def test_the_page_of_many_does_not_pass_without_a_member(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign(home, 10, [""])
    gate, report = tmp_path / "gate.html", tmp_path / "report.html"
    assert main(["gate", "part=a", "--against", "fleet", "--out", str(gate)]) == 3
    main(["report", "part=a", "--out", str(report)])
    capsys.readouterr()
    for page in (gate, report):
        assert "INCONCLUSIVE</span> 10 of 10 like the others; 1 without a result: n11 never started" in page.read_text()


def test_a_later_campaign_that_measured_a_member_makes_up_for_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign(home, 9, [""])
    campaign(home, 10, [])
    assert main(["gate", "part=a", "--against", "fleet"]) == 0
    assert "without a result" not in capsys.readouterr().out


def test_where_nothing_was_measured_nobody_is_called_like_the_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign(home, 0, ["exit status 2"] * 64)
    assert main(["gate", "part=a", "--against", "fleet"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("NOT RUN")
    assert "64 without a result: n[01-64] (64) died: exit status 2" in out


def test_equal_reasons_stand_together_and_the_rare_one_is_first(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = campaign(home, 0, ["no license"] * 55 + ["Xid 79"] + ["no license"] * 4)
    main(["show", kept.campaign.id])
    out = " ".join(capsys.readouterr().out.split())
    assert out.index("n56 died Xid 79") < out.index("n[01-55,57-60] (59) died no license")
    assert "more; --json" not in out


def test_one_that_was_silent_while_it_was_measured_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = campaign(home, 6, [])
    again = [("n02", 1, "silent"), ("n02", 1, "died"), ("n02", 2, "measured"), ("n03", 1, "silent"), ("n03", 1, "measured")]
    base = {"time_s": 2.0, "step": 1}
    (kept.path / folder.EVENTS).write_bytes(
        b"".join(encode(MemberEvent(**base, member=who, attempt=number, to=to)) + b"\n" for who, number, to in again)  # type: ignore[arg-type]
    )
    main(["show", kept.campaign.id])
    assert "n03 gave no sign for a while in the attempt that was measured" in " ".join(capsys.readouterr().out.split())
    main(["show", kept.campaign.id, "--json"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["cluster"]["was_silent"] == ["n03"]


def test_a_campaign_that_runs_has_not_passed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = campaign(home, 5, [""])
    with kept.held():
        kept.append(MemberEvent(time_s=time.time(), member="n06", step=1, attempt=1, to="running"))
        assert main(["cluster", "status", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["exit_code"]) == ("inconclusive", 3)
    assert answer["controlled_by"]


@pytest.mark.parametrize(("target", "text"), [("nosuch:xx", "no target 'nosuch'"), ("simulated:h200-sxm?slow=0.05@17", "'slow' names device 17")])
def test_a_target_that_no_member_can_take_is_refused_once(target: str, text: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "quick", "--local", "2", "--target", target]) == 2
    assert text in capsys.readouterr().err
    assert not (home / "runs").exists()


def test_a_check_counts_who_is_ready_and_says_what_many_share_once() -> None:
    row = {"refused": "", "state": "ready", "doubts": ["no Hotlap is there"], "return_path": "pipe", "clock_off_s": 0.0, "free_bytes": 1e12}
    rows = [row | {"member": f"n0{place}", "python": "3.11", "hotlap": "", "gpus": 0, "cpu": "", "works_in": ""} for place in range(1, 6)]
    lost = rows[0] | {"member": "n06", "refused": "no route to host", "state": "never started"}
    text = " ".join("\n".join(cli_check.lines([*rows, lost], 200, False)).split())
    assert text.startswith("5 of 6 ready")
    assert text.count("no Hotlap is there") == 1
    assert "n[01-05] (5): no Hotlap is there" in text
    assert "next what is not ready has no result in a run" in text


def test_what_stands_out_is_failed_by_gate_which_is_what_comes_next(home: Path) -> None:
    kept = campaign(home, 12, [], slow=0.3)
    shown = show_kind.read(bundles.load(kept.path))
    assert shown
    assert cli_run.next_command(kept, shown).startswith(f"hotlap gate {kept.campaign.id} --against fleet")


def test_of_scattered_numbers_the_true_threshold_is_named(home: Path) -> None:
    shown = show_kind.read(bundles.load(campaign(home, 6, []).path))
    assert shown
    assert shown.fleet
    scattered = replace(shown.fleet, reach=dict.fromkeys(shown.fleet.reach, 0.7))
    assert "a device is named only from 70 % slower" in " ".join(fleet.sure(scattered))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"), (["n01", "n02", "n03", "n07"], "n[01-03,07] (4)"), (["n9", "n10", "n11"], "n[9-11] (3)"), (["a", "b"], "a,b (2)"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1 (3)"), (["n1", "n01"], "n[1,01] (2)"), (["n2-ib", "n3-ib"], "n[2-3]-ib (2)"),
    ],
)  # fmt: skip
def test_names_are_folded_as_schedulers_write_them(names: list[str], text: str) -> None:
    assert absent.folded(names) == text

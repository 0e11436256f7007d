"""Two campaigns compared with members as units, by recorded campaigns whose levels are known."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import msgspec
import pytest

from hotlap.cli import main
from hotlap.cluster import folder
from hotlap.cluster.record import Campaign, Identity, Member, MemberEvent, StepRecord
from hotlap.core.record import Case, Device, Samples, encode
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files
from hotlap.core.work import program


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def campaign(
    home: Path, ident: str, factor: float, members: int = 8, first: int = 0, model: str = "H200", argv: tuple[str, ...] = ("./bench",),
    wrap: tuple[str, ...] = (), lost: int | None = None, seed: int = 1,
) -> str:  # fmt: skip
    """Members n00 … with serial numbers and levels 10 % apart of their own; 3 rounds with 0.5 % noise. `factor`: on all times."""
    step = StepRecord(number=1, name="bench", gather="command", argv=list(argv), label=" ".join(argv), wrap=list(wrap), rounds=3)
    began = f"2026-11-2{ident}T10:00:00.000+00:00"
    given = Campaign(id=f"2026112{ident}-100000-aaaa", hotlap="1.0", began=began, launcher="ssh", python="python3", steps=[step])
    who = [
        Member(
            name=f"{model.lower()}-{number:02}", index=number, identity=Identity(serial=f"{model}{number}"),
            facts={"cpu": "one", "kernel": f"6.{ident}", "python": "3.11.2"},
        )
        for number in range(first, first + members)
    ]  # fmt: skip
    kept = folder.create(home, given, who, {"side": ident}, "ssh")
    case, noise = program.COMMAND.case({"argv": list(argv)}), random.Random(seed)
    devices = [Device(target="host", index=member.index, name=model, kind="cpu", uuid=member.name, serial="") for member in who]
    lines = []
    with kept.held():
        for member, device in zip(who, devices, strict=True):
            state = "died" if member.index == lost else "measured"
            kept.append(MemberEvent(time_s=1.0, member=member.name, step=1, attempt=1, to=state))
            own = random.Random(member.index).uniform(0.9, 1.1)
            for number in range(3 * (state == "measured")):
                value = own * factor * math.exp(noise.gauss(0, 0.005))
                lines.append(Samples(case=case.id, device=device.key, round=number, values=[value], unit="s", method="program"))
    finish(kept.path, case, devices, lines, began)
    return given.id


def finish(path: Path, case: Case, devices: list[Device], lines: list[Samples], began: str) -> None:
    (path / files.SAMPLES).write_bytes(b"".join(encode(one) + b"\n" for one in lines))
    run = bundles.read_run(path)
    run = msgspec.structs.replace(
        run, plan=msgspec.structs.replace(run.plan, cases=[case]), machine=msgspec.structs.replace(run.machine, devices=devices),
        devices=[device.key for device in devices], kept=len(lines), began=began, ended=began.replace("T10", "T11"),
    )
    files.write_whole(path / files.RUN, encode(run) + b"\n")


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    code = main(["cluster", "compare", "--json", *words])
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    assert answer["exit_code"] == code
    return answer


def test_members_are_pairs_and_a_change_below_their_spread_is_seen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = campaign(home, "1", 1.0), campaign(home, "2", 1.05, seed=2)
    answer = compared(capsys, a, b, "--assume-stable")
    (case,) = answer["cases"]  # type: ignore[misc]
    assert (answer["exit_code"], case["state"], case["device"]) == (1, "slower", "H200")
    assert case["low"] < 1 / 1.05 < case["high"]
    assert case["high"] - case["low"] < 0.02  # the members' own levels, 20 % apart, cancel
    assert answer["groups"][0]["pairs"] == 8  # type: ignore[index]
    assert [one["name"] for one in answer["differences"] if one["matters"] == "yes"] == ["members' kernel"]  # type: ignore[union-attr]


def test_rounds_and_names_are_no_units(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other machines under the same names, 3 rounds of 3 members: no interval, whatever the rounds say."""
    a = campaign(home, "1", 1.0, members=3)
    b = campaign(home, "2", 1.5, members=3, first=3)
    answer = compared(capsys, a, b)
    (case,) = answer["cases"]  # type: ignore[misc]
    assert (answer["exit_code"], case["state"], case["low"]) == (3, "inconclusive", None)
    assert case["reason"] == "4 members a side are needed for an interval, there are 3 and 3"
    assert answer["groups"][0]["pairs"] == 0  # type: ignore[index]
    assert set(answer["alone"]) == {"in A alone", "in B alone"}  # type: ignore[call-overload]


def test_members_of_other_machines_are_compared_as_independent(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = campaign(home, "1", 1.0, members=12), campaign(home, "2", 2.0, members=12, first=20)
    answer = compared(capsys, a, b, "--assume-stable")
    (case,) = answer["cases"]  # type: ignore[misc]
    assert case["state"] == "slower"
    assert case["high"] - case["low"] > 0.02  # their own levels do not cancel
    assert case["low"] < 0.5 < case["high"]


def test_what_differs_and_who_is_missing_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = campaign(home, "1", 1.0, argv=("./bench", "--ring"))
    b = campaign(home, "2", 1.0, argv=("./bench", "--tree"), wrap=("srun", "-n1"), members=7, lost=3, seed=2)
    assert main(["cluster", "compare", a, b, "--assume-stable"]) in (0, 3)
    out = capsys.readouterr().out
    said = {line.partition("H200: ")[2] or line for line in out.splitlines()}
    assert {"6 members in both, as pairs", "in A alone: h200-07", "without a result in B: h200-03"} <= said
    assert "./bench --ring → ./bench --tree" in out
    assert "none → srun -n1" in out
    assert "replicates are the members" in out.replace("\n", " ")


def test_groups_of_models_and_bad_input(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = campaign(home, "1", 1.0), campaign(home, "2", 1.0, model="B200")
    assert main(["cluster", "compare", a, b]) == 2
    assert "A measured H200, B measured B200: no case of a model is on both sides" in capsys.readouterr().err
    assert main(["cluster", "compare", a, a]) == 2
    assert main(["cluster", "compare", a, "nothing=here"]) == 2


def test_without_a_change_the_same_or_unsure_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = campaign(home, "1", 1.0), campaign(home, "2", 1.0, seed=9)
    (case,) = compared(capsys, a, b, "--assume-stable")["cases"]  # type: ignore[misc]
    assert case["state"] == "same"
    unsure = compared(capsys, a, b)["cases"][0]  # type: ignore[index]
    assert unsure["high"] - unsure["low"] > case["high"] - case["low"]  # what the machines may have done in between is allowed for


def test_the_page_has_both_sides_each_model_what_differs_and_who_is_missing(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = campaign(home, "1", 1.0, argv=("./bench", "<ring>"))
    b = campaign(home, "2", 1.2, argv=("./bench", "--tree"), members=7, lost=3, seed=2)
    asked = ["cluster", "compare", a, b, "--assume-stable"]
    assert main([*asked, "--out", str(tmp_path / "page.html")]) == 1
    assert f"page    {tmp_path}/page.html" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text()
    assert f"Campaigns: {b} against {a}" in page
    assert '<section id="h200"><h2>H200: 6 members in both, as pairs</h2>' in page
    assert page.count('role="img"') == 2  # the scale, and a case
    assert "./bench &lt;ring&gt;" in page.partition('id="what-differs"')[2]
    assert "<ring>" not in page.partition('<script type="application/json"')[0]
    members = page.partition('<section id="members">')[2]
    assert "in A alone" in members
    assert "h200-07" in members
    assert "without a result in B" in members
    assert main([*asked, "--out", str(tmp_path / "no" / "page.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err

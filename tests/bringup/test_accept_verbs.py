"""`hotlap cluster accept …`: from a plan to a pack that a stranger verifies, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from hotlap.bringup import rma_verify
from hotlap.bringup.accept_show import AcceptanceShown
from hotlap.cli import main
from hotlap.core.show.document import Document

FLEET = "fleet?nodes=12&products=2&seed=3&fault=rail:n03&fault=late:n08"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verb(*words: str) -> int:
    return main(["cluster", "accept", *words])


def test_from_a_plan_to_a_pack_and_an_acceptance_after_repair(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("plan", "--simulate", FLEET, "--out", "hall.toml", "--soak", "2 h") == 0
    out = capsys.readouterr().out
    assert "12 nodes in 2 products, waves of 12; at most 1 may be out" in out
    assert "hotlap cluster accept run hall.toml" in out
    assert verb("plan", "hall.toml", "--json") == 0
    assert json.loads(capsys.readouterr().out)["plan"]["products"] == {"hgx-h200": 6, "hgx-h100": 6}
    assert verb("run", "hall.toml", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    shown = msgspec.convert(answer["acceptance"], AcceptanceShown)
    assert (answer["verdict"], shown.on_evidence, shown.out, shown.finished) == ("fail", 11, 1, True)
    assert shown.states == {"hgx-h200": {"accepted": 5, "quarantined": 1}, "hgx-h100": {"accepted": 6}}
    assert verb("status", "simulated") == 1
    out = capsys.readouterr().out
    assert "rails are swapped: mlx5_0 is on rail 1, not 0" in out
    assert "Came late: n08." in out
    pack = _packed(home, capsys)
    assert verb("retest", "n03", "--repair", "cables of rails 0 and 1 exchanged") == 0
    assert "Repaired, and tried again: n03 (cables of rails 0 and 1 exchanged)." in capsys.readouterr().out
    assert verb("status") == 0
    assert verb("pack", "n03") == 0
    assert hashlib.sha256((home / "n03-rma.zip").read_bytes()).hexdigest() != hashlib.sha256(pack).hexdigest()
    capsys.readouterr()
    assert verb("run", "hall.toml") == 0  # goes on where nothing is left
    assert "goes on; --new begins another" in capsys.readouterr().err


def _packed(home: Path, capsys: pytest.CaptureFixture[str]) -> bytes:
    """A pack that a stranger verifies, with an interpreter that has nothing of Hotlap."""
    assert verb("pack", "n03", "--for", "rma", "--json") == 0
    files = json.loads(capsys.readouterr().out)["pack"]
    page = Path(files["page"]).read_text()
    assert files["sha256"] in page
    assert "rails are swapped" in page
    with zipfile.ZipFile(files["zip"]) as archive:
        archive.extractall(home / "unpacked")
        assert {"MANIFEST.sha256", "ledger.jsonl", "node.json", "verify.py"} < set(archive.namelist())
    strange = [sys.executable, "-I", "-S", str(home / "unpacked" / "verify.py")]
    for words in ([], [str(home / files["zip"]), files["sha256"]]):
        done = subprocess.run([*strange, *words], capture_output=True, text=True, cwd="/")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "are as they were written" in done.stdout
    data = Path(files["zip"]).read_bytes()
    assert verb("pack", "n03") == 0  # the same ledger makes the same zip
    assert Path(files["zip"]).read_bytes() == data
    assert verb("pack", "--check", files["zip"]) == 0
    (home / "unpacked" / "node.json").write_bytes((home / "unpacked" / "node.json").read_bytes().replace(b"n03", b"n04", 1))
    done = subprocess.run(strange, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "node.json was changed\n")
    capsys.readouterr()
    return data


def test_one_changed_byte_of_a_pack_is_found_wherever_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("plan", "--simulate", "fleet?nodes=6&fault=clock:n2", "--out", "hall.toml") == 0
    assert verb("run", "hall.toml") == 1
    assert verb("pack", "n2") == 0
    files = rma_verify.contents("n2-rma.zip")
    assert rma_verify.problems(files) == []
    for name, data in files.items():
        for place in range(0, len(data), max(len(data) // 25, 1)):
            changed = {**files, name: data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]}
            assert rma_verify.problems(changed), (name, place)
        assert rma_verify.problems({key: value for key, value in files.items() if key != name}), name
    assert rma_verify.problems({**files, "more.txt": b""}) == ["more.txt is not in MANIFEST.sha256"]
    whole = Path("n2-rma.zip").read_bytes()
    digest = hashlib.sha256(whole).hexdigest()
    for place in range(0, len(whole), 997):
        Path("n2-rma.zip").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert rma_verify.main(["n2-rma.zip", digest]) == 1
    Path("n2-rma.zip").write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    assert verb("pack", "--check", "n2-rma.zip") == 1
    with zipfile.ZipFile("n2-rma.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data.replace(b"3600", b"0000") if name == "ledger.jsonl" else data)
    capsys.readouterr()
    assert verb("pack", "--check", "n2-rma.zip") in (0, 1)
    assert verb("pack", "--check", "n2-rma.html") == 2
    assert "is no pack that can be read" in capsys.readouterr().err


def test_an_override_needs_a_reason_that_stays_beside_the_state(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("plan", "--simulate", "fleet?nodes=10&fault=bmc:n07", "--out", "hall.toml") == 0
    assert verb("run", "hall.toml") == 1
    capsys.readouterr()
    for words in (["release", "n07"], ["release", "n07", "--reason", " "]):
        assert verb(*words) == 2
        assert "n07 is quarantined: to make it accepted without evidence needs a reason" in capsys.readouterr().err
    assert verb("release", "n07", "--reason", "its BMC is replaced on Monday") == 0
    out = capsys.readouterr().out
    assert "accepted (override)" in out
    assert "its BMC is replaced on Monday" in out
    assert re.search(r"its BMC is replaced on Monday +its BMC at \S+ does not answer", out), out  # the fault stays beside the reason
    assert verb("status", "--json") == 0
    shown = msgspec.convert(json.loads(capsys.readouterr().out)["acceptance"], AcceptanceShown)
    assert (shown.on_evidence, shown.overrides[0].reasons) == (9, ["its BMC is replaced on Monday"])
    assert verb("release", "n01", "--reason", "kept cold", "--to", "spare") == 0
    out = capsys.readouterr().out
    assert "spare (override)" in out
    assert "its BMC is replaced on Monday" in out
    assert verb("pack", "n07") == 0
    found = r"n07 is accepted by a person's decision \(its BMC is replaced on Monday\): before: its BMC at \S+ does not answer"
    assert re.search(found, capsys.readouterr().err)
    assert "Override: its BMC is replaced on Monday" in Path("n07-rma.html").read_text()


def test_more_time_goes_on_with_what_was_measured(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("plan", "--simulate", "fleet?nodes=10", "--out", "hall.toml", "--budget", "8 min") == 0
    assert verb("run", "hall.toml") == 3
    out = capsys.readouterr().out
    named = re.search(r"More time, without losing what was measured: hotlap cluster accept run (\S+) --budget '12 h'\.", out)
    assert named, out
    ledger = home / "home" / "acceptances" / named[1] / "ledger.jsonl"
    before = ledger.read_bytes()
    assert verb("run", named[1], "--budget", "1 s") == 2
    assert "too small for anything" in capsys.readouterr().err
    assert verb("run", named[1], "--budget", "12 h") == 0
    assert ledger.read_bytes().startswith(before)
    capsys.readouterr()
    (home / "hall.toml").write_text((home / "hall.toml").read_text().replace("8 min", "9 min"))
    assert verb("run", "hall.toml") == 3
    assert f"acceptance {named[1]} is of that name and of another plan: a new one begins" in capsys.readouterr().err


def test_a_zip_that_is_encrypted_or_too_large_is_no_pack(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile("large.zip", "w") as archive:
        archive.writestr("MANIFEST.sha256", b"0" * 3000)
    raw = bytearray(Path("large.zip").read_bytes())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        raw[raw.find(mark) + place] |= 1  # encrypted
    Path("encrypted.zip").write_bytes(raw)
    for name, why, most in (("encrypted", "is encrypted", 3000), ("large", "it would unpack to 3000 bytes", 2000)):
        monkeypatch.setattr(rma_verify, "MOST", most)
        assert verb("pack", "--check", f"{name}.zip") == 2
        assert why in capsys.readouterr().err
        assert rma_verify.main([f"{name}.zip"]) == 1


def test_an_acceptance_that_cannot_be_read_is_in_nobodys_way(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = home / "home" / "acceptances" / "20200101T000000-aaaaaa"
    old.mkdir(parents=True)
    (old / "plan.json").write_text("{}")
    assert verb("plan", "--simulate", "fleet?nodes=6", "--out", "hall.toml") == 0
    assert verb("run", "hall.toml") == 0
    assert verb("status", "simulated") == 0
    capsys.readouterr()
    assert verb("status", "2020") == 2
    assert "restore it from a copy" in capsys.readouterr().err


PRODUCT = '[[product]]\nname = "a"\nnodes = "n[1-6]"\n'
LAUNCH = 'launch = { hosts = "n[1-6]" }\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAUNCH, "there is no [[product]] with its name"), (PRODUCT, "there is no launch, as in launch = "),
        (LAUNCH + PRODUCT + '[[product]]\nname = "b"\nnodes = "n6"\n', "n6 is a a and a b; name each node in one product"),
        (LAUNCH + PRODUCT + PRODUCT, "the product 'a' stands twice"),
        (LAUNCH + PRODUCT + 'gpu = 8\n', "unknown field `gpu`"), (LAUNCH + PRODUCT + 'machine = "h2000"\n', "h200"),
        ('launch = { ssh = "n1" }\n' + PRODUCT, "launch has one of hosts, local"), ('max_out = "120%"\n' + LAUNCH + PRODUCT, "from 0 to 100 %"),
        ('waves = ["rest", 4]\n' + LAUNCH + PRODUCT, "waves are numbers"), ('budget = "1 s"\n' + LAUNCH + PRODUCT, "too small for anything"),
        (LAUNCH + PRODUCT + 'serials = { n1 = "x", n2 = "x" }\n', "'x' stands twice"), (LAUNCH + PRODUCT + 'bmc = { n1 = "host" }\n', "write host:port"),
        (LAUNCH + PRODUCT + 'serials = { n9 = "x" }\n', "there is no node 'n9'"), ('topology = "none.txt"\n' + LAUNCH + PRODUCT, "cannot be read"),
        ("launch = [", "docs/accept.md has a plan"), ('launch = { simulate = "fleet?fault=fire:n1" }\n' + PRODUCT, "a fault is KIND:NODE"),
        ('launch = { local = 2 }\n' + PRODUCT, "give at least so many slots"), (LAUNCH + PRODUCT + '[commands]\nalone = ["ls"]\n', 'begins with "hotlap"'),
        (LAUNCH + PRODUCT + 'link = "0 B/s"\n', "product a: link is a rate above 0"), ("launch = { local = -3 }\n" + PRODUCT, "slots from 1 on"),
        ("launch = { slurm = \"-p 'gpu\" }\n" + PRODUCT, "quote its words"), ('topology = "twice.txt"\n' + LAUNCH + PRODUCT, "give each node one leaf"),
        ('topology = "few.txt"\n' + LAUNCH + PRODUCT, "n2 and 4 more have no leaf"),
    ],
)  # fmt: skip
def test_a_plan_that_is_none_is_refused_before_anything_runs(text: str, reason: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "bad.toml").write_text(text)
    (home / "twice.txt").write_text("n1 west\nn1 east\n")
    (home / "few.txt").write_text("n1 west\n")
    assert verb("run", "bad.toml") == 2
    err = capsys.readouterr().err
    assert reason in err
    assert "Traceback" not in err
    assert not (home / "home" / "acceptances").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["run"], "no acceptance is kept yet"), (["status"], "no acceptance is kept yet"), (["plan"], "a plan of what?"),
        (["plan", "nowhere.toml"], "cannot be read"), (["plan", "--simulate", "fleet?nodes=70000"], "2 to 65,536 nodes"),
        (["plan", "--local", "3", "--hosts", "n1"], "a plan of what?"), (["plan", "--local", "0"], "--local is a number of slots from 1 on, not 0"),
        (["pack"], "a pack of what?"), (["pack", "--check", "nothing.zip"], "no pack that can be read"), (["run", "nowhere.toml"], "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(words: list[str], reason: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb(*words) == 2
    assert reason in capsys.readouterr().err


def test_an_edited_plan_is_not_overwritten_and_a_plan_of_hosts_has_its_inventory_to_fill_in(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the same again is no harm
        assert verb("plan", "--hosts", "n[1-6]", "--out", "hall.toml") == 0
    text = Path("hall.toml").read_text()
    for table in ("expect", "rails", "serials", "bmc"):
        assert f"# [product.{table}]" in text
    Path("hall.toml").write_text(text.replace("# [product.expect]", "[product.expect]"))
    assert verb("plan", "hall.toml") == 0
    assert verb("plan", "--hosts", "n[1-6]", "--out", "hall.toml") == 2
    assert "is there already" in capsys.readouterr().err
    assert verb("plan", "--simulate", "fleet?nodes=6&fault=product:n3", "--out", "other.toml") == 2
    assert "give products=2" in capsys.readouterr().err


def test_a_pack_of_a_slow_link_has_its_transfers_and_says_that_nodes_are_simulated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("plan", "--simulate", "fleet?nodes=8&fault=slow-link:n3", "--out", "hall.toml") == 0
    assert verb("run", "hall.toml") == 1
    assert verb("pack", "n3") == 0
    page = Path("n3-rma.html").read_text()
    assert "sending to" in page
    assert "No node was measured" in page
    assert "no fault of it is known" not in capsys.readouterr().err
    assert verb("pack", "n2") == 0
    assert "n2 is accepted: no fault of it is known" in capsys.readouterr().err


@pytest.mark.nightly("agents of six members, seven campaigns")
def test_members_of_this_machine_are_accepted_by_their_agents(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "live.toml").write_text(
        'launch = { local = 6 }\ntransfer = "0.1 s"\nsoak = "1 s"\nwaves = ["rest"]\n[[product]]\nname = "slot"\nnodes = "slot[00-05]"\n'
    )
    assert verb("run", "live.toml", "--json") in (0, 1, 3)  # rates of slots of a busy machine may differ by any amount
    shown = msgspec.convert(json.loads(capsys.readouterr().out)["acceptance"], AcceptanceShown)
    assert sum(shown.states["slot"].values()) == 6
    assert all("inspect" in each.evidence for each in shown.standings)
    assert verb("status") in (0, 1, 3)

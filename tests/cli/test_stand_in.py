"""No result of a stand-in is taken for hardware: every output of its runs says so, and what needs hardware refuses them."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import hotlap
from cuda_stand_in import build
from hotlap.cli import commands, main
from hotlap.core import stand_in
from hotlap.core.analysis import turns
from hotlap.core.errors import InputError
from hotlap.core.record import RunRecord, Turns, Use
from hotlap.core.show import comparison
from hotlap.core.show.exporting import FORMATS

BUNDLES = Path(__file__).parents[1] / "before" / "bundles" / "0.2"
PLAYED = {"fast": "plan", "slow": "slower", "stress": "stress"}  # on the stand-in: label → bundle


def keep(home: Path, name: str, label: str, played: bool) -> None:
    """A kept run of the simulated GPU as one of `cuda`, on a stand-in or on what passes for hardware."""
    with zipfile.ZipFile(BUNDLES / f"{name}.zip") as bundle:
        own = bundle.namelist()[0].partition("/")[0]
        folder = home / "runs" / (own if played else f"{own[:-6]}{'0' * 6}")
        for member in bundle.namelist():
            if not member.endswith("/"):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / Path(member).name).write_bytes(bundle.read(member))
    run = msgspec.json.decode((folder / "run.json").read_bytes(), type=RunRecord)
    (device,) = run.machine.devices
    device = replace(device, target="cuda", name="NVIDIA H200", driver="CUDA 13.0", facts={}, machine="" if played else "h200-sxm")
    device = stand_in.mark(device) if played else device
    machine = replace(run.machine, devices=[device])
    uses = [Use(case=case.id, step="net decode batch=1", kernel="k", calls=1) for case in run.plan.cases if case.workload == "gemm"]
    plan = replace(run.plan, uses=uses)
    record = replace(run, id=folder.name, plan=plan, target="cuda", machine=machine, labels={"is": label})
    (folder / "run.json").write_bytes(msgspec.json.encode(record))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("kept")
    for label, name in PLAYED.items():
        keep(home, name, label, played=True)
    keep(home, "plan", "hardware", played=False)
    keep(home, "stress", "hardware-stress", played=False)
    return home


@pytest.fixture(autouse=True)
def home(kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return kept


VIEWS = [  # everything that shows a run that is there
    *(f"show is=fast {form}".strip() for form in ("", "--json", "--json=3", "--format csv", "--format markdown")),
    *(f"show is=stress {form}".strip() for form in ("", "--json", "--format markdown")),  # its CSV and --json=3 have no lines
    *(f"explain is=fast {form}".strip() for form in ("", "--json", "--json=3", "--spec-only")),
    "energy is=fast", "energy is=fast --json", "list", "list is=fast --json",
    *(f"compare is=fast is=slow {form}".strip() for form in ("", "--json", "--json=3", "--force", "--assume-stable")),
    "compare is=fast is=slow is=fast",
    "compare is=fast is=slow is=fast --json",
    "kernel opportunities is=fast", "kernel opportunities is=fast --json",
    "stress --judge is=stress", "stress --judge is=stress --json",
]
FILES = [  # the same of what is written to a file
    *(f"report is={run} --out FILE" for run in PLAYED),
    "compare is=fast is=slow --out FILE", "compare is=fast is=slow is=slow --out FILE",
    "kernel opportunities is=fast --out FILE", "stress --judge is=stress --out FILE",
    *(f"export is=fast --as {name} --out FILE" for name in FORMATS),
]


@pytest.mark.parametrize("words", VIEWS)
def test_what_is_printed_says_stand_in(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(words.split())
    out, err = capsys.readouterr()
    assert "stand-in" in out or "stand_in" in out, out + err


@pytest.mark.parametrize("words", FILES)
def test_what_is_written_says_stand_in(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(words.replace("FILE", str(tmp_path / "file.html")).split())
    content = (tmp_path / "file.html").read_bytes()
    assert b"stand-in" in content or b"stand_in" in content, capsys.readouterr()


REFUSED = [  # what holds numbers against hardware
    "gate is=fast", "gate is=fast --against limit", "gate is=fast --against fleet", "gate is=fast is=hardware --against fleet",
    "baseline save is=fast --name no", "baseline save is=hardware is=fast --name no",
    "history is=fast", "history is=fast is=hardware --json", "kernel track is=fast", "kernel track report --from is=fast --to is=slow",
    "kernel track report --from is=hardware --to is=fast", "model calibrate --from is=fast", "model correlate is=hardware is=fast",
    "compare is=fast is=hardware", "compare is=hardware is=fast --force", "compare is=fast is=slow is=hardware --json",
    "compare is=fast is=hardware --by implementation", "stress --judge is=stress --against is=hardware-stress",
    "stress --judge is=hardware-stress --against is=stress",
]


@pytest.mark.parametrize("words", REFUSED)
def test_what_needs_hardware_refuses_it(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(words.split())
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "is of the stand-in NVIDIA H200 (stand-in), which is no GPU" in err
    assert "valid: runs on a GPU or processor" in err


OTHER = {  # verbs that no run reaches, or whose runs come from the verbs above; why
    "devices": "test_cuda_driver has its output", "doctor": "the processor's own", "bench": "shows its run as `run` does",
    "run": "shows its run as `show` does", "kernel run": "shows its run as `run` does", "ab": "test_two_stand_ins_in_turns", "import": "test_a_stand_in_stays_one_through_files",
    "gate": "refused", "history bisect": "programs on the host", "tuning power": "sets clocks, which a stand-in has none of", "tuning quality": "answers, which no target times",
    "node watch": "its bundle is shown by `show`", "trace capture": "its bundle is shown by `show`",
    **dict.fromkeys(("plan show", "plan check", "plan from", "schema", "completion", "predict", "model machines", "model sensitivity"), "no run"),
    **dict.fromkeys(("baseline list", "baseline show", "baseline promote"), "of baselines, into which no stand-in gets"),
    **dict.fromkeys(("kernel add", "kernel new", "kernel list", "kernel show", "kernel plan", "kernel remove"), "of files"),
    **dict.fromkeys(("kernel coverage", "kernel compiled"), "no measurement"), "kernel check": "right or wrong, no number",
    **dict.fromkeys(("trace show", "trace diff", "trace lint"), "of a program's own file"),
    "tuning run": "of a program, whatever it runs on", **dict.fromkeys(("tuning switches", "tuning apply", "tuning revert"), "of files"),
    "training infer": "engines on the processor", "training memory": "counts of bytes", "training converge": "of programs or files",
    **dict.fromkeys(("training run", "training frontier"), "of a program, whatever it runs on"),
    **dict.fromkeys(("serving bench", "serving ab", "serving capacity", "serving frontier"), "of a server, whatever it runs on"),
    **{f"cluster {verb}": "runs other verbs" for verb in ("run", "check", "status", "logs", "collect", "resume", "stop", "compare", "isolate", "collective", "gate")},
    "serving simulate": "no measurement", "serving traffic": "of files", "frames": "of files", "frames capture": "of a program, whatever it runs on",
    **dict.fromkeys(("tool list", "tool show", "tool read", "tool test"), "of files"), "tool run": "shows its run as `run` does",
    **dict.fromkeys(("node inspect", "node audit"), "what the system reports, not a target"),
}  # fmt: skip


def test_no_command_is_forgotten() -> None:
    """A new command is in one of the lists above, or says why not."""
    listed = {name for words in (*VIEWS, *FILES, *REFUSED) if (name := commands.split(words.split())[0])}
    assert listed | OTHER.keys() >= set(commands.VERBS)


def test_a_home_s_history_and_fleet_leave_stand_ins_out(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["history"], ["kernel", "track"]):
        assert main(words) == 0
        out, err = capsys.readouterr()
        assert "stand-in" not in out
        assert err == "hotlap: 3 runs of a stand-in, which is no GPU: left out; hotlap list names them\n"
    main(["gate", "is=hardware", "--against", "fleet", "--json"])
    judged = json.loads(capsys.readouterr().out)["cases"]
    assert {case.get("more", {}).get("ratio") for case in judged} == {None}  # alone in its fleet


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "junit"])
def test_a_stand_in_stays_one_through_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"out.{'parquet' if name == 'parquet' else 'csv' if name == 'csv' else 'json'}"
    assert main(["export", "is=fast", "--as", name, "--out", str(file)]) == 0
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    assert main(["import", str(file)]) == 0
    run = hotlap.load("latest")
    assert all(device.stand_in for device in run.bundle.run.machine.devices)
    capsys.readouterr()
    assert main(["baseline", "save", "latest", "--name", "no"]) == 2
    assert "stand-in" in capsys.readouterr().err


def test_python_says_stand_in() -> None:
    run = hotlap.load("is=fast")
    assert "stand-in" in str(run)
    assert "stand-in" in repr(run)
    assert all(stand_in.has(result) for result in run.results)
    assert all(one.notices[0].code == "stand_in" for one in hotlap.compare("is=fast", "is=slow"))
    with pytest.raises(InputError, match="which is no GPU"):
        hotlap.compare("is=fast", "is=hardware", force=True)


def test_two_stand_ins_in_turns(capsys: pytest.CaptureFixture[str]) -> None:
    """What `ab` prints of its two results."""
    a, b = hotlap.load("is=fast").results, hotlap.load("is=slow").results
    found = turns.comparison(a[0], b[0], Turns(id="a", side="A", difference=0.1, min_effect=0.02, most=60))
    assert [notice.code for notice in found.notices][:1] == ["stand_in"]
    assert "measured on a stand-in" in comparison.in_turns([found], ("a", "b"), 0.1)


def test_hardware_is_not_called_a_stand_in(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("show is=hardware", "explain is=hardware --json", "list is=hardware"):
        main(words.split())
        out = capsys.readouterr().out
        assert not re.search("stand.in", out), words


# ---------------------------------------------------------------- the real binding, on the stand-in for the driver

SMALL = """schema = 1
[measure]
rounds = 1
rounds_max = 1
round_time = "0.1 s"
[[case]]
workload = "launch"
mode = "single"
"""


@pytest.fixture
def driver() -> Iterator[None]:
    if reason := build.missing():
        pytest.skip(reason)
    with build.on():
        yield


@pytest.mark.usefixtures("driver")
def test_its_device_is_marked_whatever_the_environment_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOTLAP_STAND_IN", "STAND_IN", "CUDA_STAND_IN"):
        monkeypatch.setenv(name, "0")
    assert main(["devices", "--target", "cuda"]) == 0
    assert "(stand-in)" in capsys.readouterr().out
    assert main(["devices", "--target", "cuda", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert device["facts"]["stand_in"] is True
    assert device["machine"] == ""


@pytest.mark.usefixtures("driver")
def test_a_run_on_it_is_kept_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "small.toml").write_text(SMALL)
    assert main(["run", str(tmp_path / "small.toml"), "--target", "cuda", "--no-report"]) in (0, 3)
    assert "stand-in" in capsys.readouterr().out
    assert [device.stand_in for device in hotlap.load("latest").bundle.run.machine.devices] == [True]
    assert "stand-in" in repr(hotlap.measure(sum, [1, 2], target="cuda", rounds=1, round_s=0.05))
    for words in (["gate", "--measure", str(tmp_path / "small.toml"), "--target", "cuda", "--against", "limit"], ["model", "calibrate", "--target", "cuda"]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert "the target is of the stand-in" in err
        assert not out
    assert len(list((tmp_path / "home" / "runs").iterdir())) == 1  # refused before anything was measured

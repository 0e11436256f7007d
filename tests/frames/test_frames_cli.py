"""`hotlap frames`: a run whose rounds are captures, on which every verb of runs works."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.frames import simulated

from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.core.store import chunks
from hotlap.frames import deriving, keeping, reading
from hotlap.frames import judged as judging
from hotlap.frames.record import FramesAsked

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))


def captures(folder: Path, name: str, mean_ms: float, count: int = 6, frames: int = 1200) -> list[str]:
    """Runs differ by 1 % from each other."""
    effects = np.random.default_rng(len(name)).normal(1.0, 0.01, count)
    folder.mkdir(exist_ok=True)
    return [
        str(simulated.presentmon(folder / f"{name}{number}.csv", np.round(simulated.frames(number, frames, mean_ms) * effect, 4)))
        for number, effect in enumerate(effects)
    ]


def kept(capsys: Printed, *words: str) -> str:
    assert main(["frames", *words]) == 0
    return capsys.readouterr().out.splitlines()[-1].removeprefix("kept as ")


def test_six_captures_have_an_interval_and_are_compared(tmp_path: Path, capsys: Printed) -> None:
    before = kept(capsys, *captures(tmp_path / "a", "before", 10.0), "--label", "side=before")
    after = kept(capsys, *captures(tmp_path / "b", "after", 9.0), "--label", "side=after")
    assert main(["show", before]) == 0
    out = capsys.readouterr().out
    assert "6 rounds" in out
    assert "±" in out
    assert "captures  6 of PresentMon" in out
    assert main(["compare", before, after, "--assume-stable", "--json"]) == 0
    cases = {case["name"]: case for case in json.loads(capsys.readouterr().out)["cases"]}
    rate = next(case for label, case in cases.items() if "average frame rate" in label)
    assert rate["state"] == "faster"
    assert rate["value"] == pytest.approx(10 / 9, abs=0.02)
    assert any("1 % low by slowest frames" in label for label in cases)


def capframex(folder: Path, name: str, minutes: list[int]) -> list[str]:
    """Captures that say themselves when they were taken."""
    files = []
    for number, minute in enumerate(minutes):
        times = [round(float(ms), 4) for ms in simulated.frames(number, 300, 10.0)]
        info = {"ProcessName": "game.exe", "CreationDate": f"2026-11-01T10:{minute:02}:00Z"}
        files.append(folder / f"{name}{number}.json")
        files[-1].write_text(json.dumps({"Info": info, "Runs": [{"CaptureData": {"MsBetweenPresents": times}}]}), encoding="utf-8")
    return [str(file) for file in files]


def test_captures_taken_in_turns_need_no_allowance(tmp_path: Path, capsys: Printed) -> None:
    a = kept(capsys, *capframex(tmp_path, "a", [0, 10, 20]), "--label", "side=a")
    b = kept(capsys, *capframex(tmp_path, "b", [5, 15, 25]), "--label", "side=b")
    c = kept(capsys, *capframex(tmp_path, "c", [40, 45, 50]), "--label", "side=c")
    main(["compare", a, b])
    turns = " ".join(capsys.readouterr().out.split())
    main(["compare", a, c])
    after = " ".join(capsys.readouterr().out.split())
    assert "one after the other" not in turns
    assert "recording captures of A and B in turns needs no allowance" in after
    assert "from one run of the program to another" in turns
    assert "measure 4 runs" not in turns


def test_a_page_says_what_to_do_and_of_which_run_a_block_is(tmp_path: Path, capsys: Printed) -> None:
    """One capture is no interval, so there is something to do."""
    one = kept(capsys, *captures(tmp_path / "a", "one", 10.0, 1, 300), "--label", "side=one")
    two = kept(capsys, *captures(tmp_path / "b", "two", 9.0, 1, 300), "--label", "side=two")
    page = tmp_path / "page.html"
    assert main(["report", one, "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "can be used as they are" not in text
    assert "<li>Record the scene 6 times" in text
    assert main(["report", one, two, "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert all(f"<h3>{run} · plan" in text for run in (one, two))
    leads = [text.index(f"{run} · plan") for run in (one, two)]
    assert leads[0] < text.index('<p class="lead">') < leads[1]


def gapped(path: Path, rows: slice) -> Path:
    """The same file without some rows after its heading."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = next(place for place, line in enumerate(lines) if "frametime" in line or "Application" in line) + 1
    body = lines[head:]
    del body[rows]
    path.write_text("\n".join([*lines[:head], *body]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["presentmon", "presentmon1", "mangohud"])
def test_rows_that_are_missing_are_said_and_move_no_hitch(form: str, tmp_path: Path, capsys: Printed) -> None:
    """A hitch in frame 800, behind 200 rows that were cut out, or one without its time."""
    times = np.round(simulated.frames(3, 1000, 10.0), 3)
    times[800] += 90.0
    write = getattr(simulated, form)
    at_s = times[:800].sum() / 1000
    cut = gapped(write(tmp_path / "cut.csv", times), slice(300, 500))
    assert main(["frames", str(cut), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (hitch,) = answer["frames"]["streams"][0]["hitches"]
    assert hitch["time_s"] == pytest.approx(at_s, abs=2e-3)
    assert main(["show", answer["run"]]) == 0
    assert "by the file's clock: rows are missing" in " ".join(capsys.readouterr().out.split())
    if form == "presentmon":
        holed = write(tmp_path / "na.csv", times, MsBetweenPresents=np.where(np.arange(1000) == 400, np.nan, times))
        assert main(["frames", str(holed)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "1 row has no frame time, and is left out" in text
        assert f"{at_s:.3f} s" in text
    assert main(["frames", str(write(tmp_path / "whole.csv", times))]) == 0
    text = capsys.readouterr().out
    assert "missing" not in text
    assert "no frame time" not in text


def test_a_copy_a_picture_and_a_summary_are_named(tmp_path: Path, capsys: Printed) -> None:
    (file,) = captures(tmp_path / "a", "a", 10.0, 1, 300)
    assert main(["frames", file]) == 0
    assert main(["frames", str(shutil.copy(file, tmp_path / "copy.csv"))]) == 0
    assert "copy.csv holds the same frames as a0.csv, which was read before" in capsys.readouterr().err
    (tmp_path / "pic.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    assert main(["frames", str(tmp_path / "pic.csv")]) == 2
    assert "pic.csv is a picture (PNG), and no capture" in capsys.readouterr().err
    log = simulated.mangohud(tmp_path / "log.csv", simulated.frames(1, 300))
    summary = "0.1% Min FPS,1% Min FPS,97% Percentile FPS\n2.3,9.8,60.0\n"
    (tmp_path / "below.csv").write_text(log.read_text() + summary)
    assert main(["frames", str(tmp_path / "below.csv")]) == 2
    assert "below.csv:304: MangoHud's summary begins here" in capsys.readouterr().err
    (tmp_path / "above.csv").write_text(summary + log.read_text())
    assert main(["frames", str(tmp_path / "above.csv")]) == 0
    assert "MangoHud's summary stands above the frames of above.csv" in " ".join(capsys.readouterr().out.split())


def test_what_leaves_no_frames_says_how_much_there_is(tmp_path: Path, capsys: Printed) -> None:
    (file,) = captures(tmp_path / "a", "a", 10.0, 1, 300)
    for words, seen in ((["--skip", "50 s"], "--skip '50.0 s' leaves no two frames: the longest capture lasts 2.99 s"), (["--process", "quake"], "fits --process 'quake'; they hold game.exe")):
        assert main(["frames", file, *words]) == 2
        assert seen in capsys.readouterr().err


def test_generated_frames_without_a_time_are_not_counted_and_said(tmp_path: Path, capsys: Printed) -> None:
    times = np.ravel(np.column_stack([simulated.frames(1, 300, 16.7), np.zeros(300)]))
    starts = np.repeat(np.cumsum(times[::2]), 2) * 1e4
    path = simulated.presentmon(tmp_path / "fg.csv", times, CPUStartQPC=starts)
    text = path.read_text(encoding="utf-8").replace("MsBetweenPresents", "other").replace("MsBetweenAppStart", "FrameTime")
    path.write_text(text, encoding="utf-8")
    for words, said in (([], False), (["--generated", "include"], True)):
        assert main(["frames", str(path), *words]) == 0
        assert ("300 generated frames have the time 0 in the file, and are not counted" in " ".join(capsys.readouterr().out.split())) is said


def test_what_has_no_room_in_the_table_stands_below(tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kept(capsys, *captures(tmp_path / "a", "a", 10.0, 6, 1000))
    for width, below in (("200", False), ("80", True)):
        monkeypatch.setenv("COLUMNS", width)
        assert main(["show", run]) == 0
        out = capsys.readouterr().out
        assert any(line.startswith("no room   p50 ") for line in out.splitlines()) is below
        assert "p50" in out


def test_a_capture_counts_once(tmp_path: Path, capsys: Printed) -> None:
    """Also under another name."""
    (file,) = captures(tmp_path / "a", "a", 10.0, 1, 300)
    copy = str(shutil.copy(file, tmp_path / "copy.csv"))
    for files, seen in (((file, file), "a0.csv is given twice"), ((file, copy), "a0.csv and copy.csv hold the same frames")):
        assert main(["frames", *files]) == 2
        assert seen in capsys.readouterr().err


def test_gate_and_history_take_them(tmp_path: Path, capsys: Printed) -> None:
    good = kept(capsys, *captures(tmp_path / "a", "good", 10.0))
    assert main(["baseline", "save", good, "--name", "good"]) == 0
    bad = kept(capsys, *captures(tmp_path / "b", "worse", 12.0))
    assert main(["gate", good, "--against", "baseline:good"]) in (0, 3)
    assert main(["gate", bad, "--against", "baseline:good"]) == 1
    assert main(["history"]) == 0
    assert "average frame rate" in capsys.readouterr().out
    assert main(["explain", good]) == 0
    assert main(["list"]) == 0


def test_the_same_captures_are_the_same_run(tmp_path: Path, capsys: Printed) -> None:
    files = captures(tmp_path / "a", "a", 10.0, 1, 300)
    assert kept(capsys, *files) == kept(capsys, *files)
    assert kept(capsys, *files, "--skip", "1 s") != kept(capsys, *files)
    assert len(list((tmp_path / "home" / "runs").iterdir())) == 2


def test_a_run_is_shown_as_its_files_were(tmp_path: Path, capsys: Printed) -> None:
    files = captures(tmp_path / "a", "a", 10.0, 1, 300)
    assert main(["frames", *files, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["frames", first["run"], "--json", "--like", "rtss"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["frames"] == first["frames"]
    assert again["like"][0]["numbers"]["Average"] == f"{first['frames']['streams'][0]['average_fps']:.1f}"


def test_without_pyarrow_the_columns_are_numpy_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    files = captures(tmp_path / "a", "a", 10.0, 1, 300)
    monkeypatch.setattr(chunks, "available", lambda: False)
    run = kept(capsys, *files)
    folder = tmp_path / "home" / "runs" / run
    assert sorted(file.suffix for file in folder.glob("frames-*")) == [".npz"]
    assert main(["show", run]) == 0
    ticks = reading.read(Path(files[0]))[0].ticks
    content = judging.read(bundles.load(folder))
    assert content is not None
    assert all(np.array_equal(column, content.captures[0].ticks[name]) for name, column in ticks.items())


def test_both_forms_of_columns_give_back_every_tick() -> None:
    ticks = {"a": np.array([3, -(2**62), np.iinfo(np.int64).min, 7, 2**62]), "b": np.arange(5)}
    assert {name: column.tolist() for name, column in keeping.of_zipped(keeping.zipped(ticks)).items()} == {n: c.tolist() for n, c in ticks.items()}
    pytest.importorskip("pyarrow")
    assert {name: column.tolist() for name, column in keeping.of_parquet(keeping.parquet(ticks)).items()} == {n: c.tolist() for n, c in ticks.items()}


@pytest.mark.slow("144,000 frames")
def test_ten_minutes_at_240_frames_a_second_take_less_than_3_mb(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    times = simulated.frames(4, 144_000, 1000 / 240)
    busy, cpu, whole = (np.round(times * random.uniform(low, low + 0.1, len(times)), 4) for low in (0.85, 0.5, 0.95))
    shown, present = (np.round(times + random.normal(0, 0.05, len(times)), 4) for _ in range(2))
    path = simulated.presentmon(
        tmp_path / "a.csv", times, MsBetweenPresents=present, MsBetweenDisplayChange=shown, MsGPUTime=whole, MsGPUBusy=busy,
        MsGPUWait=whole - busy, MsCPUBusy=cpu, MsCPUWait=times - cpu, MsInPresentAPI=times - cpu,
    )  # fmt: skip
    (capture,) = reading.read(path)
    ticks, derived = deriving.without(capture.ticks, capture.kept.columns)
    assert set(derived) == {"gpu_wait", "cpu_wait", "in_present", "animation_time", "start"}
    assert len(keeping.zipped(ticks)) < 3e6
    pytest.importorskip("pyarrow")
    assert len(keeping.parquet(ticks)) < 3e6


@pytest.mark.parametrize("shift", [0, 1])
def test_a_column_that_follows_from_others_is_left_out_and_comes_back(shift: int, tmp_path: Path) -> None:
    """Not where one tick of it differs."""
    times = simulated.frames(4, 200)
    until = np.round(times * 1.5, 4)
    until[7] = np.nan
    moved = np.concatenate([[0.0], np.cumsum(times)[:-1]]) + 3.0
    moved[7] = np.nan
    moved[9] += shift * 1e-4
    path = simulated.presentmon(tmp_path / "a.csv", times, MsUntilDisplayed=until, AnimationTime=moved)
    (capture,) = reading.read(path)
    kept, derived = deriving.without(capture.ticks, capture.kept.columns)
    assert ("animation_time" in derived) == (not shift)
    again = deriving.complete(kept, derived)
    assert all(np.array_equal(column, again[name]) for name, column in capture.ticks.items())


def test_a_zip_of_a_run_shows_the_same_and_broken_columns_say_so(tmp_path: Path, capsys: Printed) -> None:
    run = kept(capsys, *captures(tmp_path / "a", "a", 10.0, 1, 300))
    folder = tmp_path / "home" / "runs" / run
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"{run}/{file.name}")
    assert main(["show", str(tmp_path / "run.zip")]) == 0
    assert "game.exe" in capsys.readouterr().out
    column = next(folder.glob("frames-*"))
    column.write_bytes(column.read_bytes()[:100])
    assert main(["show", run]) == 2
    assert f"{column.name}: " in capsys.readouterr().err
    column.unlink()
    assert main(["frames", run]) == 2
    assert "is missing; restore it from a copy" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said_"), [
    (["none.csv"], "there is no file 'none.csv'"), (["{file}", "none.csv"], "there is no file 'none.csv'; give captures alone"),
    (["{file}", "--skip", "1 h"], "leaves no two frames: the longest capture lasts"), (["{file}", "--refresh", "0.2"], "--refresh is the rate of a display"),
    (["{file}", "--skip", "-1s"], "--skip"), (["latest", "--skip", "1 s"], "a run was judged when its files were read"),
])
def test_what_was_asked_wrongly_is_one_line(words: list[str], said_: str, tmp_path: Path, capsys: Printed) -> None:
    (file,) = captures(tmp_path / "a", "a", 10.0, 1, 300)
    kept(capsys, file)
    assert main(["frames", *(word.format(file=file) for word in words)]) == 2
    err = capsys.readouterr().err
    assert said_ in err
    assert err.count("\n") == 1


def test_the_page_has_frame_times_percentiles_definitions_and_hitches(tmp_path: Path, capsys: Printed) -> None:
    times = simulated.frames(1, 2000)
    times[500] = 120.0
    run = kept(capsys, str(simulated.presentmon(tmp_path / "a.csv", times)))
    assert main(["report", run, "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in ("Frame times", "Percentiles", "1 % low by definition", "Hitches", "CapFrameX integral", "game.exe: "):
        assert words in page, words


def test_a_run_of_another_kind_is_refused(tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "t.csv").write_text("case,value,unit,time\na,1,s,2026-11-01\n")
    assert main(["import", str(tmp_path / "t.csv")]) == 0
    assert main(["frames", "latest"]) == 2
    assert "is no run of captures" in capsys.readouterr().err


def test_files_of_a_later_version_are_refused(tmp_path: Path, capsys: Printed) -> None:
    run = kept(capsys, *captures(tmp_path / "a", "a", 10.0, 1, 300))
    folder = tmp_path / "home" / "runs" / run
    (folder / "frames.json").write_bytes(b'{"asked": 1}')
    assert main(["show", run]) == 2
    assert "frames.json" in capsys.readouterr().err
    shutil.rmtree(folder)
    assert msgspec.json.encode(FramesAsked()) == b'{"process":"","skip_s":0.0,"generated":"exclude","refresh_hz":null}'

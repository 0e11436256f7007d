"""Files of every tool and layout are read by what they hold; what cannot be is one line with the place."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest
from tests.frames import simulated

from hotlap.core.errors import InputError
from hotlap.frames import capframex, keeping, mangohud, presentmon, reading, streams
from hotlap.frames.record import RAW, FrameCapture, FramesAsked

GOLD = Path(os.environ.get("HOTLAP_SHARED") or Path(__file__).resolve().parents[2].parent / "shared") / "data" / "frames"
ASKED = FramesAsked()
gold = pytest.mark.skipif(not GOLD.is_dir(), reason="HOTLAP_SHARED names no folder with data/frames, PresentMon's recorded cases")


def only(path: Path) -> FrameCapture:
    (capture,) = reading.read(path)
    return capture


# ---------------------------------------------------------------- PresentMon's own recorded cases


@gold
def test_the_animation_errors_of_presentmon_s_cases_are_theirs_to_the_last_digit() -> None:
    values, missing = 0, 0
    for file in sorted(GOLD.glob("presentmon_case_?.csv")):
        for path in (file, file.with_stem(f"{file.stem}_v2")):
            capture = only(path)
            theirs = capture.values("animation_error")
            assert theirs is not None
            for place in range(len(capture.kept.streams)):
                rows = capture.ticks["stream"] == place
                columns = {name: column for name in capture.ticks if (column := capture.values(name, rows)) is not None}
                for ours, other in zip(streams.errors(columns), theirs[rows], strict=True):
                    assert f"{ours:.4f}" == f"{other:.4f}", (path.name, place)  # nan where theirs is NA
                    values += not math.isnan(other)
                    missing += math.isnan(other)
    assert (values, missing) == (2 * 560, 2 * 33)


@gold
@pytest.mark.parametrize(("name", "tool", "rows"), [("", "PresentMon", 357), ("_v1", "PresentMon 1", 368), ("_v2", "PresentMon 2", 357)])
def test_one_capture_in_three_sets_of_columns(name: str, tool: str, rows: int) -> None:
    capture = only(GOLD / f"presentmon_case_0{name}.csv")
    assert (capture.kept.tool, len(capture.ticks["stream"]), len(capture.kept.streams)) == (tool, rows, 10)
    figures = {one.key: one for one in keeping.judge([capture], ASKED)}
    assert next(iter(figures)) == "dwm.exe"
    assert figures["dwm.exe"].average_fps == pytest.approx(41.0, abs=0.2)  # each chain by itself: pooled they are none's rate
    assert sum(one.dropped or 0 for one in figures.values()) == {"PresentMon 1": 9}.get(tool, 8)
    assert (figures["dwm.exe"].animation is None) == (tool == "PresentMon 1")


# ---------------------------------------------------------------- layouts


@pytest.mark.parametrize("layout", [12, 14, 15, 16])
@pytest.mark.parametrize("unit", ["us", "ms"])
def test_mangohud_in_four_layouts_and_two_units(layout: int, unit: str, tmp_path: Path) -> None:
    times = np.round(simulated.frames(2, 400), 3)
    capture = only(simulated.mangohud(tmp_path / "vkcube_2026-11-25_02-34-06.csv", times, layout, unit))
    assert (capture.kept.tool, capture.kept.columns["frame"].unit, capture.kept.facts["gpu"]) == ("MangoHud", unit, "RTX")
    (figures,) = keeping.judge([capture], ASKED)
    assert figures.name.process == "vkcube"
    assert capture.kept.timed_by == "name"
    assert figures.average_fps == pytest.approx(1000 / times.mean(), rel=1e-5)


def test_capframex_has_a_capture_for_each_run(tmp_path: Path) -> None:
    first, second = simulated.frames(1, 300), simulated.frames(2, 500)
    captures = reading.read(simulated.capframex(tmp_path / "record.json", [first, second]))
    assert [len(capture.ticks["stream"]) for capture in captures] == [300, 500]
    assert captures[0].kept.facts == {"gpu": "RTX 5090"}
    assert np.array_equal(captures[1].values("frame"), second)


@pytest.mark.parametrize(("tool", "extra", "capital"), [
    ("PresentMon 1", "", False), ("OCAT", "Motherboard,GPU Core Clock (MHz)", True), ("FrameView", "Render Queue Depth,GPU0Clk(MHz)", True),
])
def test_tools_that_write_presentmon_s_first_columns(tool: str, extra: str, capital: bool, tmp_path: Path) -> None:
    capture = only(simulated.presentmon1(tmp_path / "log.csv", simulated.frames(1, 50), extra=extra, capital=capital))
    assert capture.kept.tool == tool
    assert ("gpu_clock" in capture.ticks) == bool(extra)


def test_each_format_names_the_document_that_showed_it() -> None:
    assert capframex.ORIGIN
    assert mangohud.ORIGIN
    assert set(presentmon.ORIGIN) == {"PresentMon 1", "PresentMon 2", "PresentMon", "FrameView", "OCAT"}


def test_a_byte_order_mark_gzip_and_decimal_commas_change_nothing(tmp_path: Path) -> None:
    path = simulated.presentmon(tmp_path / "a.csv", simulated.frames(1, 40))
    text = path.read_text(encoding="utf-8-sig")
    (tmp_path / "plain.csv").write_text(text, encoding="utf-8")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "comma.csv").write_text(text.replace(",", ";").replace(".", ","), encoding="utf-8")
    (tmp_path / "quoted.csv").write_text("\n".join([text.splitlines()[0], *(
        ",".join(f'"{cell.replace(".", ",")}"' for cell in line.split(",")) for line in text.splitlines()[1:])]), encoding="utf-8")
    wanted = only(path).ticks
    for name in ("plain.csv", "packed.csv.gz", "comma.csv", "quoted.csv"):
        ticks = only(tmp_path / name).ticks
        assert all(np.array_equal(wanted[column], ticks[column]) for column in wanted), name


def test_times_that_are_dates_are_left_out(tmp_path: Path) -> None:
    """PresentMon's --date_time writes them under the same heading."""
    path = simulated.presentmon1(tmp_path / "a.csv", simulated.frames(1, 40))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1:] = [",".join([*cells[:7], "2026-11-2 10:05:06.000000001", *cells[8:]]) for cells in (line.split(",") for line in lines[1:])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    capture = only(path)
    assert "start" not in capture.ticks
    assert len(capture.ticks["frame"]) == 40


def test_missing_numbers_stay_missing(tmp_path: Path) -> None:
    times = simulated.frames(1, 40)
    until = times.copy()
    until[[3, 7]] = np.nan
    (figures,) = keeping.judge([only(simulated.presentmon(tmp_path / "a.csv", times, MsUntilDisplayed=until))], ASKED)
    assert (figures.dropped, figures.frames) == (2, 40)


def test_several_programs_are_several_streams(tmp_path: Path) -> None:
    path = simulated.presentmon(tmp_path / "a.csv", simulated.frames(1, 40))
    lines = path.read_text(encoding="utf-8").splitlines()
    mixed = [lines[0]] + [line for pair in zip(lines[1:], lines[1:], strict=True) for line in (pair[0], pair[1].replace("game.exe,4242", "dwm.exe,1"))]
    path.write_text("\n".join(mixed[:-10]) + "\n", encoding="utf-8")
    assert [one.key for one in keeping.judge([only(path)], ASKED)] == ["game.exe", "dwm.exe"]
    assert [one.key for one in keeping.judge([only(path)], FramesAsked(process="DWM"))] == ["dwm.exe"]
    with pytest.raises(InputError, match=r"no program .* they hold dwm\.exe, game\.exe"):
        keeping.judge([only(path)], FramesAsked(process="quake"))


def test_generated_frames_stand_apart(tmp_path: Path) -> None:
    """Every second frame is a driver's: the application's take as long as both together."""
    path = simulated.presentmon(tmp_path / "a.csv", np.full(200, 8.0))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2::2] = [line.replace(",Application,", ",AMD_AFMF,") for line in lines[2::2]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (own,) = keeping.judge([only(path)], ASKED)
    assert (own.frames, own.generated) == (100, 100)
    assert own.percentiles_s["p50"] == pytest.approx(0.016)
    assert own.displayed_fps == pytest.approx(125)
    (every,) = keeping.judge([only(path)], FramesAsked(generated="include"))
    assert (every.frames, every.average_fps) == (200, pytest.approx(125))


def test_frames_without_a_time_of_their_own_are_generated(tmp_path: Path) -> None:
    """PresentMon 2 without --track_frame_type: PresentMon#381, #388."""
    path = simulated.presentmon(tmp_path / "a.csv", np.full(200, 8.0))
    text = path.read_text(encoding="utf-8").replace("MsBetweenPresents", "Other").replace("MsBetweenAppStart", "FrameTime")
    place = text.splitlines()[0].split(",").index("FrameTime")
    lines = [line.split(",") for line in text.splitlines()]
    for cells in lines[2::2]:
        cells[place] = "0.0000"
    path.write_text("\n".join(",".join(cells) for cells in lines) + "\n", encoding="utf-8")
    capture = only(path)
    (figures,) = keeping.judge([capture], ASKED)
    assert (figures.frames, figures.generated) == (100, 100)
    assert [notice.code for notice in capture.kept.notices] == ["generated_unlabelled"]


def test_a_first_frame_since_boot_is_left_out(tmp_path: Path) -> None:
    times = simulated.frames(1, 300)
    path = simulated.mangohud(tmp_path / "log.csv", times)
    lines = path.read_text().splitlines()
    cells = lines[3].split(",")
    lines[3] = ",".join(["0.000119725", "8352480000", *cells[2:]])
    path.write_text("\n".join(lines) + "\n")
    capture = only(path)
    (figures,) = keeping.judge([capture], ASKED)
    assert figures.frames == 299
    assert "8352 s" in capture.kept.notices[0].seen


def test_a_row_that_was_cut_at_the_end_is_left_out(tmp_path: Path) -> None:
    path = simulated.presentmon(tmp_path / "a.csv", simulated.frames(1, 40))
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    capture = only(path)
    assert len(capture.ticks["frame"]) == 39
    assert [notice.code for notice in capture.kept.notices] == ["torn_line"]


# ---------------------------------------------------------------- what cannot be


def broken(tmp_path: Path, row: int, name: str, text: str) -> Path:
    """One cell of a capture replaced."""
    path = simulated.presentmon(tmp_path / "a.csv", simulated.frames(1, 40))
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    lines[row][lines[0].index(name)] = text
    path.write_text("\n".join(",".join(cells) for cells in lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("row", "name", "text", "words"), [
    (5, "MsBetweenPresents", "-3", "a.csv:6: a frame time that is negative"), (9, "MsBetweenPresents", "0", "a.csv:10: a frame time that is 0"),
    (9, "MsBetweenPresents", "inf", "a.csv:10: a frame time that is longer than any"), (7, "CPUStartQPC", "1", "a.csv:8: time goes back"),
    (9, "MsBetweenPresents", "1e40", "a.csv:10: a frame time that is longer than any"), (4, "MsGPUBusy", "fast", "a.csv:5: 'fast' is no number"), (4, "MsGPUBusy", "1,5", "a.csv:5: 23 columns where the heading has 22; decimal commas"),
])
def test_a_row_that_cannot_be_is_named(row: int, name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        only(broken(tmp_path, row, name, text))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_capture_without_frames_says_so(tmp_path: Path) -> None:
    path = simulated.presentmon(tmp_path / "a.csv", simulated.frames(1, 3))
    lines = path.read_text(encoding="utf-8").splitlines()
    for kept, words in ((0, "is empty"), (1, "a heading and no frame"), (2, "has one frame; at least 2")):
        path.write_text("".join(f"{line}\n" for line in lines[:kept]), encoding="utf-8")
        with pytest.raises(InputError, match=words):
            reading.read(path)
    lost = simulated.presentmon1(tmp_path / "b.csv", simulated.frames(1, 30), dropped=[True] * 30)
    with pytest.raises(InputError, match="all 30 frames were dropped"):
        reading.read(lost)


def test_a_sampled_log_gives_no_number(tmp_path: Path) -> None:
    """With log_interval=100 a row stands every 100 ms, whatever the frames took."""
    path = simulated.mangohud(tmp_path / "log.csv", simulated.frames(1, 100))
    lines = path.read_text().splitlines()
    for place in range(3, len(lines)):
        lines[place] = f"{lines[place].rpartition(',')[0]},{place * 100_000_000}"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"a sampled log: its frames take .* log again with log_interval=0"):
        reading.read(path)


@pytest.mark.parametrize(("text", "words"), [
    ("0.1% Min FPS,1% Min FPS,97% Percentile FPS\n2.3,9.8,60.00.1% Min FPS,1% Min FPS\n2.3,9.8\n", "MangoHud's summary, which holds no frames"),
    ("Timestamp,Application,Log Name,Avg FPS\n1,game.exe,a,60\n", "FrameView's summary, which holds no frames"),
    ("a,b\n1,2\n", "no capture that is known"), ('{"Runs": []}', "no record of CapFrameX"), ('{"Runs"', "JSON that cannot be read"),
    ('{"Runs": [{"CaptureData": {"MsBetweenPresents": [1, "x"]}}]}', "run 1, MsBetweenPresents: value 2 is no number"),
    ('{"Runs": [{"CaptureData": {"MsBetweenPresents": [1, 2], "Dropped": [0]}}]}', "Dropped has 1 values where MsBetweenPresents has 2"),
    ("fps,frametime,elapsed\n60,60,1\n60,60,2\n", "fps × frametime is 3600; valid"),
])
def test_what_is_no_capture_says_what_it_is(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        reading.read(tmp_path / "file.txt")
    assert words in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("Application,ProcessID".encode("utf-16"))
    with pytest.raises(InputError, match="not UTF-8 text"):
        reading.read(tmp_path / "a.csv")
    with pytest.raises(InputError, match="there is no file"):
        reading.read(tmp_path / "b.csv")


# ---------------------------------------------------------------- ticks


def test_numbers_come_back_as_they_were(tmp_path: Path) -> None:
    """Also those with more places than ticks hold."""
    times = simulated.frames(1, 60)
    odd = times / 7
    captures = reading.read(simulated.capframex(tmp_path / "a.json", [times], MsInPresentAPI=odd.tolist()))
    assert captures[0].kept.columns["frame"].digits == 4
    assert captures[0].kept.columns["in_present"].digits == RAW
    assert np.array_equal(captures[0].values("in_present"), odd)
    assert np.array_equal(captures[0].values("frame"), times)

"""The bundle: what is written can be read, whatever happened in between."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keeping import CASES, DEVICE, make_run, make_samples, pack

from draws import examples
from hotlap.core.errors import Busy, HotlapError, InputError, MachineError, SchemaError
from hotlap.core.record import SCHEMA, Readings, Samples, Stop
from hotlap.core.show import listing
from hotlap.core.store import bundle, files, lines
from hotlap.core.store.bundle import Bundle, Writer, load, new_id

Keep = Callable[..., Bundle]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    run = make_run(labels={"cluster": "A"})
    writer = Writer.create(run, tmp_path)
    assert load(writer.path).run == run
    samples = [make_samples(n, case) for n in range(3) for case in CASES]
    readings = [Readings(sensor="fan", device=DEVICE.key, status="not_supported", reason="no fan")]
    for one in samples:
        writer.append(one)
        assert load(writer.path).samples[-1] == one  # before finish: it is there when append returns
    writer.readings(readings)
    ended = msgspec.structs.replace(run, ended="2026-11-21T10:16:00+00:00", stops=[Stop("precision")], kept=len(samples))
    writer.finish(ended)
    read = load(writer.path)
    assert (read.run, read.samples, read.readings, read.notices) == (ended, samples, readings, [])
    assert read.done == {(case.id, DEVICE.key, n) for n in range(3) for case in CASES}
    assert sorted(p.name for p in writer.path.iterdir()) == ["readings.log", "run.json", "samples.jsonl"]


def test_a_run_that_a_process_writes_is_being_measured_and_one_that_was_left_is_not(tmp_path: Path) -> None:
    writer = Writer.create(make_run(), tmp_path)
    assert load(writer.path).is_being_measured
    header = load(writer.path).listed
    assert "measured now" in listing.runs([header], now={header.id})
    assert "· being measured now: what it has so far" in listing.heading(load(writer.path))
    writer._samples.file.close()  # as when its process dies
    assert not load(writer.path).is_being_measured
    assert "· not finished: hotlap run --resume goes on" in listing.heading(load(writer.path))


def test_ids_sort_by_time_and_differ() -> None:
    moment = datetime(2026, 11, 21, 23, 30, tzinfo=timezone(timedelta(hours=-2)))
    assert new_id(moment).startswith("20261122T013000-")
    assert len({new_id(moment) for _ in range(50)}) == 50
    assert new_id(moment) < new_id(moment.astimezone(UTC) + timedelta(seconds=1))


def test_an_id_that_exists_is_not_written_over(kept: Keep, tmp_path: Path) -> None:
    before = kept()
    with pytest.raises(MachineError, match=r"there is a run .* already"):
        Writer.create(before.run, tmp_path)
    assert load(before.path) == before


def test_fsync_at_most_once_a_second_by_the_clock_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, synced = [0.0], []
    writer = Writer.create(make_run(), tmp_path, clock=lambda: now[0])
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append((now[0], descriptor)))
    for number in range(40):
        now[0] = number / 10
        writer.append(make_samples(number))
        writer.readings([Readings(sensor="power_w", device="d", times_s=[now[0]], values=[1.0])])
    times = [at for at, _ in synced]
    assert times == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]  # either file
    assert len({descriptor for _, descriptor in synced}) == 2


# ---------------------------------------------------------------- torn and broken


@pytest.mark.slow("a cut at every byte")
def test_cut_at_every_byte_of_the_last_two_lines(kept: Keep) -> None:
    whole = kept(rounds=3)
    path = whole.path / "samples.jsonl"
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for cut in range(ends[-3], len(data)):
        path.write_bytes(data[:cut])
        read = load(whole.path)
        complete = sum(end - 1 <= cut for end in ends)  # one that lacks only its newline is whole
        assert read.samples == whole.samples[:complete], cut
        torn = cut not in ends and cut + 1 not in ends
        lost = len(ends) - complete - torn  # whole lines, which no crash takes after the run's end
        assert len(read.notices) == torn + (lost > 0), cut
        assert not lost or f"{lost} of {len(ends)} lines are lost" in read.notices[-1].text
        if torn:
            assert f"the {complete} lines before it are kept" in read.notices[0].text


@pytest.mark.slow("a resume for every byte of a file")
def test_resume_after_a_cut_at_every_byte_completes_the_run(kept: Keep) -> None:
    whole = kept(rounds=2)
    path = whole.path / "samples.jsonl"
    data = path.read_bytes()
    start = data[:-1].rindex(b"\n") + 1
    for cut in range(start, len(data)):
        path.write_bytes(data[:cut])
        writer = Writer.resume(whole.path)
        missing = [s for s in whole.samples if bundle.key(s) not in load(whole.path).done]
        assert len(missing) == (cut < len(data) - 1)
        assert bool(writer.notices) == (start < cut < len(data) - 1)
        for samples in missing:
            writer.append(samples)
        writer.finish(whole.run)
        assert load(whole.path) == whole
        assert path.read_bytes() == data


def test_holes_left_by_a_power_cut_count_as_torn(kept: Keep) -> None:
    whole = kept(rounds=2)
    path = whole.path / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b"\0" * 100 + b"\n")
    read = load(whole.path)
    assert read.samples == whole.samples
    assert "101 bytes" in read.notices[0].text
    writer = Writer.resume(whole.path)
    assert "its last line was cut off" in writer.notices[0].text
    writer.finish(whole.run)
    assert load(whole.path) == whole


def test_torn_readings_lose_nothing_before_them(kept: Keep) -> None:
    whole = kept(rounds=3)
    path = whole.path / "readings.log"
    path.write_bytes(path.read_bytes()[:-5])
    read = load(whole.path)
    assert read.readings == whole.readings[:-1]
    assert read.samples == whole.samples
    assert "readings.log" in read.notices[0].text


def test_a_broken_line_in_the_middle_is_named_by_number(kept: Keep) -> None:
    path = kept(rounds=2).path / "samples.jsonl"
    rows = path.read_bytes().splitlines(keepends=True)
    for bad in (b'{"case": ', b'{"case": 1}', b'{"case":"a","device":"b","round":0,"values":[null]}', b"\xff\xfe", b"[" * 5000):
        path.write_bytes(rows[0] + bad + b"\n" + b"".join(rows[1:]))
        with pytest.raises(SchemaError, match=r"samples\.jsonl:2: .*remove that line to read the rest"):
            load(path.parent)


def test_a_last_line_of_wrong_type_is_no_tear(kept: Keep) -> None:
    path = kept().path / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b'{"case": 1}\n')
    with pytest.raises(SchemaError, match=r"samples\.jsonl:3"):
        load(path.parent)


def test_a_line_that_is_there_twice_counts_once(kept: Keep) -> None:
    whole = kept()
    path = whole.path / "samples.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    read = load(whole.path)
    assert read.samples == whole.samples
    assert "2 lines repeat" in read.notices[0].text


def test_of_lines_that_repeat_a_case_and_round_the_first_counts(kept: Keep) -> None:
    whole = kept()
    path = whole.path / "samples.jsonl"
    first = whole.samples[0]
    path.write_bytes(path.read_bytes() + lines.line(msgspec.structs.replace(first, values=[9.0])))
    read = load(whole.path)
    assert read.samples == whole.samples
    assert "1 lines repeat" in read.notices[0].text


def test_samples_of_an_unknown_case_are_said(kept: Keep) -> None:
    whole = kept()
    path = whole.path / "samples.jsonl"
    path.write_bytes(path.read_bytes() + lines.line(make_samples(case=CASES[0], round=5)).replace(CASES[0].id.encode(), b"feedfeedfeed"))
    assert "not in the plan are left out of the results: feedfeedfeed" in load(whole.path).notices[0].text


def test_a_missing_file_is_said(kept: Keep) -> None:
    whole = kept()
    (whole.path / "readings.log").unlink()
    read = load(whole.path)
    assert read.samples == whole.samples
    assert [notice.text for notice in read.notices] == ["readings.log is missing; nothing of it is known"]


def test_unknown_keys_of_a_later_minor_version_are_ignored(kept: Keep) -> None:
    whole = kept()
    for name in ("run.json", "samples.jsonl"):
        path = whole.path / name
        path.write_bytes(path.read_bytes().replace(b"{", b'{"later": [1, {}], ', 1))
    assert load(whole.path) == whole


# ---------------------------------------------------------------- what is no bundle


def test_a_newer_schema_is_refused_with_who_wrote_it(kept: Keep) -> None:
    path = kept().path / "run.json"
    later = {"schema": SCHEMA + 1, "hotlap": "9.4.0", "id": 7}
    path.write_text(json.dumps(later))
    with pytest.raises(SchemaError, match=rf"schema {SCHEMA + 1}, written by Hotlap 9\.4\.0; this Hotlap reads up to {SCHEMA}"):
        load(path.parent)
    with pytest.raises(SchemaError, match=r"9\.4\.0"):
        Writer.resume(path.parent)
    assert json.loads(path.read_text()) == later


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", r"run\.json:1: not the run\.json of a Hotlap bundle"),
        ('{\n  "schema": 1,\n  "id": \n', r"run\.json:4: not the run\.json"),
        ("[]", "not the run.json of a Hotlap bundle"),
        ('{"name": "something else"}', "missing required field `schema`"),
        ('{"schema": 0}', "says schema 0; valid: 1 to"),
        ('{"schema": 1, "hotlap": "0.1.0"}', "missing required field"),
        ('{"schema": "1"}', "not the run.json of a Hotlap bundle"),
        ("[" * 5000, "not the run.json of a Hotlap bundle"),
    ],
)
def test_a_broken_run_json_is_named(kept: Keep, content: str, said: str) -> None:
    path = kept().path / "run.json"
    path.write_text(content)
    with pytest.raises(SchemaError, match=said):
        load(path.parent)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no bundle at"):
        load(tmp_path / "nothing")
    with pytest.raises(SchemaError, match=r"is no run bundle: it has no run\.json; a bundle is"):
        load(tmp_path)
    (tmp_path / "text.zip").write_text("hello")
    with pytest.raises(SchemaError, match="no zip of a run bundle"):
        load(tmp_path / "text.zip")
    with pytest.raises(SchemaError, match="neither a folder nor a file"):
        load(Path("/dev/null"))
    with pytest.raises(HotlapError):
        load(Path("\0"))
    with pytest.raises(HotlapError):
        load(Path("x" * 5000))


# ---------------------------------------------------------------- zip


def test_a_zip_holds_the_same_bundle(kept: Keep, tmp_path: Path) -> None:
    whole = kept(rounds=2)
    (whole.path / "report.html").write_text("not part of it")
    packed = pack(whole.path, tmp_path)
    read = load(packed)
    assert (read.run, read.samples, read.readings, read.notices) == (whole.run, whole.samples, whole.readings, [])
    with pytest.raises(InputError, match="unpack it"):
        Writer.resume(packed)
    shutil.unpack_archive(packed, tmp_path / "unpacked")
    again = load(tmp_path / "unpacked" / whole.run.id)
    assert (again.run, again.samples, again.readings) == (whole.run, whole.samples, whole.readings)


def test_a_zip_of_the_files_alone_and_one_cut_in_half(kept: Keep, tmp_path: Path) -> None:
    whole = kept(rounds=2)
    with zipfile.ZipFile(tmp_path / "flat.zip", "w") as archive:
        for name in files.FILES:
            data = (whole.path / name).read_bytes()
            archive.writestr(name, data[:-9] if name == "samples.jsonl" else data)
    read = load(tmp_path / "flat.zip")
    assert read.samples == whole.samples[:-1]
    assert "its last line was cut off" in read.notices[0].text


def test_a_zip_of_two_bundles_or_none_is_refused(tmp_path: Path) -> None:
    for names in (["a/run.json", "b/run.json"], ["xrun.json", "a/b/run.json"], []):
        with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
            for name in names:
                archive.writestr(name, "{}")
        with pytest.raises(SchemaError, match=r"it has (2|no) run\.json"):
            load(tmp_path / "z.zip")


def test_a_zip_bomb_is_refused(kept: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ZIP_LIMIT_BYTES", 2**20)
    run = (kept().path / "run.json").read_bytes()
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", run)
        archive.writestr("samples.jsonl", b"\n" * 2**22)
    with pytest.raises(SchemaError, match=r"would unpack to .* more than"):
        load(bomb)
    # A header that lies about the size unpacks no further than it says, and is then found out.
    data = bytearray(bomb.read_bytes())
    for at in [i for i in range(len(data) - 4) if data[i : i + 4] == (2**22).to_bytes(4, "little")]:
        data[at : at + 4] = (1000).to_bytes(4, "little")
    bomb.write_bytes(data)
    with pytest.raises(SchemaError, match="no zip of a run bundle that can be read"):
        load(bomb)
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("run.json", run)
    with pytest.raises(SchemaError, match="valid: stored and deflated"):
        load(bomb)


@pytest.mark.slow("a cut at every byte")
@pytest.mark.slow("a cut at every byte")
def test_a_damaged_zip_is_one_clear_error(kept: Keep, tmp_path: Path) -> None:
    data = pack(kept().path, tmp_path).read_bytes()
    broken = tmp_path / "broken.zip"
    wrong = [data[:cut] for cut in range(0, len(data), 7)]
    wrong += [data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1 :] for i in range(0, len(data), 5)]
    refused = 0
    for content in wrong:
        broken.write_bytes(content)
        try:
            load(broken)
        except SchemaError:
            refused += 1
    assert refused > len(wrong) / 2  # a changed time or comment does no harm; anything else than SchemaError fails the test


# ---------------------------------------------------------------- one writer, and lines that can be read again


def test_a_run_has_one_writer(kept: Keep, tmp_path: Path) -> None:
    writer = Writer.create(make_run("20261121T101500-bbbbbb"), tmp_path)
    with pytest.raises(Busy, match="is being written by another process"):
        Writer.resume(writer.path)
    writer.append(make_samples())
    writer.finish(make_run("20261121T101500-bbbbbb"))
    Writer.resume(writer.path).finish(make_run("20261121T101500-bbbbbb"))
    assert len(load(writer.path).samples) == 1


def test_finish_may_be_called_again(kept: Keep) -> None:
    whole = kept()
    writer = Writer.resume(whole.path)
    writer.finish(whole.run)
    writer.finish(msgspec.structs.replace(whole.run, stops=[Stop("budget")]))
    assert load(whole.path).run.stops == [Stop("budget")]


@pytest.mark.parametrize(("name", "unwritable"), [("run.json", "run.json.tmp"), ("samples.jsonl", "samples.jsonl"), ("readings.log", "readings.log")])
def test_an_error_while_finishing_names_the_file(kept: Keep, monkeypatch: pytest.MonkeyPatch, name: str, unwritable: str) -> None:
    whole, real = kept(), os.fsync
    writer = Writer.resume(whole.path)

    def full(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), os.stat(whole.path / unwritable)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    (whole.path / "run.json.tmp").touch()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match=rf"^the run's {name} cannot be written: No space left on device; 2 lines of samples are kept"):
        writer.finish(whole.run)


def test_numbers_that_json_has_not_become_an_error_that_says_so(tmp_path: Path) -> None:
    writer = Writer.create(make_run(), tmp_path)
    writer.append(make_samples(0, values=[1.0, math.nan, 3.0], metrics={"a": math.inf, "b": 2.0}))
    writer.append(make_samples(1, wall_ratio=math.nan))
    writer.append(make_samples(2, reason="half \ud800"))
    writer.readings([Readings(sensor="power_w", device="d", times_s=[1.0, math.nan, 3.0], values=[10.0, 20.0, math.inf])])
    read = load(writer.path)
    assert read.samples[0].status == "error"
    assert read.samples[0].reason == "numbers that are not finite, left out of values, metrics"
    assert (read.samples[0].values, read.samples[0].metrics) == ([1.0, 3.0], {"b": 2.0})
    assert (read.samples[1].status, read.samples[1].wall_ratio) == ("measured", None)
    assert (read.samples[2].status, read.samples[2].reason) == ("measured", "half ?")
    assert (read.readings[0].times_s, read.readings[0].values) == ([1.0, 3.0], [10.0, None])


def test_a_label_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bytes that are no text"):
        Writer.create(make_run(labels={"a": "\udcff"}), tmp_path)
    assert not (tmp_path / "runs").exists()


numbers = st.floats(allow_nan=True, allow_infinity=True)
any_samples = st.builds(
    Samples, case=st.text(max_size=8), device=st.text(max_size=8), round=st.integers(0, 99), values=st.lists(numbers, max_size=5),
    reason=st.text(st.characters(exclude_categories=()), max_size=8), clocks_hz=st.lists(numbers, max_size=3), overhead_s=numbers,
    metrics=st.dictionaries(st.text(max_size=3), numbers, max_size=3), autocorrelation=st.none() | numbers,
)


@settings(max_examples=examples(150))
@given(st.lists(any_samples, max_size=4), st.data())
def test_any_samples_are_a_line_that_reads_back_and_a_cut_loses_only_the_last(given: list[Samples], data: st.DataObject) -> None:
    written = [lines.line(s) for s in given]
    text = b"".join(written)
    assert all(row.count(b"\n") == 1 for row in written)
    whole = lines.read(text, Samples, "x")
    assert len(whole.records) == len(given)
    for before, after in zip(given, whole.records, strict=True):
        assert after.values == [s for s in before.values if math.isfinite(s)]
        if before.values != after.values:
            assert after.status == "error"
    cut = data.draw(st.integers(len(text) - len(written[-1]), len(text))) if written else 0
    assert lines.read(text[:cut], Samples, "x").records == whole.records[: len(given) - (cut < len(text) - 1 and bool(written))]


def test_read_run_reads_nothing_else(kept: Keep) -> None:
    whole = kept()
    (whole.path / "samples.jsonl").write_bytes(b"broken\nbroken\n")
    assert bundle.read_run(whole.path) == whole.run


def test_run_json_is_for_people_too(kept: Keep) -> None:
    text = (kept().path / "run.json").read_text()
    assert text.startswith('{\n  "schema": 2,\n  "id": "20261121T101500-aaaaaa",\n  "kind": "plan",\n')
    assert io.StringIO(text).readlines()[-1] == "}\n"


def test_lines_lost_after_the_end_are_named(kept: Keep) -> None:
    whole = kept(rounds=2)
    (whole.path / "samples.jsonl").write_bytes(b"")
    assert [one for one in load(whole.path).notices if "4 of 4 lines are lost" in one.text]

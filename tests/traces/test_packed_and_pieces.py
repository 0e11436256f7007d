"""Unpacking and cutting into pieces: whatever the sizes of the blocks are, the same objects come out."""

from __future__ import annotations

import gzip
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.errors import InputError
from hotlap.traces.readers import kineto, packed, pieces
from hotlap.traces.readers.pieces import Pieces
from hotlap.traces.timeline import Timeline

# Objects inside others may begin with the events' first key: what is cut there is no JSON, and is cut elsewhere.
VALUES = st.recursive(
    st.none()
    | st.integers(-(10**6), 10**6)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(['"ph":', "},{", '"}', "\\", "]", "[{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["ph", "args", "x", "traceEvents"]), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.lists(
    st.dictionaries(st.sampled_from(["name", "ts", "args", "x"]), VALUES, max_size=3).map(lambda one: {"ph": "X", **one}), max_size=8
)


def blocks(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def sound(piece: bytes) -> bool:
    try:
        json.loads(b"[" + piece + b"]")
    except ValueError:
        return False
    return True


def cut(text: bytes, size: int, most: int) -> tuple[list[object], Pieces]:
    """Objects of all pieces, where a piece is made at `most` bytes."""
    before = pieces.PIECE
    pieces.PIECE = most
    try:
        found = Pieces(blocks(text, size), "traceEvents")
        texts = [text for piece in found if (text := piece if sound(piece) else found.earlier(piece, sound))]
    finally:
        pieces.PIECE = before
    joined: list[object] = []
    for piece in texts:
        joined += json.loads(b"[" + piece + b"]")
    return joined, found


@pytest.mark.slow("traces of many events")
@settings(max_examples=examples(200))
@given(OBJECTS, st.sampled_from([None, 1]), st.integers(1, 64), st.booleans())
def test_all_objects_come_out(objects: list[dict[str, object]], indent: int | None, size: int, whole: bool) -> None:
    document = {"schemaVersion": 1, "traceEvents": objects, "name": "é"} if whole else objects
    joined, found = cut(json.dumps(document, indent=indent, ensure_ascii=False).encode(), size, 1 << 20)
    assert joined == objects
    assert not found.truncated
    if whole:
        assert json.loads(found.before) == {"schemaVersion": 1, "traceEvents": []}
        assert json.loads(found.after) == {"name": "é"}


@settings(max_examples=examples(200))
@given(OBJECTS, st.integers(1, 64), st.integers(1, 80))
def test_small_pieces_hold_the_same_where_no_text_looks_like_an_event(objects: list[dict[str, object]], size: int, most: int) -> None:
    plain = [{"ph": "X", "name": str(i), "args": {"x": len(one)}} for i, one in enumerate(objects)]
    joined, found = cut(json.dumps({"traceEvents": plain}).encode(), size, most)
    assert joined == plain
    assert not found.truncated


def test_pieces_cut_inside_an_event_are_cut_elsewhere() -> None:
    """Every seventh event holds a list of objects that begin as events do; blocks are small beside the document."""
    objects = [{"ph": "X", "name": str(i), "args": [{"ph": j} for j in range(5 if i % 7 == 0 else 0)]} for i in range(3000)]
    joined, found = cut(json.dumps({"traceEvents": objects, "after": 1}).encode(), 1000, 20_000)
    assert joined == objects
    assert json.loads(found.after) == {"after": 1}


@given(st.integers(1, 200))
def test_a_cut_document_gives_what_stands_before_the_cut(length: int) -> None:
    objects = [{"ph": "X", "name": str(i)} for i in range(9)]
    text = json.dumps({"traceEvents": objects, "after": 1}).encode()[:length]
    if b"[" not in text:
        with pytest.raises(InputError, match="no array 'traceEvents'"):
            cut(text, 7, 40)
        return
    joined, found = cut(text, 7, 40)
    assert joined == objects[: len(joined)]
    assert len(joined) >= text.count(b"},")
    assert found.truncated or text.count(b"}") >= 9


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_packed_files_give_their_bytes(tmp_path: Path, size: int) -> None:
    text = bytes(range(256)) * (size // 256 + 1)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("folder/", "")
        made.writestr("folder/trace.json", text)
    halves = gzip.compress(text[: len(text) // 2]) + gzip.compress(text[len(text) // 2 :]) + b"\0" * 7  # members one after another, padded
    for name, contents in {"plain": text, "a.gz": gzip.compress(text), "b.gz": halves, "c.zip": archive.getvalue()}.items():
        (tmp_path / name).write_bytes(contents)
        assert b"".join(packed.blocks(tmp_path / name)) == text, name
        assert packed.head(tmp_path / name, 50) == text[:50]


def test_cut_and_damaged_packed_files(tmp_path: Path) -> None:
    text = b"0123456789" * 100_000
    cases = {"cut.gz": gzip.compress(text)[:-300], "none.gz": b"\x1f\x8b\x08\x00damaged-from-the-start", "cut.zip": b"PK\x03\x04rest"}
    for name, contents in cases.items():
        (tmp_path / name).write_bytes(contents)
    kept = b"".join(packed.blocks(tmp_path / "cut.gz"))
    assert kept
    assert text.startswith(kept)
    for name in ("none.gz", "cut.zip"):
        with pytest.raises(InputError, match="cannot be unpacked"):
            list(packed.blocks(tmp_path / name))
        assert packed.head(tmp_path / name) == b""


def test_a_member_without_a_name_is_a_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(""), b"text")
    assert b"".join(packed.blocks(tmp_path / "x.zip")) == b"text"


@pytest.mark.slow("files that unpack to hundreds of MiB")
def test_bombs_are_refused_before_they_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 24)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0" * (1 << 26)))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", b"\0" * (1 << 26))
    for name in ("bomb.gz", "bomb.zip"):
        taken: list[int] = []
        with pytest.raises(InputError, match="times its size when unpacked"):
            taken.extend(map(len, packed.blocks(tmp_path / name)))
        assert sum(taken) <= (1 << 24) + packed.BLOCK


@pytest.mark.parametrize("words", [6_000, 300_000])  # more than a packed block and the first 64 kB unpack to
def test_a_trace_that_says_much_before_its_events_is_read(tmp_path: Path, words: int) -> None:
    about = {"distributedInfo": {"rank": 3, "pg_config": [{"pg_name": str(i * 7919 % 104729)} for i in range(words)]}}
    events = [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 7}]
    text = json.dumps(about | {"traceEvents": events}).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.json").write_bytes(text)
    for name in ("a.json.gz", "a.json"):
        found = Timeline.open(tmp_path / name)
        assert (len(found), found.head.rank) == (1, 3)


def test_a_document_whose_events_are_too_far_from_its_begin_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kineto, pieces):
        monkeypatch.setattr(module, "HEAD", 5 << 20)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"long": "' + b"x" * (9 << 20) + b'", "traceEvents": []}'))
    with pytest.raises(InputError, match=r"a.json.gz': its array 'traceEvents' does not begin within the first 5 MiB"):
        Timeline.open(tmp_path / "a.json.gz")


@pytest.mark.slow("traces of many events")
def test_a_reader_that_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1 << 25)))
    taken = packed.blocks(tmp_path / "x.gz")
    next(taken)
    taken.close()
    assert not [one for one in threading.enumerate() if one.name == "unpack"]


def test_a_first_object_that_begins_as_no_other_does_is_no_reason_to_hold_all() -> None:
    objects = [{"name": "first", "ph": "X"}, *({"ph": "X", "name": str(i)} for i in range(500))]
    text = json.dumps({"traceEvents": objects}).encode()
    before, pieces.PIECE = pieces.PIECE, 1000
    try:
        found = Pieces(blocks(text, 400), "traceEvents")
        texts = list(found)
    finally:
        pieces.PIECE = before
    assert len(texts) > 5
    assert [one for piece in texts for one in json.loads(b"[" + piece + b"]")] == objects

"""Frames in a stream that holds anything else, and the agent's file: what it may use, and how large it is."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

import pytest

from hotlap.cluster import agent

SESSION = bytes(range(16))


def fed(data: bytes, size: int = 1000) -> tuple[list[tuple[dict[str, object], bytes]], agent.FrameReader]:
    reader = agent.FrameReader(SESSION)
    frames = [frame for place in range(0, len(data), size) for frame in reader.feed(data[place : place + size])]
    return frames, reader


def test_a_megabyte_of_banner_changes_nothing() -> None:
    noise = random.Random(1).randbytes(1 << 20) + agent.MAGIC + b"not ours"
    messages = [({"is": "beat", "n": number}, bytes([number]) * number * 100) for number in range(1, 30)]
    data = noise + b"".join(agent.frame(SESSION, message, body) + b"Last login: today\r\n" for message, body in messages)
    frames, reader = fed(data)
    assert frames == messages
    assert reader.noise == len(noise) + 29 * 19 - 19 + len(reader._buffer) * 0 + (19 - len(reader._buffer))


def test_a_frame_that_something_wrote_into_is_dropped_and_the_next_is_whole() -> None:
    first, second = agent.frame(SESSION, {"n": 1}, b"x" * 100), agent.frame(SESSION, {"n": 2})
    frames, reader = fed(first[:90] + b"!" + first[90:] + second)
    assert frames == [({"n": 2}, b"")]
    assert reader.broken == 1


def test_a_frame_of_another_session_is_noise() -> None:
    assert fed(agent.frame(bytes(16), {"is": "hello"}))[0] == []


@pytest.mark.parametrize("payload", [b"\0\0\0\2[]", b"\0\0\0\1{", b"\0", b"\0\0\xff\xff" + b"[" * 60000])
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    import hashlib

    data = agent.HEAD.pack(agent.MAGIC, SESSION, len(payload), hashlib.sha256(payload).digest()) + payload
    with pytest.raises(agent.FrameError):
        fed(data, len(data))


def test_a_length_beyond_the_limit_is_refused_at_once() -> None:
    with pytest.raises(agent.FrameError, match="is the most"):
        fed(agent.HEAD.pack(agent.MAGIC, SESSION, 1 << 31, bytes(32)))


def test_the_agent_is_one_small_file_of_python_3_9_and_the_standard_library() -> None:
    source = Path(agent.__file__).read_text()
    assert len(source) <= 300_000
    tree = ast.parse(source, feature_version=(3, 9))
    assert not any(isinstance(node, ast.Match) for node in ast.walk(tree))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)])
    }  # fmt: skip
    assert imported <= sys.stdlib_module_names
    ast.parse(agent.BOOTSTRAP, feature_version=(3, 6))  # it is what tells an older Python that it is too old

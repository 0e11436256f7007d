"""A large JSON document with one long array of objects, cut into the text before it, pieces of the array, and the text after it.

A piece ends where an object ends whose follower begins with the key that the array's objects begin with. That such a place
lies inside a string or deeper in the document is possible: then the piece is no JSON, the
decoder of the piece says so, and `earlier` finds another place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from hotlap.core.errors import InputError

PIECE = 1 << 22
SECOND = 4096  # bytes behind the first object in which the second one's first key stands
LARGEST = 1 << 28  # an object that does not end within this is no event
TRIES = 8  # other places to cut at
HEAD = 1 << 26  # nor does a document have this much before its array
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'  # possessive: a string without an end must not be tried again from every place in it
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
# The first object's first key; objects with nothing in them are passed over.
_FIRST = re.compile(rb"[\s,]*+(?:\{\s*+\}[\s,]*+)*+\{\s*+(" + _STRING + rb")\s*+:", re.DOTALL)
_ENDED = re.compile(rb"[\s,]*+(?:\{\s*+\}[\s,]*+)*+[^\s,{]")  # the array's end, or something that is no object


class Pieces:
    """Iterate once: gives bytes that are comma-separated objects. `before` and `after` are JSON of the rest of the document."""

    def __init__(self, blocks: Iterable[bytes], key: str) -> None:
        self.blocks, self.key = iter(blocks), key.encode()
        self.before, self.after = b"{}", b"{}"
        self.truncated = self.tailing = False
        self.buffer = b""
        self.ended = False
        self.held = False  # the next cut must be another than the last

    def _more(self) -> bool:
        block = next(self.blocks, None)
        if block is None:
            self.ended = True
            return False
        self.buffer += block
        return True

    def _begin(self) -> bytes:
        """Finds the array; the key its objects begin with."""
        opening = re.compile(rb'"' + re.escape(self.key) + rb'"\s*:\s*\[')
        while True:
            text = self.buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
            if text[:1] == b"[":
                self.buffer, begins = text[1:], True
            else:
                at = opening.search(self.buffer)
                begins = at is not None
                if at:
                    self.before = self.buffer[: at.end()] + b"]}"
                    self.buffer = self.buffer[at.end() :]
            if begins:
                break
            if len(self.buffer) > HEAD:
                raise InputError(f"its array '{self.key.decode()}' does not begin within the first {HEAD >> 20} MiB")
            if not self._more():
                raise InputError(f"there is no array '{self.key.decode()}' in it")
        while not (first := _FIRST.match(self.buffer)) and not _ENDED.match(self.buffer) and len(self.buffer) <= HEAD and self._more():
            pass
        return first.group(1) if first else b""

    def __iter__(self) -> Iterator[bytes]:
        first = self._begin()
        if first:
            self._learn(first)
            alone = True  # the first object may begin as no other does: then the key of the second one is learnt
            while True:
                full = len(self.buffer) >= PIECE
                if self.held and not self.ended:
                    full = self._more()
                if self.held and self.ended:
                    break
                self.held = False
                at = self._last(self.follower, self.key_, self.buffer) if full or self.ended else None
                if at is None and full and alone and (other := self._second_key()) not in (b"", self.key_):
                    self._learn(other)
                    alone = False
                    continue
                if at is not None:
                    piece, self.buffer = self.buffer[:at], self.buffer[at:].lstrip(b" \t\r\n,")
                    yield piece
                    continue
                if self.ended:
                    break
                if len(self.buffer) > LARGEST:
                    raise InputError(f"no event ends within {LARGEST >> 20} MiB")
                self._more()
        while not self.ended and self._more():  # an array without events: what stands after it is wanted
            if len(self.buffer) > HEAD:
                raise InputError(f"its array '{self.key.decode()}' begins with no event")
        yield from self._tail()

    def _learn(self, key: bytes) -> None:
        """With which key the objects begin."""
        self.key_ = key
        self.follower = re.compile(rb"\}\s*,\s*\{\s*" + re.escape(key))

    def _second_key(self) -> bytes:
        """The key that the second object begins with; b"" where the first does not end here."""
        depth = 0
        for token in _TOKEN.finditer(self.buffer):
            sign = self.buffer[token.start()]
            depth += (sign in b"{[") - (sign in b"}]")
            if depth == 0 and sign in b"}]":
                found = _FIRST.match(self.buffer[token.end() : token.end() + SECOND].lstrip(b" \t\r\n,"))
                return found.group(1) if found else b""
        return b""

    def earlier(self, piece: bytes, sound: Callable[[bytes], bool]) -> bytes | None:
        """For a piece that is no JSON: a shorter one that is, b"" where it has to be longer; the rest will come. None: it is damaged."""
        if self.tailing:
            return None
        stop = len(piece)
        for tried in range(TRIES):
            at = self._last(self.follower, self.key_, piece[:stop])
            if at is None:
                break
            if sound(piece[:at]):
                self.buffer, self.held = piece[at:].lstrip(b" \t\r\n,") + b"," + self.buffer, True
                return piece[:at]
            stop = max(at - (16 << 2 * tried), 0)  # ever further: many objects may stand in the one that was cut
        end = len(self.buffer)
        for _ in range(TRIES if self.ended else 0):
            end = self.buffer.rfind(b"]", 0, end)
            if end < 0:
                break
            if sound(piece + b"," + self.buffer[:end]):
                self.buffer, self.held = piece + b"," + self.buffer, True
                return b""
        return None

    def _last(self, follower: re.Pattern[bytes], key: bytes, text: bytes) -> int | None:
        """Where the last object that surely ends does: just after its brace."""
        stop = len(text)
        while (at := text.rfind(key, 0, stop)) > 0:
            begin = max(at - 64, 0)
            for found in follower.finditer(text, begin, at + len(key)):
                if found.end() == at + len(key):
                    return found.start() + 1
            stop = at
        return None

    def _tail(self) -> Iterator[bytes]:
        """The last objects, and what stands after the array."""
        self.tailing = True
        text, depth, start = self.buffer, 0, 0
        last = 0  # end of the last whole object
        for token in _TOKEN.finditer(text):
            sign = text[token.start()]
            if sign in b"{[":
                depth += 1
            elif sign in b"}]":
                depth -= 1
                if depth == 0:
                    last = token.end()
                if depth < 0:  # the array's end
                    if last:
                        yield text[start:last]
                    rest = text[token.end() :].lstrip().removeprefix(b",")
                    self.after = b"{" + rest if rest.strip() else b"{}"
                    return
        self.truncated = bool(text[last:].strip(b" \t\r\n,")) or self.before != b"{}"
        if last:
            yield text[start:last]

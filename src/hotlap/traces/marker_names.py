"""Names of markers: what they have in common when ids are taken out, and which are spelt almost alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import NamedTuple

LEAST_TOKEN = 4  # letters of a word in which one wrong letter is taken for a mistake
ALIKE = 0.6  # similarity from which a name that vanished and one that appeared are taken for one renamed
_IDS = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<address>0x[0-9a-fA-F]+)"
    r"|(?P<hash>(?<![0-9a-zA-Z])(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9a-zA-Z]))"
    r"|(?P<number>(?!(?<=[^\W\d_])\d[^\W\d_])\d+)"  # but not the digit of all2all or conv2d
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|<\w+>")
_SEPARATORS = re.compile(r"[\s_\-./:#|]+")


class Template(NamedTuple):
    """A name without its ids: step_<number>. `kinds` are those that it had, in order."""

    text: str
    kinds: tuple[str, ...]


def template(name: str) -> Template:
    """The name with numbers, hex addresses, hashes and UUIDs replaced by what they are."""
    kinds: list[str] = []

    def kind_of(match: re.Match[str]) -> str:
        kinds.append(str(match.lastgroup))
        return f"<{match.lastgroup}>"

    return Template(_IDS.sub(kind_of, name), tuple(kinds))


def alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ in case and separators only, then pairs that differ by one letter within a word."""
    by_key: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_key.setdefault(_SEPARATORS.sub("", name).casefold(), []).append(name)
    groups = [tuple(group) for group in by_key.values() if len(group) > 1]
    near: dict[str, list[str]] = {}
    for key in by_key:
        for shortened in {key, *(key[:i] + key[i + 1 :] for i in range(len(key)))} if len(key) <= 200 else ():
            near.setdefault(shortened, []).append(key)
    pairs = {(a, b) for group in near.values() if len(group) < 50 for i, a in enumerate(group) for b in group[i + 1 :]}
    return groups + [(by_key[a][0], by_key[b][0]) for a, b in sorted(pairs) if _mistaken(by_key[a][0], by_key[b][0])]


def _mistaken(a: str, b: str) -> bool:
    """Whether one letter of one word is wrong, missing, too many, or swapped with its neighbour; not its first."""
    ours, theirs = _words(a), _words(b)
    if len(ours) != len(theirs):
        return False
    differ = [(x, y) for x, y in zip(ours, theirs, strict=True) if x != y]
    return len(differ) == 1 and min(map(len, differ[0])) >= LEAST_TOKEN and _one_letter(*differ[0])


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _WORDS.findall(name)]


def _one_letter(a: str, b: str) -> bool:
    if "<" in a + b:
        return False
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    rest = 0
    while rest < min(len(a), len(b)) - same and a[len(a) - 1 - rest] == b[len(b) - 1 - rest]:
        rest += 1
    x, y = a[same : len(a) - rest], b[same : len(b) - rest]
    return same > 0 and (max(len(x), len(y)) <= 1 or (len(x) == len(y) == 2 and x == y[::-1]))


class Changed(NamedTuple):
    """What became of the names from one trace to the next."""

    renamed: list[tuple[str, str]]
    gone: list[str]
    new: list[str]


def changed(before: Iterable[str], after: Iterable[str]) -> Changed:
    """Names of two traces set against each other; the most similar of those that differ are taken for renamed."""
    was, now = set(before), set(after)
    gone, new = sorted(was - now), sorted(now - was)
    scored = sorted(
        ((similarity(a, b), a, b) for a in gone[:120] for b in new[:120]), key=lambda one: (-one[0], one[1], one[2])
    )  # fmt: skip
    renamed: list[tuple[str, str]] = []
    for score, a, b in scored:
        if score < ALIKE:
            break
        if all(a != old and b != fresh for old, fresh in renamed):
            renamed.append((a, b))
    taken = {name for pair in renamed for name in pair}
    return Changed(renamed, [one for one in gone if one not in taken], [one for one in new if one not in taken])


def similarity(a: str, b: str) -> float:
    """0 … 1, of the names without case and separators."""
    x, y = (_SEPARATORS.sub("", name).casefold()[:200] for name in (a, b))
    return 1.0 if x == y else SequenceMatcher(None, x, y, autojunk=False).ratio()

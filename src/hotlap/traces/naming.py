"""Names of kernels, short enough to read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_FUNCTOR = re.compile(r"(\w*(?:Functor|functor|Op|_op|kernel_impl|_kernel_cuda|lambda)\w*)")
_WRAPPER = re.compile(r"^(?:Kernel2?|device_kernel|kernel)$")  # of CUTLASS and others: the name that tells is the first parameter
_PLAIN = ("void ", "(anonymous namespace)::", "at::native::", "at_cuda_detail::", "cub::", "std::")


_PARTS = re.compile(r"\w+|[^\w\s,<>():]+")
EVERY = 1 << 20  # characters: nothing is cut


def labels(names: Iterable[str], most: int = EVERY) -> dict[str, str]:
    """A short name for each, of at most `most` characters; different names of one table never get the same one.

    Where `short` makes two alike, what they differ by is added after it; where the cut does, the part that differs is kept.
    """
    by_short: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        by_short[short(name)].append(name)
    shown: dict[str, str] = {}
    for text, alike in by_short.items():
        for name, part in zip(alike, _different(alike), strict=True):
            shown[name] = f"{text} [{part}]" if part else text
    _cut(shown, most)
    return shown


def _different(names: Sequence[str]) -> list[str]:
    """Of each name the parts that differ: where all have as many, those alone, else what lies between the first and the last of them."""
    if len(names) == 1:
        return [""]
    plain = [_without_arguments(name) for name in names]
    parts = [_PARTS.findall(name) for name in (plain if len(set(plain)) == len(plain) else names)]
    if len({len(one) for one in parts}) == 1:
        differ = [i for i, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
        return [" ".join(one[i] for i in differ) for one in parts]
    head = _same(parts)
    tail = _same([one[head:][::-1] for one in parts])
    return [" ".join(one[head : len(one) - tail]) for one in parts]


def _without_arguments(name: str) -> str:
    """A C++ signature up to its list of arguments."""
    depth = 0
    for at in range(len(name) - 1, -1, -1) if name.endswith(")") else ():
        depth += (name[at] == ")") - (name[at] == "(")
        if not depth:
            return name[:at]
    return name


def _same(rows: Sequence[Sequence[str]]) -> int:
    """How many first parts all have in common."""
    return next((i for i, column in enumerate(zip(*rows, strict=False)) if len(set(column)) > 1), min(map(len, rows)))


def _cut(shown: dict[str, str], most: int) -> None:
    """Cuts labels to `most` characters; those that would be the same then keep what they differ by, or get a number."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in shown.items():
        groups[text if len(text) <= most else text[: most - 1].rstrip() + "…"].append(name)
    taken = {text for text, alike in groups.items() if len(alike) == 1}
    for text, alike in groups.items():
        if len(alike) == 1:
            shown[alike[0]] = text
            continue
        head = _same([shown[name] for name in alike])
        for name in alike:
            whole, begin = shown[name], shown[name][: most // 3].rstrip() + "…"
            tail = max(min(head - 4, len(whole) - most + len(begin)), most // 3)
            label = begin + whole[tail:][: most - len(begin)] if len(whole) > most else whole
            number = 2
            while label in taken:  # they differ in more than there is room for
                label = f"{text[: most - 1 - len(str(number)) - 1].rstrip('…')}#{number}"
                number += 1
            taken.add(label)
            shown[name] = label


def short(name: str) -> str:
    """A C++ signature without namespaces, arguments and template parameters, save the functor that tells kernels apart."""
    text = name
    for word in _PLAIN:
        text = text.replace(word, "")
    base, _, rest = text.partition("<")
    base = base.split("(")[0].strip().rsplit("::", 1)[-1] or text
    if not rest or base == text:
        return text.split("(")[0].strip() or name
    if _WRAPPER.match(base) and (inner := re.match(r"\s*([\w:]+)", rest)):
        return inner.group(1).rsplit("::", 1)[-1] or base
    found = next((one for one in _FUNCTOR.findall(rest) if one not in base), "")
    return f"{base}<{found}>" if found else base

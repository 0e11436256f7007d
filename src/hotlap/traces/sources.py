"""The line of the user's program behind each host event: of its call stack, else of the Python functions around it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.calls import Places
from hotlap.traces.events import PYTHON, Events

LIBRARIES = (
    "site-packages",
    "dist-packages",
    "<built-in",
    "torch/",
    "nn.Module",
    "/lib/python",
    "<frozen",
    "sitecustomize.py(",
    "hotlap/__init__.py(",
)


def users_line(lines: list[str]) -> str:
    """The innermost line that is not a library's; "" where all are."""
    for line in lines:
        text = line.strip()
        if text and not any(word in text for word in LIBRARIES):
            return text
    return ""


def lines(events: Events, places: Places, parent: Places) -> tuple[NDArray[np.int32], list[str]]:
    """For each of these host events a place in the returned lines; −1 where the line is not known. `parent` is of all events."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts)) if text else -1

    by_stack = np.array([number(users_line(stack.split(";"))) for stack in events.stacks] or [-1], np.int32)
    python = np.zeros(len(events.names), bool)
    python[np.unique(events.name[events.kind == PYTHON])] = True
    by_name = np.array([number(users_line([name])) if known else -1 for name, known in zip(events.names, python, strict=True)], np.int32)
    numbers = np.full(len(places), -1, np.int32)
    at = places.copy()
    while True:
        open_ = np.flatnonzero((numbers < 0) & (at >= 0)) if texts else np.empty(0, np.int64)
        if not len(open_):
            return numbers, list(texts)
        here = at[open_]
        stack = events.stack[here]
        by_function = np.where(events.kind[here] == PYTHON, by_name[events.name[here]], -1)
        numbers[open_] = np.where(stack >= 0, by_stack[np.maximum(stack, 0)], by_function)
        at[open_] = parent[here]

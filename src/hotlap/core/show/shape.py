"""The head of what `--json` prints, the same for every verb: shape 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

SHAPE = 3
HEAD = ("schema", "verdict", "exit_code", "cases")
Verdict = Literal["pass", "fail", "inconclusive"]
VERDICTS: Mapping[int, Verdict] = {0: "pass", 1: "fail", 3: "inconclusive", 130: "inconclusive"}


def answer(keys: Mapping[str, Any], code: int | None = None, cases: Sequence[Any] | None = None, judged: bool = True) -> dict[str, Any]:
    """`keys`: what a verb has beside cases. `code`: its exit code, where it exits by its answer; not `judged`: that is no verdict."""
    assert not {*HEAD} & {*keys}, f"keys of the head are taken: {', '.join(keys)}"
    verdict = VERDICTS.get(code) if code is not None and judged else None
    head = {"schema": SHAPE, "verdict": verdict, "exit_code": code}
    return {**head, **({} if cases is None else {"cases": cases}), **keys}

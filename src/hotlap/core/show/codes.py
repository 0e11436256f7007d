"""Every code that a number, a run, a file or a limit may carry: what it says, its word in tables, and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.show import layout
from hotlap.core.show.notices import KINDS, SAME
from hotlap.core.show.table import Cell, Column

OF_NUMBERS = "notices of a number"


def texts() -> Mapping[str, Mapping[str, str]]:
    """What each code says, by what it is of."""
    return tomllib.loads(resources.files("hotlap.core.show").joinpath("codes.toml").read_text(encoding="utf-8"))


def facts(names: Sequence[str]) -> list[dict[str, Any]]:
    """These codes, or all, as JSON. Raises InputError for one that is not there."""
    known = {code for codes in texts().values() for code in codes}
    for name in names:
        if name not in known:
            raise InputError(f"there is no code '{name}'; {nearest(name, known)}")
    return [
        {"of": group, "code": code, **_shown(group, code), "meaning": meaning}
        for group, codes in texts().items()
        for code, meaning in codes.items()
        if not names or code in names
    ]


def _shown(group: str, code: str) -> dict[str, str]:
    kind = KINDS.get(SAME.get(code, code)) if group == OF_NUMBERS else None
    return {"word": kind.word if kind else "", "action": kind.action if kind else ""}


def listed(names: Sequence[str], width: int = 100, color: bool = False) -> str:
    """The same for people: what was seen → what to do."""
    rows = facts(names)
    columns = [
        Column("code", [Cell(row["code"], "bold") for row in rows]),
        Column("in tables", [Cell(row["word"]) for row in rows]),
        Column("what it says → what to do", [Cell(" → ".join(filter(None, (row["meaning"], row["action"])))) for row in rows], wrap=True),
    ]
    groups = [(group, count) for group in texts() if (count := sum(row["of"] == group for row in rows))]
    return "\n".join(layout.Grid(columns, width).lines(color, groups))

"""The live view of a campaign: on a terminal one line that is redrawn, which never breaks; elsewhere lines alone."""

from __future__ import annotations

import io
import re

import pytest

from hotlap.cluster import live
from hotlap.cluster.record import MemberEvent, State


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(out: io.StringIO, *states: tuple[str, State, str]) -> str:
    view = live.ClusterView(3, 3, {1: "sh"}, out)
    for member, state, why in states:
        view.tell(MemberEvent(time_s=0.0, member=member, step=1, attempt=1, to=state, why=why))
    view._drawn_s = 0.0
    view.draw()
    return out.getvalue()


STATES: tuple[tuple[str, State, str], ...] = (("a", "running", ""), ("b", "running", ""), ("a", "died", "exit status 4"))


def test_a_terminal_shows_who_is_waited_for() -> None:
    frames = re.split(r"\r *\r", told(Terminal(), *STATES))
    assert "hotlap: a: died: exit status 4" in "".join(frames)
    assert frames[-1] == "0 of 3 measured, 1 running, 1 died · b · 0 s"


def test_elsewhere_there_are_lines_alone() -> None:
    assert told(io.StringIO(), *STATES) == "hotlap: a: died: exit status 4\n"


def test_the_line_is_never_wider_than_the_terminal_and_nothing_in_it_steers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    last = re.split(r"\r *\r", told(Terminal(), *((f"node{n}\x1b[2J" + "x" * 30, "running", "") for n in range(3))))[-1]
    assert 30 < len(last) < 40
    assert "\x1b" not in last

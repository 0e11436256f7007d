"""The state of every member in every step, from what the campaign's folder holds: one pass over the events, no other memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hotlap.cluster.record import Member, MemberEvent, MemberState

Place = tuple[int, str]
"""Step and member."""


def last(events: Iterable[MemberEvent]) -> dict[Place, MemberEvent]:
    """The event that decides, of each step and member: a result is never undone by a later attempt, but by what refutes it."""
    decided: dict[Place, MemberEvent] = {}
    for event in events:
        place = event.step, event.member
        before = decided.get(place)
        if before is None or before.to != "measured" or event.to == "truncated":
            decided[place] = event
    return decided


def derive(
    members: Sequence[Member], steps: Sequence[int], events: Iterable[MemberEvent], beats: Mapping[Place, float], now_s: float,
    silent_s: float,
) -> list[MemberState]:
    """`beats`: when each attempt that is open was last heard of, UNIX; one without is as old as its start. What runs has the seconds
    since its attempt began."""
    kept = list(events)
    decided, states = last(kept), []
    began = {(event.step, event.member): event.time_s for event in kept if event.to == "running" and event.was != "silent"}
    for step in steps:
        for member in members:
            event = decided.get((step, member.name))
            if event is None:
                states.append(MemberState(member=member.name, step=step, state="never started"))
                continue
            state, why, seconds = event.to, event.why, event.seconds
            if state in ("running", "silent"):
                heard_s = max(beats.get((step, member.name), event.time_s), event.time_s if state == "running" else 0.0)
                state = "silent" if now_s - heard_s > silent_s else "running"
                why = f"no beat for {now_s - heard_s:.0f} s" if state == "silent" else ""
                since_s = now_s - began.get((step, member.name), now_s)
                seconds = since_s if since_s > 0 else None
            states.append(
                MemberState(
                    member=member.name, step=step, state=state, attempt=event.attempt, why=why, code=event.code, seconds=seconds,
                    evidence=event.evidence,
                )
            )
    return states


def paused(events: Sequence[MemberEvent]) -> list[str]:
    """Members that were silent in the very attempt whose result counts."""
    silent = {(event.step, event.member, event.attempt) for event in events if event.to == "silent"}
    measured = [event for event in last(events).values() if event.to == "measured"]
    return list(dict.fromkeys(one.member for one in measured if (one.step, one.member, one.attempt) in silent))


def open_attempts(events: Iterable[MemberEvent]) -> dict[Place, MemberEvent]:
    """Attempts that were begun and of which no end is recorded."""
    return {place: event for place, event in last(events).items() if event.to in ("running", "silent") and event.attempt}


def attempts(events: Iterable[MemberEvent]) -> dict[Place, int]:
    """The highest attempt of each place."""
    highest: dict[Place, int] = {}
    for event in events:
        place = event.step, event.member
        highest[place] = max(highest.get(place, 0), event.attempt)
    return highest

"""Rules of lint that look at one trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from hotlap.traces import calls, intervals, steps
from hotlap.traces.events import Half
from hotlap.traces.marker_names import alike, template
from hotlap.traces.markers import MOST_PLACES, Flaw, MarkerRule, Marks, Severity, Spot, flaw, is_step

VARYING = ("uuid", "address", "hash")  # two names that differ in these are enough: no part of a program is called so
MEASURED = "kineto"  # whose ranges' cost the threshold was measured of
ONCE = 0.5  # share of names used once, from which numbers are ids and not parts of the program


def flaws(marks: Marks, rules: Mapping[str, MarkerRule], parts: re.Pattern[str]) -> list[Flaw]:
    """What these rules find in one trace."""
    if not len(marks.places) and not marks.events.head.halves:
        detail = "there is no marker in the trace"
        found = list(_no_step(marks, rules["no-step"]))
        return [*found, flaw(rules["unmarked"], detail)] if len(marks.events.work) else found
    return [
        *_halves(marks, rules), *_crossed(marks, rules["crossed"]), *_ids(marks, rules["ids"], parts),
        *_alike(marks, rules["near-duplicates"]), *_depths(marks, rules), *_no_step(marks, rules["no-step"]),
        *_short(marks, rules["too-short"]), *_unmarked(marks, rules["unmarked"]),
    ]  # fmt: skip


def _spot(marks: Marks, half: Half) -> Spot:
    return Spot(file=marks.file, time_s=half.start_ns / 1e9, thread=half.thread)


def _halves(marks: Marks, rules: Mapping[str, MarkerRule]) -> Iterator[Flaw]:
    """Begin and end per thread and domain."""
    halves = marks.events.head.halves
    opened, closed = [h for h in halves if h.what == "begin"], [h for h in halves if h.what == "end"]
    for half in list(opened):
        fits = [h for h in closed if h.thread != half.thread and h.domain == half.domain and h.start_ns >= half.start_ns]
        named = [h for h in fits if h.name == half.name] or ([h for h in fits if not h.name] if len(opened) == len(closed) == 1 else [])
        if named:
            end = named[0]
            opened.remove(half)
            closed.remove(end)
            detail = f"opened on {half.thread}, closed on {end.thread} after {(end.start_ns - half.start_ns) / 1e6:.3g} ms"
            yield flaw(rules["closed-elsewhere"], detail, names=[half.name], places=[_spot(marks, half), _spot(marks, end)])
    cut = any(notice.code == "cut_off" for notice in marks.events.head.notices)
    for name, several in _by_name(opened):
        detail = "never closed on its thread" + ("; the file is cut off, so it may be that its end is missing" if cut else "")
        yield _half_flaw(marks, rules["left-open"], detail, name, several, "warning" if cut else "error")
    begun = [h for h in closed if _before_all(marks, h)]
    for name, several in _by_name([h for h in closed if h not in begun]):
        yield _half_flaw(marks, rules["closed-unopened"], "an end without a beginning on its thread", name, several, "error")
    for name, several in _by_name(begun):
        detail = "an end before any range of its thread: begun before recording"
        yield _half_flaw(marks, rules["closed-unopened"], detail, name, several, "info")
    for name, several in _by_name([h for h in halves if h.what == "other"]):
        detail = f"this end closed the range '{several[0].closes}', which was open on its thread"
        yield _half_flaw(marks, rules["closed-unopened"], detail, name, several, "error")


def _half_flaw(marks: Marks, rule: MarkerRule, detail: str, name: str, several: list[Half], severity: Severity) -> Flaw:
    where = f" of domain '{several[0].domain}'" if several[0].domain else ""
    spots = [_spot(marks, one) for one in several[:MOST_PLACES]]
    return flaw(rule, detail + where, severity, names=[name or "(no name)"], places=spots, count=len(several))


def _by_name(halves: list[Half]) -> list[tuple[str, list[Half]]]:
    groups: dict[tuple[str, str], list[Half]] = {}
    for one in halves:
        groups.setdefault((one.name, one.domain), []).append(one)
    return [(name, several) for (name, _), several in groups.items()]


def _before_all(marks: Marks, half: Half) -> bool:
    """Whether no marker of the thread stands before this end."""
    events = marks.events
    mine = [i for i, one in enumerate(events.threads) if half.thread.startswith(f"{one.process}/{one.thread}")]
    starts = events.start[marks.places[np.isin(events.thread[marks.places], mine)]]
    others = [h.start_ns for h in events.head.halves if h.what == "begin" and h.thread == half.thread]
    return half.start_ns < min([*others, int(starts.min()) if len(starts) else 2**62])


def _crossed(marks: Marks, rule: MarkerRule) -> Iterator[Flaw]:
    events, nest = marks.events, marks.nesting
    inside = nest.parent >= 0
    child, parent = nest.places[inside], nest.parent[inside]
    late = events.end[child] - events.end[parent]
    wrong = (late > rule.threshold * 1e9) & (marks.is_own[events.name[child]] | marks.is_own[events.name[parent]])
    # Where children fill the time to the end of the one around them, a rounded end may stand past it by some of the child's length.
    wrong &= late * 1000 > events.duration[child]
    child, parent = child[wrong], parent[wrong]
    pairs = Counter(zip(events.name[parent].tolist(), events.name[child].tolist(), strict=True))
    for (outer, inner), count in pairs.most_common(MOST_PLACES):
        here = child[(events.name[child] == inner) & (events.name[parent] == outer)]
        names = [events.names[outer], events.names[inner]]
        most = float(late[wrong][(events.name[child] == inner) & (events.name[parent] == outer)].max()) / 1e6
        detail = f"'{names[1]}' begins inside '{names[0]}' and ends up to {most:.3g} ms after it"
        yield flaw(rule, detail, names=names, places=marks.spots(here), count=count)


def _ids(marks: Marks, rule: MarkerRule, parts: re.Pattern[str]) -> Iterator[Flaw]:
    groups: dict[str, list[int]] = {}
    for i in marks.own:
        groups.setdefault(marks.templates[i], []).append(i)
    for text, ids in groups.items():
        if len(ids) < 2:
            continue
        kinds = template(marks.events.names[ids[0]]).kinds
        varying = any(kind in VARYING for kind in kinds)
        once = sum(int(marks.counts[i]) == 1 for i in ids) / len(ids)
        counted = parts.search(text.split("<number>")[0]) is not None
        if not varying and (len(ids) < rule.threshold or once < ONCE or counted):
            continue
        uses = int(marks.counts[ids].sum())
        what = "addresses, hashes or UUIDs" if varying else "numbers"
        detail = f"{text}: {len(ids):,} names that differ in {what} for {uses:,} ranges"
        yield flaw(
            rule, detail, names=[marks.events.names[i] for i in ids], places=marks.spots(marks.of_names(ids)), count=len(ids)
        )  # fmt: skip


def _alike(marks: Marks, rule: MarkerRule) -> Iterator[Flaw]:
    of_template: dict[str, list[int]] = {}
    for i, text in marks.templates.items():
        of_template.setdefault(text, []).append(i)
    for group in alike(of_template):
        ids = [i for text in group for i in of_template[text]]
        uses = [int(marks.counts[of_template[text]].sum()) for text in group]
        detail = ", ".join(f"'{text}' {count:,} ×" for text, count in zip(group, uses, strict=True))
        rare = of_template[group[int(np.argmin(uses))]]
        yield flaw(rule, detail, names=[marks.events.names[i] for i in ids], places=marks.spots(marks.of_names(rare)), count=min(uses))


def _depths(marks: Marks, rules: Mapping[str, MarkerRule]) -> Iterator[Flaw]:
    """Names within themselves, and names at several depths. The step's range and the framework's own do not count as depth."""
    events, nest = marks.events, marks.nesting
    own = marks.is_own[events.name[nest.places]]
    depth, nested, above = _own_depth(marks), np.zeros(len(nest.places), bool), nest.parent.copy()
    whole = nest.parent_of(events)
    while (above >= 0).any():
        nested |= (above >= 0) & (events.name[np.maximum(above, 0)] == events.name[nest.places])
        above = np.where(above >= 0, whole[np.maximum(above, 0)], -1)
    for name in np.unique(events.name[nest.places[nested & own]]).tolist():
        here = nest.places[nested & (events.name[nest.places] == name)]
        share = float(events.duration[here].sum()) / max(float(events.duration[marks.of_names([name])].sum()), 1.0)
        detail = f"{len(here):,} of {int(marks.counts[name]):,} ranges; {100 * share:.0f} % of the name's time is counted twice"
        yield flaw(rules["recursive"], detail, names=[events.names[name]], places=marks.spots(here), count=len(here))
    inner = set(events.name[nest.places[nested]].tolist())
    keys = np.unique(events.name[nest.places[own]].astype(np.int64) * 4096 + np.minimum(depth[own], 4095))
    by_name: dict[int, list[int]] = {}
    for key in keys.tolist():
        by_name.setdefault(key // 4096, []).append(key % 4096)
    for name, several in by_name.items():
        if len(several) > 1 and name not in inner:
            here = nest.places[(events.name[nest.places] == name) & (depth == several[-1])]
            seen = [int(((events.name[nest.places] == name) & (depth == d)).sum()) for d in several]
            detail = "ranges by depth: " + ", ".join(f"{d}: {count:,}" for d, count in zip(several, seen, strict=True))
            yield flaw(rules["several-depths"], detail, names=[events.names[name]], places=marks.spots(here), count=min(seen))


def _own_depth(marks: Marks) -> calls.Places:
    """How many of the program's own ranges are around each marker, in the order of the nesting."""
    events, nest = marks.events, marks.nesting
    depth = np.zeros(len(events), np.int64)
    order = np.argsort(nest.depth, kind="stable")
    bounds = np.searchsorted(nest.depth[order], np.arange(int(nest.depth.max(initial=0)) + 2))
    for low, high in pairwise(bounds[1:]):
        place, parent = nest.places[order[low:high]], nest.parent[order[low:high]]
        depth[place] = depth[parent] + marks.is_own[events.name[parent]]
    return depth[nest.places]


def _no_step(marks: Marks, rule: MarkerRule) -> Iterator[Flaw]:
    if not len(steps.steps(marks.events)):
        yield flaw(rule, "no ProfilerStep#N, and no range named step, iter or iteration with a number")


def _short(marks: Marks, rule: MarkerRule) -> Iterator[Flaw]:
    events = marks.events
    mine = marks.places[marks.is_own[events.name[marks.places]]]
    if not len(mine) or events.head.reader != MEASURED:
        return
    order = np.lexsort((events.duration[mine], events.name[mine]))
    name, length = events.name[mine][order], events.duration[mine][order]
    begins = np.flatnonzero(np.concatenate([[True], name[1:] != name[:-1]]))
    ends = np.append(begins[1:], len(name))
    median = length[(begins + ends - 1) // 2]
    limit = rule.threshold * 1e9
    wrong = np.flatnonzero((median < limit) & (length[ends - 1] > 0))  # of length 0 all: marks of a moment, not ranges
    if len(wrong):
        wrong = wrong[np.argsort(begins[wrong] - ends[wrong], kind="stable")]  # most uses first
        names = [events.names[int(name[begins[i]])] for i in wrong]
        count = int((ends - begins)[wrong].sum())
        often = f"'{names[0]}' has a median of {median[wrong[0]] / 1e3:.3g} µs"
        detail = f"{len(names)} {'name' if len(names) == 1 else 'names'}, {count:,} ranges; {often}, under {rule.threshold * 1e6:g} µs"
        yield flaw(rule, detail, names=names, places=marks.spots(marks.of_names([int(name[begins[i]]) for i in wrong])), count=count)


def _unmarked(marks: Marks, rule: MarkerRule) -> Iterator[Flaw]:
    events = marks.events
    if not len(events.work):
        return
    joined = calls.links(events)
    here = marks.of_names([i for i in marks.ids if not is_step(events.names[i])])
    marked = intervals.union(events.start[here], events.end[here])
    call = joined.call
    at = np.where(call >= 0, events.start[np.maximum(call, 0)], events.start[events.work])
    outside = intervals.covered(marked, at, at + 1) == 0
    length = events.duration[events.work]
    whole = int(length.sum())
    share = int(length[outside].sum()) / whole if whole else 0.0
    if share > rule.threshold:
        root = joined.root[outside]
        by = np.bincount(np.where(root >= 0, events.name[np.maximum(root, 0)], len(events.names)), weights=length[outside])
        top = [int(i) for i in np.argsort(-by, kind="stable")[:3] if by[i] > 0]
        what = ", ".join(f"{events.names[i] if i < len(events.names) else '(operator unknown)'} {100 * by[i] / whole:.0f} %" for i in top)
        detail = f"{100 * share:.0f} % of the busy time was launched outside of any range but the step's; most of it by {what}"
        yield flaw(rule, detail, places=_calls(marks, call[outside]), count=int(outside.sum()))


def _calls(marks: Marks, call: calls.Places) -> list[Spot]:
    return marks.spots(call[call >= 0])

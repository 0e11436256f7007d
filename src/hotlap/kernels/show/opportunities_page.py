"""Opportunities as one HTML page that a kernel author acts on: steps, the ranking, and what is known of each kernel."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import listing, words
from hotlap.core.show import page as pages
from hotlap.core.show.page import Section
from hotlap.core.show.table import Table, html, text
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent, show
from hotlap.kernels.opportunities import Opportunities, Opportunity
from hotlap.kernels.show import opportunities as said
from hotlap.kernels.show.coverage import left_out

UNREAD = 100_000  # characters on a line: a page wraps by itself
OPEN = 8  # kernels in the open; the rest unfold
BAR = "The bar: the whole is the measured time, the dark part the bound, the middle the goal."
WIDE, HIGH = 220.0, 14.0  # of a kernel's drawing, in pixels


def page(bundle: Bundle, found: Sequence[Opportunities]) -> str:
    """One section per device."""
    title = f"Where work pays: {', '.join(dict.fromkeys(one.name for one in found))}"
    several = len(found) > 1
    sections = [
        Section(one.device if several else "Kernels", f"{one.device}: {one.name}" if several else "What would gain most", _section(one))
        for one in found
    ]
    data = {"run": bundle.run.id, "opportunities": list(found)}
    return pages.page(title, sections, data, pages.notes(listing.heading(bundle).splitlines(), "sub"))


def _section(found: Opportunities) -> str:
    kernels = [_kernel(number, one) for number, one in enumerate(found.found, 1)]
    left = pages.notes(left_out(found.left_out, UNREAD))
    none = "" if kernels else pages.notes([said.nothing(found)])
    below = pages.notes([*said.within(found, UNREAD), *said.missing(found.missing, found.steps, UNREAD)])
    shown = pages.folded(kernels, OPEN, f"{len(kernels) - OPEN} more")
    return f"{html(Table(said.step_columns(found.steps)))}{left}{none}{shown}{below}{pages.notes([f'{said.READING}. {BAR}'], 'note')}"


def _kernel(number: int, one: Opportunity) -> str:
    first = one.places[0]
    headline = f"{said.win(one)} a step, {percent(first.share)} of it"
    head = '<th style="width:6.5rem;color:var(--soft)">'
    rows = "".join(f"<tr>{head}{text(name)}</th><td>{text(sentence)}</td></tr>" for name, sentence in said.details(one))
    reached = f"{show(one.measured.s, 's')} a call, {percent(one.share)} of {said.GOALS[one.against]}"
    source = f'<p class="note">source of the advice: {text(one.source)}</p>' if one.source else ""
    return (
        f'<div style="break-inside:avoid;margin-bottom:2rem"><h3>{number}. {text(one.label)} · {text(headline)}</h3>'
        f'<p class="sub">{text(reached)} {_bar(one)}</p>'
        f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>{source}</div>'
    )


def _bar(one: Opportunity) -> str:
    """Bound, goal and measured time on one line, in proportion."""
    goal, bound = min(one.goal_s / one.measured.s, 1.0) * WIDE, min((one.bound_s or 0.0) / one.measured.s, 1.0) * WIDE
    parts = f'<rect width="{WIDE:g}" height="{HIGH:g}" style="fill:var(--warn);opacity:.45"/>'
    parts += f'<rect width="{goal:.1f}" height="{HIGH:g}" style="fill:var(--accent);opacity:.55"/>'
    parts += f'<rect width="{bound:.1f}" height="{HIGH:g}" style="fill:var(--ink);opacity:.65"/>' if bound else ""
    name = f"{words.clean(one.label)}: bound, goal and measured time"
    return (
        f'<svg viewBox="0 0 {WIDE:g} {HIGH:g}" width="{WIDE:g}" height="{HIGH:g}" role="img" aria-label="{text(name)}" '
        f'style="display:inline-block;width:{WIDE:g}px;height:{HIGH:g}px;vertical-align:-2px;margin-left:.6rem">{parts}</svg>'
    )

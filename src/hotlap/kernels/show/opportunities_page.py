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


def page(bundle: Bundle, devices: Sequence[Opportunities]) -> str:
    """One section per device."""
    title = f"Where work pays: {', '.join(dict.fromkeys(one.name for one in devices))}"
    several = len(devices) > 1
    sections = [
        Section(one.device if several else "Kernels", f"{one.device}: {one.name}" if several else "What would gain most", _section(one))
        for one in devices
    ]
    data = {"run": bundle.run.id, "opportunities": list(devices)}
    return pages.page(title, sections, data, pages.notes(listing.heading(bundle).splitlines(), "sub"))


def _section(on_device: Opportunities) -> str:
    kernels = [_kernel(number, one) for number, one in enumerate(on_device.ranked, 1)]
    left = pages.notes(left_out(on_device.left_out, UNREAD))
    none = "" if kernels else pages.notes([said.nothing(on_device)])
    below = pages.notes([*said.within(on_device, UNREAD), *said.missing(on_device.missing, on_device.steps, UNREAD)])
    shown = pages.folded(kernels, OPEN, f"{len(kernels) - OPEN} more")
    return f"{html(Table(said.step_columns(on_device.steps)))}{left}{none}{shown}{below}{pages.notes([f'{said.READING}. {BAR}'], 'note')}"


def _kernel(number: int, opportunity: Opportunity) -> str:
    first = opportunity.places[0]
    headline = f"{said.win(opportunity)} a step, {percent(first.share)} of it"
    head = '<th style="width:6.5rem;color:var(--soft)">'
    rows = "".join(f"<tr>{head}{text(name)}</th><td>{text(sentence)}</td></tr>" for name, sentence in said.details(opportunity))
    reached = f"{show(opportunity.measured.s, 's')} a call, {percent(opportunity.share)} of {said.GOALS[opportunity.against]}"
    source = f'<p class="note">source of the advice: {text(opportunity.source)}</p>' if opportunity.source else ""
    return (
        f'<div style="break-inside:avoid;margin-bottom:2rem"><h3>{number}. {text(opportunity.label)} · {text(headline)}</h3>'
        f'<p class="sub">{text(reached)} {_bar(opportunity)}</p>'
        f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>{source}</div>'
    )


def _bar(opportunity: Opportunity) -> str:
    """Bound, goal and measured time on one line, in proportion."""
    goal, bound = (min(seconds / opportunity.measured.s, 1.0) * WIDE for seconds in (opportunity.goal_s, opportunity.bound_s or 0.0))
    parts = f'<rect width="{WIDE:g}" height="{HIGH:g}" style="fill:var(--warn);opacity:.45"/>'
    parts += f'<rect width="{goal:.1f}" height="{HIGH:g}" style="fill:var(--accent);opacity:.55"/>'
    parts += f'<rect width="{bound:.1f}" height="{HIGH:g}" style="fill:var(--ink);opacity:.65"/>' if bound else ""
    name = f"{words.clean(opportunity.label)}: bound, goal and measured time"
    return (
        f'<svg viewBox="0 0 {WIDE:g} {HIGH:g}" width="{WIDE:g}" height="{HIGH:g}" role="img" aria-label="{text(name)}" '
        f'style="display:inline-block;width:{WIDE:g}px;height:{HIGH:g}px;vertical-align:-2px;margin-left:.6rem">{parts}</svg>'
    )

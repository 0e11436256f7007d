"""Opportunities as one HTML page that a kernel author acts on: steps, the ranking, and what is known of each kernel."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import html, listing, words
from hotlap.core.show.sections import text
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent, show
from hotlap.kernels.opportunities import Opportunities, Opportunity, Step
from hotlap.kernels.show import opportunities as said
from hotlap.kernels.show.coverage import left_out

OPEN = 8  # kernels in the open; the rest unfold
BAR = "The bar: the whole is the measured time, the dark part the bound, the middle the goal."
WIDE, HIGH = 220.0, 14.0  # of a kernel's drawing, in pixels


def page(bundle: Bundle, found: Sequence[Opportunities]) -> str:
    """One section per device."""
    title = f"Where work pays: {', '.join(dict.fromkeys(one.name for one in found))}"
    heading = "".join(f'<p class="sub">{text(line)}</p>' for line in listing.heading(bundle).splitlines() if line)
    parts = [("", f'<section id="top"><h1>{text(title)}</h1>{heading}</section>')]
    parts += [(one.device if len(found) > 1 else "Kernels", _section(one, len(found) > 1)) for one in found]
    return html.filled(title, parts, html.embedded({"run": bundle.run.id, "opportunities": list(found)}))


def _section(found: Opportunities, several: bool) -> str:
    name = found.device if several else "Kernels"
    kernels = [_kernel(number, one) for number, one in enumerate(found.found, 1)]
    rest = "".join(kernels[OPEN:])
    folded = f"<details><summary>{len(kernels) - OPEN} more</summary>{rest}</details>" if rest else ""
    none = "" if kernels else f"<p>{text(said.nothing(found))}</p>"
    title = f"{found.device}: {found.name}" if several else "What would gain most"
    width = 100_000  # a page wraps by itself
    steps = _steps(found.steps) + "".join(f"<p>{text(line.strip())}</p>" for line in left_out(found.left_out, width))
    below = "".join(
        f"<p>{text(' '.join(line.split()))}</p>"
        for part in (said.within(found, width), said.missing(found.missing, found.steps, width)) for line in part if line.strip()
    )
    return (
        f'<section id="{html.anchor(name)}"><h2>{text(title)}</h2>{steps}{none}{"".join(kernels[:OPEN])}{folded}{below}'
        f'<p class="note">{text(said.READING)}. {BAR}</p></section>'
    )


def _steps(steps: Sequence[Step]) -> str:
    head = '<tr><th>step</th><th class="n">weight</th><th class="n">time</th><th class="n">measured</th><th>to win</th></tr>'
    rows = "".join(
        f'<tr><td>{text(one.name)}</td><td class="n">{text(percent(one.weight))}</td><td class="n">{text(show(one.seconds, "s"))}</td>'
        f'<td class="n">{text(said.covered(one))}</td><td>{text(said.won(one))}</td></tr>' for one in steps
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


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

"""The regression report of a release as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import html, words
from hotlap.core.show.sections import text
from hotlap.core.units import show
from hotlap.kernels.release import Kernel, Release
from hotlap.kernels.show import release as said

COLOURS = {"bad": "var(--bad)", "good": "var(--good)", "warn": "var(--warn)"}


def page(one: Release) -> str:
    """The verdict, steps, kernels by kind, what differs and what to run next."""
    title = f"Kernels: {one.a} → {one.b}"
    colour = {1: "var(--bad)", 3: "var(--warn)"}.get(one.code, "var(--good)")
    sides = "".join(
        f'<p class="sub">{name}: {text(side)} · {text(words.counted(len(runs), "run"))}, {text(runs[0])}</p>'
        for name, side, runs in (("A", one.a, one.a_runs), ("B", one.b, one.b_runs))
    )
    head = f'<section id="top"><h1>{text(title)}</h1>{sides}<p class="lead" style="color:{colour}">{text(said.verdict(one))}</p></section>'
    parts = [("", head)]
    if one.steps:
        rows = [(s.step, f"{s.kernels} of {s.of}", show(s.a_s, "s"), show(s.b_s, "s"), said.difference(s)) for s in one.steps]
        parts.append(("Steps", _section("Steps", "Steps of networks", _table(("step", "kernels", "A", "B", "B − A"), rows))))
    kinds = "".join(_kind(kind, [k for k in one.kernels if k.kind == kind]) for kind in said.HEADINGS)
    parts.append(("Kernels", _section("Kernels", "Kernels", kinds)))
    rest = ""
    if one.suspects:
        differs = [(d.name.removeprefix("label "), d.a, d.b) for d in one.suspects]
        rest += f"<h3>What differs and could have brought it</h3>{_table(('what', 'A', 'B'), differs)}"
    if said.nexts(one):
        rest += "<h3>What to run next</h3>" + "".join(f"<p><code>{text(command)}</code></p>" for command in said.nexts(one))
    parts.append(("Causes", _section("Causes", "Causes", rest + f'<p class="note">{text(said.READING)}.</p>')))
    return html.filled(title, parts, html.embedded({"release": one}))


def _section(name: str, title: str, inner: str) -> str:
    return f'<section id="{html.anchor(name)}"><h2>{text(title)}</h2>{inner}</section>'


def _kind(kind: str, own: Sequence[Kernel]) -> str:
    if not own:
        return ""
    title = f"<h3>{text(said.HEADINGS[kind])}</h3>"
    if kind not in said.OPEN:
        return f"{title}<p>{text(words.counted(len(own), 'kernel'))}: {text('; '.join(one.label for one in own))}</p>"
    colour = COLOURS.get(said.STYLES.get(kind, ""), "")
    rows = [(k.label, said.level(k, "a"), said.level(k, "b"), said.change(k), "; ".join(said.notes(k))) for k in own]
    return title + _table(("kernel", "A", "B", "time", ""), rows, colour)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], colour: str = "") -> str:
    numbers = ("A", "B", "kernels") if heads[0] != "what" else ()
    head = "".join(f'<th{" class=n" if name in numbers else ""}>{text(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(
            f'<td{" class=n" if name in numbers else ""}{f" style=color:{colour}" if colour and name == "time" else ""}>{text(cell)}</td>'
            for name, cell in zip(heads, row, strict=True)
        ) + "</tr>"
        for row in rows
    )  # fmt: skip
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

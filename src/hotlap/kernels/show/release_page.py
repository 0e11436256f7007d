"""The regression report of a release as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import page as pages
from hotlap.core.show import words
from hotlap.core.show.page import Section
from hotlap.core.show.table import Table, html, text
from hotlap.kernels.release import Release, ReleasedKernel
from hotlap.kernels.show import release as said


def page(release: Release) -> str:
    """The verdict, steps, kernels by kind, what differs and what to run next."""
    colour = {1: "var(--bad)", 3: "var(--warn)"}.get(release.code, "var(--good)")
    both = (("A", release.a, release.a_runs), ("B", release.b, release.b_runs))
    sides = [f"{name}: {side} · {words.counted(len(runs), 'run')}, {runs[0]}" for name, side, runs in both]
    sections = [
        Section("Steps", "Steps of networks", html(Table(said.step_columns(release.steps))) if release.steps else ""),
        Section("Kernels", "Kernels", "".join(_kind(kind, [k for k in release.kernels if k.kind == kind]) for kind in said.HEADINGS)),
        Section("Causes", "Causes", _causes(release)),
    ]
    top = f'{pages.notes(sides, "sub")}<p class="lead" style="color:{colour}">{text(said.verdict(release))}</p>'
    return pages.page(f"Kernels: {release.a} → {release.b}", sections, {"release": release}, top)


def _kind(kind: str, own: Sequence[ReleasedKernel]) -> str:
    if not own:
        return ""
    title = f"<h3>{text(said.HEADINGS[kind])}</h3>"
    if kind not in said.OPEN:
        return title + pages.notes([f"{words.counted(len(own), 'kernel')}: {'; '.join(kernel.label for kernel in own)}"])
    return title + html(Table([*said.kernel_columns(own), said.notes_column(own)]))


def _causes(release: Release) -> str:
    suspects = f"<h3>What differs and could have brought it</h3>{html(said.suspects(release))}" if release.suspects else ""
    commands = "".join(f"<p><code>{text(command)}</code></p>" for command in said.nexts(release))
    return suspects + (f"<h3>What to run next</h3>{commands}" if commands else "") + pages.notes([f"{said.READING}."], "note")

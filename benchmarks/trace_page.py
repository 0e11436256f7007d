"""How large the page of a trace is, how soon a browser paints it, and how many frames a second its timeline keeps while zooming.

    pip install playwright     # and a Chromium: of the system, or by: playwright install chromium
    python benchmarks/replicate_trace.py TRACE.json.gz BIG.json --megabytes 340
    python benchmarks/trace_page.py BIG.json

Prints one JSON object. Frames are counted by requestAnimationFrame while wheel events arrive at the timeline, in and out between the
whole step and a two-hundredth of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hotlap.traces.advice import trace as advising
from hotlap.traces.show import page as trace_page
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

ZOOM = """
async (seconds) => {
  const canvas = document.getElementById("lanes"), box = canvas.getBoundingClientRect();
  canvas.focus();
  const stamps = [], { drawing } = hotlap.timeline;
  hotlap.timeline.set(0, 1e18);
  await new Promise((done) => setTimeout(done, 200));
  drawing.frames = drawing.ms = drawing.worst = 0;
  const begin = performance.now();
  await new Promise((done) => {
    const frame = (now) => {
      stamps.push(now);
      const inwards = Math.floor((now - begin) / 1000) % 2 === 0;
      canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: inwards ? -45 : 45, bubbles: true, cancelable: true,
        clientX: box.left + box.width * 0.4, clientY: box.top + box.height / 2 }));
      if (now - begin < seconds * 1000) requestAnimationFrame(frame); else done();
    };
    requestAnimationFrame(frame);
  });
  return { stamps, frames: drawing.frames, ms: drawing.ms, worst: drawing.worst, events: hotlap.timeline.events };
}
"""


def write_page(trace: Path, out: Path) -> dict[str, Any]:
    began = time.perf_counter()
    study = Study(Timeline.open(trace))
    advice = advising.advise(study)
    read = time.perf_counter()
    page = trace_page.page(study, advice)
    out.write_text(page, encoding="utf-8")
    done = time.perf_counter()
    return {
        "events": len(study.events), "read_and_advise_s": read - began, "page_s": done - read, "page_megabytes": out.stat().st_size / 1e6,
    }  # fmt: skip


def seen(page: Path, seconds: float) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    binary = next(
        (seconds_seen for name in ("chromium", "chromium-browser", "google-chrome") if (seconds_seen := shutil.which(name))), None
    )
    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=binary, args=flags)
        view = browser.new_page(viewport={"width": 1280, "height": 900})
        requests: list[str] = []
        view.on("request", lambda request: requests.append(request.url))
        paints = []
        for _ in range(5):
            view.goto(page.as_uri())
            view.wait_for_timeout(500)
            paints.append(view.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1e3)
        seconds_seen = view.evaluate(ZOOM, seconds)
        version = browser.version
        browser.close()
    gaps = [b - a for a, b in zip(seconds_seen["stamps"], seconds_seen["stamps"][1:], strict=False)]
    return {
        "browser": f"Chromium {version}, headless", "events_drawn": seconds_seen["events"], "first_paint_s": statistics.median(paints),
        "first_paint_slowest_s": max(paints), "frames_per_s": 1e3 * len(gaps) / sum(gaps), "median_frame_ms": statistics.median(gaps),
        "frames_later_than_20_ms": sum(gap > 20 for gap in gaps) / len(gaps),
        "draw_ms": seconds_seen["ms"] / max(seconds_seen["frames"], 1),
        "draw_worst_ms": seconds_seen["worst"],
        "requests_beside_the_page": sum(not url.startswith(("file:", "data:", "blob:")) for url in requests),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--seconds", type=float, default=6.0, help="of zooming")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hotlap-page-") as folder:
        page = Path(folder, "page.html")
        found = write_page(args.trace, page)
        try:
            found |= seen(page, args.seconds)
        except ImportError:
            print("the browser's part needs playwright: pip install playwright", file=sys.stderr)
    print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()

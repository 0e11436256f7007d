"""A stress run as the reporting verbs show it."""

from __future__ import annotations

import io
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from hotlap.__main__ import main
from hotlap.core.measure import runs
from hotlap.core.record import Device
from hotlap.core.show import bands, pdf, report
from hotlap.core.store import bundle as bundles
from hotlap.core.store import chunks
from hotlap.stress import session
from hotlap.stress import show as stress
from hotlap.stress import show_page as stress_page
from hotlap.stress import verdict as judging
from hotlap.stress.cli import View
from hotlap.stress.record import Line, Mismatch, Phase, Profile, Tick

PROFILE = Profile(
    name="burn", about="products, link, and pauses", seconds=600.0,
    phases=[Phase(kind="products", seconds=30.0, dtypes=["fp16", "fp64"]), Phase(kind="link", seconds=5.0), Phase(kind="idle", seconds=5.0)],
)  # fmt: skip
FAULTS = "flip=0.01&throttle=0.2@5min&reason=hardware_thermal"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    return session.run(PROFILE, session.StressOptions(target=f"simulated:h200-sxm?{FAULTS}", home=tmp_path), lambda _device, _line: None)


def judged(path: Path) -> judging.Judged:
    found = judging.of(bundles.load(path))
    assert found is not None
    return found


@pytest.mark.slow("simulates whole runs, and draws them")
def test_the_page_draws_every_sensor_over_time(run: Path) -> None:
    page = report.page([bundles.load(run)])
    for name in ("Throughput", "Power", "Clock", "Temperature"):
        assert f"<b>{name}</b>" in page
    assert page.count('class="band"') == 3
    assert page.count('class="line cloud') == 3  # fp16, fp64, link: a lane each
    assert "limit 700 W" in page
    assert "throttled: hardware thermal" in page
    assert not re.search(r"Nothing was measured|nothing to doubt|Rounds|fresh process|<h2>Results|products fp", page.partition("<script")[0])
    assert "<b class=\"state error\">FAIL</b> wrong results" in page
    assert re.search(r"1 device · (9 min 5\d s|10 min) under load \(virtual time\) · \d+ kJ", page)
    assert "temperature: still moving when the load ended" in page or "steady at the end" in page
    assert "<li>sensor fan was not read at times or at all: the simulated card has none</li>" in page
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<script.*?</script>", "", page, flags=re.S))


@pytest.mark.skipif(not pdf.browser(), reason="no Chromium is here: apt install chromium")
@pytest.mark.slow("simulates a whole run, and starts a browser")
def test_at_500_pixels_nothing_is_cut_at_the_edge(run: Path, tmp_path: Path) -> None:
    """The widest content of the page, of its bar and of each table beside the room that it has."""
    measure = "[...document.querySelectorAll('html,.bar nav,.scroll')].map(e=>e.className+e.tagName+' '+e.scrollWidth+' '+e.clientWidth).join('\\n')"
    page = report.page([bundles.load(run)]).replace("</body>", f"<script>document.body.textContent={measure}</script></body>")
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    argv = [*pdf.command(pdf.browser(), str(tmp_path / "profile")), "--window-size=500,800", "--dump-dom", (tmp_path / "page.html").as_uri()]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout
    sizes = re.findall(r"(\w*(?:HTML|NAV|DIV)) (\d+) (\d+)", printed)
    assert {name for name, _, _ in sizes} == {"HTML", "NAV", "scrollDIV"}, printed[:500]
    assert not [(name, wide, room) for name, wide, room in sizes if int(wide) > int(room)]


@pytest.mark.slow("simulates whole runs")
def test_of_many_devices_those_that_fail_are_named_and_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    options = session.StressOptions(target="simulated:h200-sxm?count=5&slow=0.3@1,3", device="all", home=tmp_path)
    path = session.run(replace(PROFILE, seconds=120.0), options, lambda _device, _line: None)
    page = report.page([bundles.load(path)])
    assert "2 of 5 devices: behind its peers (simulated:1, simulated:3)." in page
    assert page.index("<h3>simulated:3 ") < page.index("<summary>simulated:0 ")
    assert page.count("<summary>simulated:") == 3
    assert page.count("<b>simulated:1 and simulated:3: behind its peers</b>") == 1
    assert main(["show", path.name]) == 0
    out = capsys.readouterr().out
    assert "FAIL  2 of 5 devices: behind its peers (simulated:1, simulated:3)" in out
    assert "simulated:0 … simulated:4 5 × NVIDIA H200" in out
    assert re.search(r"simulated:4 +pass +(1 min 5\d s|2 min)", out)
    assert len(out.splitlines()) < 80


def test_wrong_results_are_counted_by_kind_and_the_permanent_ones_come_first(run: Path) -> None:
    """Where one of 26 came again, and not the first: it is named, and every one of them is kept for --json."""
    bundle, lines = bundles.load(run), judged(run).lines
    key = bundle.run.machine.devices[0].key
    wrong = [
        Mismatch(device=key, time_s=float(n), unit="atomics", place=f"cell {n}", expected="0x0", got="0x1", bits=[0], by="repeat",
                 kind="permanent" if n == 23 else "transient")
        for n in range(26)
    ]  # fmt: skip
    rest = [replace(x, wrong={}) if isinstance(x, Tick) else x for x in lines if not isinstance(x, Mismatch)]
    verdict = judging.judge(bundle.run, [*rest, *wrong], bundle.readings, folder=run)
    (device,) = verdict.devices
    (finding,) = (one for one in device.findings if one.title.startswith("wrong results"))
    assert finding.title == "wrong results (permanent)"
    assert finding.detail == "26 wrong results: 1 permanent, 25 transient; the first permanent in atomics, cell 23: expected 0x0, got 0x1"
    assert [one.place for one in device.wrong] == ["cell 23", *(f"cell {n}" for n in range(26) if n != 23)]
    page = stress_page._wrong(verdict.run, device)
    assert (page.count("<tr>"), "and 6 more" in page) == (21, True)


def test_more_wrong_results_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A silent cap was printed as the count, and a budget above it was never used up."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    short = Profile(name="short", about="products", seconds=3.0, phases=[Phase(kind="products", seconds=3.0, dtypes=["fp16"])])
    path = session.run(short, session.StressOptions(target="simulated:h200-sxm?flip=1&seed=3", home=tmp_path), lambda _device, _line: None)
    bundle, found = bundles.load(path), judged(path).lines
    kept = [x for x in found if isinstance(x, Mismatch)][:5]
    lines = [*kept, *(x for x in found if not isinstance(x, Mismatch))]
    (device,) = judging.judge(bundle.run, lines, bundle.readings, folder=path).devices
    assert sum(device.errors.values()) == device.figures["units"] > 5
    view = View(io.StringIO())
    view.begin(short)
    for line in lines:
        view(bundle.run.machine.devices[0], line)
    assert view.errors == {device.device: device.figures["units"]}
    assert stress.unlisted("run-1", device, 5).endswith("hotlap stress --judge run-1 --json has the first 5")
    older = [replace(x, wrong={}) if isinstance(x, Tick) else x for x in lines]
    monkeypatch.setattr("hotlap.stress.verdict.MOST_WRONG", 5)
    (device,) = judging.judge(bundle.run, older, bundle.readings, folder=path).devices
    assert stress.wrong_of(device) == "≥ 5"
    assert any(one.detail.startswith("at least 5 wrong results: ") for one in device.findings)


def test_operations_of_integers_are_no_flop() -> None:
    assert stress.unit("products int8", "FLOP/s") == "OP/s"
    assert stress.unit("products fp8", "FLOP/s") == "FLOP/s"
    assert stress.named("products bf16 -30.0%, 12 products") == "GEMM bf16 -30.0%, 12 products"
    assert [stress.span(s) for s in (8.0, 59.7, 250.0, 7260.0)] == ["8 s", "1 min", "4 min 10 s", "2 h 1 min"]


@pytest.mark.slow("simulates whole runs")
def test_readings_and_levels_draw_the_same_extremes(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(bundles, "LOG_BYTES", 60_000)
    long = session.run(PROFILE, session.StressOptions(target=f"simulated:h200-sxm?{FAULTS}", home=tmp_path / "long"), lambda _device, _line: None)
    assert chunks.stored(long, "levels")
    plain, levels = (stress_page.bands(judged(path).bundle) for path in (run, long))
    for key in (key for key in plain if key[1] in ("power_w", "temperature_c", "clock_hz.sm")):
        assert levels[key].low.min() == pytest.approx(plain[key].low.min(), rel=1e-6)
        assert levels[key].high.max() == pytest.approx(plain[key].high.max(), rel=1e-6)
        assert np.all(np.diff(levels[key].times_s) > 0)


def test_bins_keep_every_extreme() -> None:
    times = np.arange(10_000.0)
    values = np.sin(times / 50)
    values[[17, 9_998]] = 5.0, -5.0  # spikes of one reading
    found = bands._fewer(bands.Band(times, values, values, values))
    assert len(found.times_s) <= bands.BINS
    assert (found.high.max(), found.low.min()) == (5.0, -5.0)
    assert np.all((found.low <= found.mean) & (found.mean <= found.high))


@pytest.mark.slow("simulates whole runs, and draws them")
def test_show_explain_and_ls_of_a_stress_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", run.name]) == 0
    out = capsys.readouterr().out
    assert "0 rounds" not in out
    assert "FAIL  wrong results" in out
    assert main(["explain", run.name]) == 0
    assert f"a stress run has no cases to explain; hotlap show {run.name} says" in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "stress-burn" in capsys.readouterr().out
    assert main(["gate", run.name]) == 2
    assert f"hotlap stress --judge {run.name}" in capsys.readouterr().err
    assert main(["report", run.name, "--out", str(run / "page.html")]) == 0
    assert "<h2>Stress</h2>" in (run / "page.html").read_text("utf-8")
    assert main(["stress", "--judge", run.name, "--against", run.name]) == 1
    assert "of reference" in capsys.readouterr().out


@pytest.mark.slow("simulates whole runs")
def test_a_run_held_against_a_good_one_says_the_same_wherever_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    asked = ["stress", "quick", "--for", "60 s", "--target"]
    assert main([*asked, "simulated:h200-sxm?noise=0.005", "--label", "of=good"]) == 0
    assert main([*asked, "simulated:h200-sxm?noise=0.005&slow=0.08@0", "--label", "of=slow", "--against", "of=good"]) == 1
    capsys.readouterr()
    assert main(["stress", "--judge", "of=slow"]) == 1
    assert "behind the reference" in capsys.readouterr().out
    main(["show", "of=slow"])
    assert "behind the reference" in capsys.readouterr().out
    assert main(["stress", "--judge", "of=slow", "--against", "of=slow"]) == 0  # another in its place


@pytest.mark.slow("simulates whole runs")
def test_a_run_of_a_plan_is_no_stress_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    plan = tmp_path / "p.toml"
    plan.write_text('[[case]]\nworkload = "launch"\n')
    main(["run", str(plan), "--target", "simulated:h200-sxm"])
    capsys.readouterr()
    assert main(["stress", "--judge", "latest"]) == 2
    assert "is no stress run" in capsys.readouterr().err


class Seconds:
    """A clock that goes on by a second at every look."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> float:
        self.time_s += 1.0
        return self.time_s


@pytest.mark.slow("simulates whole runs, and draws them")
def test_the_printed_verdict_and_the_plain_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setattr(runs.secrets, "randbits", lambda _bits: 7)
    said: list[tuple[Device, Line]] = []
    options = session.StressOptions(target=f"simulated:h200-sxm?{FAULTS}&mute=power_w@9min&seed=3&pcie_width=4@8min", home=tmp_path)
    path = session.run(PROFILE, options, lambda device, line: said.append((device, line)))
    found = judged(path)
    for width in (80, 120):
        text = stress.report(found.verdict, stress.devices(found), width)
        assert max(map(len, text.splitlines())) <= width
        golden(f"stress-{width}.txt", text.replace(path.name, "RUN"))
    stream = io.StringIO()
    view = View(stream)
    monkeypatch.setattr(view, "clock", Seconds())
    view.begin(PROFILE)
    for device, line in said:
        view(device, line)
    view.end()
    assert "\x1b" not in stream.getvalue()
    golden("stress-log.txt", stream.getvalue())


def test_the_live_rows_are_in_order_and_what_has_ended_shows_nothing() -> None:
    devices = {f"k{n}": Device(target="simulated", index=n, name="GPU", kind="gpu") for n in (3, 0, 10, 2)}
    ticks = {key: [Tick(device=key, time_s=1.0, phase="products", unit="products fp16", shown={"power_w": 482.0})] for key in devices}
    _, *lines = stress.rows(devices, ticks, {}, {"k2": "ended"}, 80)
    assert [line.split()[0] for line in lines] == ["simulated:0", "simulated:2", "simulated:3", "simulated:10"]
    assert lines[1].split()[1] == "ended"
    assert "482" not in lines[1]
    assert lines[0].split()[1:3] == ["GEMM", "482"]


def test_the_card_in_the_manual_is_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    manual = (Path(__file__).resolve().parents[2] / "docs" / "stress.md").read_text()
    target, block = re.search(r"`--target '(simulated:h200[^']*)'`\), shortened:\n\n```\n(.*?)```", manual, re.DOTALL).groups()  # type: ignore[union-attr]
    assert main(["stress", "burn-in", "--target", target]) == 1
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in block.splitlines() if line.strip() not in ("", "…")]
    assert len(lines) > 10
    assert [line for line in lines if line not in printed] == []

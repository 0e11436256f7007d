"""The 27 tasks of five newcomers: what each wanted, what is typed, and what has to be true of the answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.review import inputs
from benchmarks.review.desk import CLONE, Answer, Desk, NotRun, has, lacks, need

PALLET = "simulated:h200-sxm?count=40&spread=0.002&noise=0.005&slow=0.05@7,18,33"
ABSURD = re.compile(r"±\s*\d{3,} ?%")  # wider than the value itself
BAD = ("node011", "node222", "node333")


@dataclass(frozen=True)
class Task:
    number: int
    persona: int
    wanted: str
    do: Callable[[Desk], None]


def _run_id(answer: Answer) -> str:
    ids = re.findall(r"\d{8}T\d{6}-[0-9a-f]{6}", answer.out + answer.err)
    need(ids, "no run is named in the answer")
    return ids[0]


def _runs(desk: Desk, *labels: str) -> int:
    listed = desk.hotlap("list", *labels, "--json").json()
    return len(listed if isinstance(listed, list) else listed["runs"])


def _numbers_shown(desk: Desk, run: str, budget: str | None = None) -> None:
    shown = desk.hotlap("show", run, codes=(0, 1, 3))
    need(not ABSURD.search(shown.out), f"an interval is wider than its value: {ABSURD.search(shown.out)}")
    rows = [case for case in desk.hotlap("show", run, "--json", codes=(0, 1, 3)).json()["cases"] if case["state"] not in ("not_run", "error")]
    need(rows, "no case was measured")
    empty = [case["case"] for case in rows if case["value"] is None]
    need(not empty, f"no value is shown of {len(empty)} of {len(rows)} cases, as {empty[:1]}")


def first_result(desk: Desk) -> None:
    answer = desk.hotlap("run", "quick", "--no-report", codes=(0, 3))
    has(answer.out, "of limit", "next")
    _numbers_shown(desk, _run_id(answer))


def again_on_a_busy_machine(desk: Desk) -> None:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        answer = desk.hotlap("run", desk.write("small.toml", inputs.SMALL_PLAN), "--no-report", codes=(0, 3))
    finally:
        for other in others:
            other.kill()
            other.wait()
    has(answer.err.split("round 1")[0], "busy", "--wait-quiet")
    has(answer.out, "busy")
    _numbers_shown(desk, _run_id(answer))


def why(desk: Desk) -> None:
    run = _run_id(desk.hotlap("run", desk.write("small.toml", inputs.SMALL_PLAN), "--no-report", codes=(0, 3)))
    lacks(desk.hotlap("explain", run).out, "no headroom left", "at limit", "reached  100 %")


def what_can_an_h200_do(desk: Desk) -> None:
    has(desk.hotlap("predict", "gemm", "m=8192", "n=8192", "k=8192", "dtype=bf16", "--machine", "h200-sxm").out, "bound", "expected", "90 %", "machine table")


def _pallet(desk: Desk) -> Answer:
    """Measured once for all tasks; the home is copied to each."""
    kept = desk.folder.parent / "pallet"
    if kept.is_dir():
        shutil.copytree(kept, desk.folder / "home")
        return desk.hotlap("show", "pallet=7", codes=(0, 3))
    answer = desk.hotlap("run", desk.write("acc.toml", inputs.PLAN), "--target", PALLET, "--device", "all", "--together", "--label", "pallet=7", "--no-report", codes=(0, 3))
    shutil.copytree(desk.folder / "home", kept)
    return answer


def pallet(desk: Desk) -> None:
    answer = _pallet(desk)
    need(len(answer.out.splitlines()) <= 60, f"the table of 40 devices has {len(answer.out.splitlines())} lines")
    has(answer.out, "min", "median", "max")


def who_is_bad(desk: Desk) -> None:
    _pallet(desk)
    answer = desk.hotlap("gate", "pallet=7", "--against", "fleet", codes=(1,))
    summary = "\n".join(answer.out.splitlines()[:30])
    need(all(re.search(rf"(?<![\d.]){n}(?![\d.])", summary) for n in (7, 18, 33)), f"the three bad cards are not named: {summary[:160]}")
    need(len(answer.out.splitlines()) <= 60, f"the verdict has {len(answer.out.splitlines())} lines")


def contract_rules(desk: Desk) -> None:
    desk.hotlap("run", desk.write("acc.toml", inputs.PLAN), "--target", "simulated:h200-sxm", "--label", "card=1", "--no-report")
    answer = desk.hotlap("gate", "card=1", "--against", desk.write("accept.toml", inputs.RULES), "--junit", "acc.xml")
    has(answer.out + desk.read("acc.xml"), "section 3.2")
    has(desk.read("acc.xml"), "section 3.2")


def share_of_limit(desk: Desk) -> None:
    desk.hotlap("run", desk.write("acc.toml", inputs.PLAN), "--target", "simulated:h200-sxm", "--label", "card=1", "--no-report")
    has(desk.hotlap("gate", "card=1", "--against", "limit", "--share", "80 %", codes=(3,)).out, "a healthy device is expected to reach", "below 80 %")
    desk.hotlap("gate", "card=1", "--against", "expected")


def flipped_bit(desk: Desk) -> None:
    has(desk.hotlap("stress", "quick", "--for", "20 s", "--target", "simulated:h200-sxm?flip=1", codes=(1,)).out, "row", "bit", "FAIL")


def thermal_and_power(desk: Desk) -> None:
    hot = desk.hotlap("stress", "quick", "--target", "simulated:h200-sxm?throttle=0.3@10s&reason=hardware_thermal", codes=(1,))
    has(hot.out, "FAIL", "hardware thermal")
    has(desk.hotlap("stress", "quick", "--target", "simulated:h200-sxm?throttle=0.3@10s", codes=(1,)).out, "throughput falls", "power cap")
    short = desk.hotlap("stress", "quick", "--for", "20 s", "--target", "simulated:h200-sxm", codes=(0, 3))
    lacks(short.out + short.err, "5 min")


def manager_page(desk: Desk) -> None:
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        raise NotRun("no Chromium prints the PDF here")
    _pallet(desk)
    desk.hotlap("report", "pallet=7", "--out", "pallet.html", "--pdf")
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", (desk.folder / "pallet.pdf").read_bytes()))
    need(0 < pages <= 6, f"40 cards take {pages} printed pages")
    body = re.sub(r"<style.*?</style>|<script.*?</script>|<svg.*?</svg>|<[^>]+>", " ", desk.read("pallet.html"), flags=re.S)
    first = " ".join(body.split())[:2500]
    need(all(re.search(rf"(?<![\d.]){n}(?![\d.])", first) for n in (7, 18, 33)), f"the page does not begin with the bad cards: {first[:200]}")


def page_on_a_phone(desk: Desk) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise NotRun("no Chromium draws the page here")
    run = _run_id(desk.hotlap("run", desk.write("acc.toml", inputs.PLAN), "--target", "simulated:h200-sxm", "--no-report"))
    desk.hotlap("report", run, "--out", "page.html")
    page = desk.read("page.html")
    has(page, 'name="viewport"', "prefers-color-scheme")
    desk.write("phone.html", "<iframe id=f width=390 height=800 src=page.html></iframe><script>onload = () => document.title = f.contentDocument.documentElement.scrollWidth</script>")
    drawn = desk.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=3000", "--dump-dom", str(desk.folder / "phone.html")], 120)
    width = re.search(r"<title>(\d+)</title>", drawn.out)
    need(width and int(width[1]) <= 391, f"on a phone of 390 px the page is {width and width[1]} px wide")


def own_opencl_kernel(desk: Desk) -> None:
    desk.hotlap("kernel", "new", desk.write("rms.cl", inputs.RMS), "--like", "rowwise")
    desk.hotlap("kernel", "add", "rms.cl")
    has(desk.hotlap("kernel", "check", "rms", "--target", "opencl:cpu", "rows=512", "columns=1024").out, "right", "of")


def triton_and_cuda(desk: Desk) -> None:
    if find_spec("triton") is None:
        has(desk.hotlap("kernel", "add", desk.write("gelu_triton.py", inputs.GELU), codes=(3,)).err, "triton", "pip install")
    bare = desk.hotlap("kernel", "add", desk.write("saxpy.cu", inputs.SAXPY), codes=(2,))
    has(bare.err, "kernel new")
    desk.hotlap("kernel", "new", "saxpy.cu")
    has(desk.read("saxpy.cu"), "//: function = ", "saxpy")


def beside_the_library(desk: Desk) -> None:
    desk.hotlap("kernel", "add", str(CLONE / "examples" / "kernels" / "softmax_rows.cl"))
    printed = desk.hotlap("kernel", "plan", "softmax-rows", "rows=512", "columns=64", "--beside", "-o", "softmax.toml").out
    lines = re.findall(r"hotlap ((?:run|compare) .*)", printed)
    need(len(lines) == 3, f"not a run for each target and a compare: {printed}")
    for line in lines:
        if "torch" in line and find_spec("torch") is None:
            raise NotRun("PyTorch is not installed")
        beyond = ["--budget", "60 s", "--no-report"] if line.startswith("run") else []
        answer = desk.hotlap(*line.split(), *beyond, codes=(0, 1, 3))
    lacks(answer.out, "0 of 1 right", "0 of 2 right")


def my_models_kernels(desk: Desk) -> None:
    refused, silent = [], []
    for name, fields in inputs.configurations().items():
        desk.write(f"{name}/config.json", json.dumps(fields))
        answer = desk.hotlap("plan", "from", f"{name}/config.json", "-o", f"{name}.toml", codes=(0, 2))
        if answer.code:
            refused.append(f"{name}: {(answer.err.splitlines() or ['?'])[0][:90]}")
        elif "vision_config" in fields and "vision" not in (answer.out + answer.err).lower():
            silent.append(name)
    need(not refused, f"{len(refused)} of 10 refused: {'; '.join(refused)}")
    need(not silent, f"left out in silence: the vision tower of {silent}")


def slow_training_script(desk: Desk) -> None:
    if find_spec("torch") is None:
        raise NotRun("PyTorch is not installed")
    answer = desk.hotlap("trace", "capture", "--warmup", "5", "--steps", "20", "--", sys.executable, desk.write("train.py", inputs.TRAIN))
    has(answer.out, "num_workers")
    lacks(answer.out, "The device waits")
    has(answer.err.split("pause")[0] + answer.err, "pause")


def function_in_python(desk: Desk) -> None:
    answer = desk.run([sys.executable, desk.write("own.py", inputs.MEASURE)])
    need(answer.code == 0, answer.err[-200:])
    lacks(answer.out, "Result(", "Case(")
    has(answer.out, "numpy.dot", "±")
    need(len(answer.out.splitlines()) <= 6, f"the result prints {len(answer.out.splitlines())} lines")


def fleet_from_csv(desk: Desk) -> None:
    bad = dict(zip(BAD, (0.05, 0.07, 0.5), strict=True))
    desk.write("fleet.csv", inputs.fleet(bad))
    desk.hotlap("import", "fleet.csv", "--model", "gpu", "--host", "node", "--serial", "serial")
    answer = desk.hotlap("gate", "model=H200", "--against", "fleet", codes=(1,))
    has("\n".join(answer.out.splitlines()[:40]), *BAD)
    need(len(answer.out.splitlines()) <= 60, f"the verdict of 500 nodes has {len(answer.out.splitlines())} lines")


def many_simulated_nodes(desk: Desk) -> None:
    desk.hotlap("run", desk.write("acc.toml", inputs.PLAN), "--rounds", "3", "--target", "simulated:h200-sxm?count=8&nodes=200&slow=0.05@17.3", "--device", "all", "--label", "cluster=a", "--no-report", codes=(0, 3))
    need(_runs(desk, "cluster=a") == 200, "not 200 bundles")


def is_a_level_off(desk: Desk) -> None:
    desk.hotlap("import", desk.write("days.csv", inputs.series()), "--host", "node")
    has(desk.hotlap("history", "--changed", codes=(0, 1)).out, "copy", "10")
    for verb in ("show", "explain"):
        lacks(desk.hotlap(verb, "latest", codes=(0, 3)).out, "--round", "--budget", "temperature", "--wait-quiet", "run again")


def settings(desk: Desk) -> None:
    desk.hotlap("node", "inspect")
    audit = desk.hotlap("node", "audit", codes=(0, 1, 3)).out
    lacks(audit, "this is no pass")


def other_tools(desk: Desk) -> None:
    refused = []
    for name, text in inputs.foreign().items():
        answer = desk.hotlap("import", desk.write(name, text), codes=(0, 2))
        if answer.code:
            refused.append(f"{name}: {answer.err.splitlines()[0][:90]}")
    need(not refused, f"{len(refused)} of 6 refused: {'; '.join(refused)}")


def gate_with_baseline_in_git(desk: Desk) -> None:
    desk.write("work.py", inputs.LOOP.format(turns=600_000))
    plan = desk.write("perf.toml", inputs.COMMAND_PLAN)
    for _ in range(2):
        desk.hotlap("run", plan, "--label", "branch=main", "--budget", "15 s", "--no-report", codes=(0, 3))
    desk.hotlap("baseline", "save", "branch=main", "--to", "baseline.json")
    need((desk.folder / "baseline.json").is_file(), "no baseline.json was written")
    same = desk.hotlap("gate", "--measure", plan, "--budget", "15 s", "--against", "baseline.json", codes=(0, 3))
    lacks(same.out, "invalid")
    desk.write("work.py", inputs.LOOP.format(turns=3_000_000))
    desk.hotlap("gate", "--measure", plan, "--budget", "30 s", "--against", "baseline.json", codes=(1,))
    runs = _runs(desk)
    absent = desk.hotlap("gate", "--measure", plan, "--against", "main2", codes=(2,))
    has(absent.err, "main2", "baseline")
    need(_runs(desk) == runs, "it measured before it looked at --against")


def two_commands(desk: Desk) -> None:
    desk.write("a.py", inputs.LOOP.format(turns=600_000))
    desk.write("b.py", inputs.LOOP.format(turns=1_200_000))
    answer = desk.hotlap("ab", f"{sys.executable} a.py", f"{sys.executable} b.py", "--resolve", "10 %", "--budget", "60 s", codes=(1,))
    kept = re.search(r"hotlap (compare .*)", answer.out)
    need(kept, "no compare line is printed")
    desk.hotlap(*kept[1].split(), codes=(0, 1))  # type: ignore[index]
    row = re.search(r"([\d.]+) (m?s) +([\d.]+) (m?s) +([+-][\d.]+) % +\[([+-][\d.]+) %, ([+-][\d.]+) %\]", answer.out)
    need(row, f"A, B, the change and its interval stand in no row: {answer.out}")
    a, unit_a, b, unit_b, change, low, high = row.groups()  # type: ignore[union-attr]
    by_hand = (float(b) / float(a) * (1 if unit_a == unit_b else 1000) - 1) * 100
    has(answer.out, "A and B are medians", "the change is estimated")
    explained = float(low) - 0.5 < by_hand < float(high) + 0.5 or "outside of the interval" in answer.out
    need(explained, f"B ÷ A − 1 is {by_hand:.1f} %, the row says {change} % [{low} %, {high} %], and nothing says why")


def mailed_bundle(desk: Desk) -> None:
    run = _run_id(desk.hotlap("run", desk.write("acc.toml", inputs.PLAN), "--target", "simulated:h200-sxm", "--no-report"))
    bundle = next((desk.folder / "home").rglob(f"{run}*"))
    with zipfile.ZipFile(desk.folder / "colleague.zip", "w") as archive:
        for path in bundle.rglob("*"):
            archive.write(path, path.relative_to(bundle))
    for words in (("show",), ("explain",), ("compare", run), ("history",)):
        desk.hotlap(*words, "colleague.zip", codes=(0, 3))
    shutil.rmtree(bundle)
    desk.hotlap("import", "colleague.zip")
    desk.hotlap("show", run)


def wrong_inputs(desk: Desk) -> None:
    for line, parts in inputs.WRONG:
        answer = desk.hotlap(*line.split(), codes=(2, 3))
        has(answer.err, *parts)
        need(len(answer.err.strip().splitlines()) <= 8, f"`{line}` is answered with {len(answer.err.splitlines())} lines")
    for word, right in inputs.ALIASES.items():
        answer = desk.hotlap(word, "--help", codes=(0, 2))
        has(answer.out + answer.err, right)
    desk.write("perf.toml", inputs.SMALL_PLAN)
    desk.hotlap("plan", "perf.toml")
    need(len(desk.hotlap("devices").out.splitlines()) <= 20, "`hotlap devices` is longer than a screen")
    need(len(desk.hotlap().out.splitlines()) <= 24, "`hotlap` alone is longer than a screen")


TASKS = (
    Task(1, 1, "a first result", first_result),
    Task(2, 1, "the same on a busy machine", again_on_a_busy_machine),
    Task(3, 1, "why", why),
    Task(4, 1, "what can an H200 do", what_can_an_h200_do),
    Task(5, 1, "a pallet of 40, 3 of them slow", pallet),
    Task(6, 1, "who is slow", who_is_bad),
    Task(7, 1, "rules of a contract", contract_rules),
    Task(8, 1, "at least 80 % of the limit", share_of_limit),
    Task(9, 1, "stress with a flipped bit", flipped_bit),
    Task(10, 1, "stress with heat, with a power cap", thermal_and_power),
    Task(11, 1, "a page for the manager, as PDF", manager_page),
    Task(12, 1, "the page on a phone, in the dark", page_on_a_phone),
    Task(13, 2, "my OpenCL kernel", own_opencl_kernel),
    Task(14, 2, "my Triton kernel, my CUDA kernel", triton_and_cuda),
    Task(15, 2, "mine beside the library's", beside_the_library),
    Task(16, 2, "the kernels of my model", my_models_kernels),
    Task(17, 3, "a slow training script", slow_training_script),
    Task(18, 3, "a function in Python", function_in_python),
    Task(19, 4, "500 nodes from a CSV", fleet_from_csv),
    Task(20, 4, "200 simulated nodes", many_simulated_nodes),
    Task(21, 4, "is a level off", is_a_level_off),
    Task(22, 4, "settings of a node", settings),
    Task(23, 5, "results of the tools that I come from", other_tools),
    Task(24, 5, "a gate in CI, its baseline in git", gate_with_baseline_in_git),
    Task(25, 5, "two commands against each other", two_commands),
    Task(26, 1, "a bundle that came by mail", mailed_bundle),
    Task(27, 5, "wrong inputs and guessed names", wrong_inputs),
)

"""`--json` of every verb against the schema that `hotlap schema json` prints, and `--json=2` beside it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotlap.cli import commands, main
from hotlap.core.show import document, shape

ROOT = Path(__file__).parents[2]
BUNDLES = ROOT / "tests" / "before" / "bundles" / "0.2"
EXAMPLES = ROOT / "examples"
ELSEWHERE = {  # verbs that take long or need more: the tests that hold their JSON against the same schema
    "history bisect": "tests/core/trials/test_bisect.py", "trace capture": "tests/traces/test_measure_capture.py",
    "frames capture": "tests/frames/test_frames_capture.py", "serving bench": "tests/serving/test_serving_bench.py", "serving ab": "tests/serving/test_serving_ab.py",
    "serving capacity": "tests/serving/test_capacity_verb.py", "serving frontier": "tests/serving/test_frontier_verb.py",
    **{f"cluster {verb}": "tests/cluster/test_cluster_local.py" for verb in ("run", "check", "status", "logs", "collect", "resume", "stop")},
    "cluster compare": "tests/cluster/test_cluster_compare.py", "cluster collective": "tests/bringup/test_collective_verb.py",
    "cluster gate": "tests/bringup/test_gate_verb.py",
    **dict.fromkeys(("tuning run", "tuning apply", "tuning revert"), "tests/tuning/test_tuning_run.py"),
    **{f"cluster accept {verb}": "tests/bringup/test_accept_verbs.py" for verb in ("plan", "run", "status", "retest", "release", "pack")},
    "training run": "tests/training/test_training_run.py",
    "training frontier": "tests/training/test_training_frontier.py", "training converge": "tests/training/test_converge.py",
    "training infer": "tests/training/test_infer.py", "tuning quality": "tests/tuning/test_quality.py", "training memory": "tests/training/test_memory.py",
    "kernel compiled": "tests/kernels/test_compiled.py", "kernel opportunities": "tests/cli/test_cli_kernels.py",
}  # fmt: skip
# What stands beside the head, by command. {plan}, {slower}, {stress}: runs; {home}: a folder; {trace}: a file.
ANSWERS = {
    "devices --target simulated:h200-sxm": ["devices", "unavailable", "simulated"],
    "doctor --run {plan}": ["run", "look", "governor", "selftest"],
    "bench true false --runs 2 --ignore-failure": ["cases", "runs"],
    "bench chase size=1MiB --target simulated:h200-sxm --runs 2": ["cases", "runs"],
    "run {home}/small.toml --target simulated:h200-sxm --no-report --label side=a": ["cases", "runs"],
    "run {home}/small.toml --target simulated:h200-sxm?nodes=2 --no-report": ["selector", "runs", "failures"],
    "plan show": ["plans"],
    "plan check quick": ["plan"],
    "plan from minilm-l6 --phase forward --context 32 --top 50%": ["plan", "notes"],
    "plan from --list": ["networks"],
    "list": ["runs"],
    "show {plan}": ["cases", "runs"],
    "show {stress}": ["cases", "runs"],
    "explain {plan}": ["cases", "runs"],
    "report {plan} --out {home}/page.html": ["html"],
    "import {home}/table.csv": ["imported"],
    "import --formats": ["formats"],
    "export {plan} --as csv --out {home}/out.csv --replace": ["path", "format", "left_out"],
    "schema json": ["json_schema"],
    "schema codes": ["codes"],
    "schema workloads gemm": ["workloads"],
    "compare side=a side=a side=a": ["cases", "sides", "differences"],
    "ab true true --pairs 10": ["cases", "runs", "stop", "designs"],
    "gate {slower} --against limit --share 99%": ["cases", "runs"],
    "gate 2026-11-01 --against fleet": ["cases", "runs", "devices", "spreads", "min_effect", "reach"],
    "baseline save {plan} --name good --replace": ["baseline"],
    "baseline list": ["promoted", "baselines"],
    "baseline show good": ["baseline"],
    "baseline promote good": ["baseline"],
    "history {plan}": ["series"],
    "predict gemm m=64 --machine h200-sxm": ["case", "machine", "unit", "limit"],
    "predict net llama-3-8b --machine h200-sxm": ["step"],
    "energy {plan}": ["cases"],
    "tuning power quick --machine h200-sxm --clocks 1.2GHz": ["frontier", "dry_run"],
    "model machines h200-sxm": ["machines"],
    "model calibrate --list": ["calibrations"],
    "model sensitivity quick --machine h200-sxm --keys clock": ["sensitivity"],
    "model correlate {plan} {slower}": ["correlation"],
    "completion bash": ["script"],
    "kernel new {home}/own.cl --like rowwise": ["path", "heading"],
    "kernel add {examples}/kernels/softmax_rows.cl": ["kernel"],
    "kernel add {examples}/kernels/cutlass.csv": ["imported"],
    "kernel list": ["kernels"],
    "serving simulate h200-sxm --model llama-3-8b --for 1s": ["server"],
    "serving traffic show {home}/traffic.jsonl": ["traffic"],
    "frames {home}/log.csv --like mangohud": ["run", "frames", "like"],
    "serving traffic scale {home}/traffic.jsonl --factor 2 --out {home}/twice.jsonl": ["before", "after", "out"],
    "tool list": ["tools"],
    "tool show echoed": ["tool"],
    "tool test echoed": ["tools"],
    "tool read echoed {home}/printed.txt": ["result"],
    "tool run echoed --rounds 1": ["cases", "runs"],
    "kernel show softmax-rows": ["kernel"],
    "kernel check softmax-rows --target simulated:h200-sxm": ["checks"],
    "kernel run softmax-rows rows=8 columns=64 --target simulated:h200-sxm --rounds 2": ["cases", "runs"],
    "kernel plan softmax-rows": ["plan"],
    "kernel remove softmax-rows": ["kernel"],
    "kernel coverage quick": ["coverage"],
    "kernel track {plan}": ["lives", "never", "totals", "runs", "kernels"],
    "kernel track report --from side=a --to side=a": ["counts", "report"],
    "trace show {trace}": ["traces", "unusable"],
    "trace show --rules": ["rules"],
    "trace diff {trace} {trace}": ["a", "b", "per", "program", "delta_s", "noise_s", "parts", "idle", "classes", "operators", "gaps"],
    "trace lint {trace}": ["files", "markers", "names", "compared", "flaws", "not_told", "notices"],
    "trace lint --list": ["rules"],
    "node inspect": ["nodes"],
    "node audit": ["host", "profile", "outcomes"],
    "node audit --list": ["rules"],
    "node watch --target simulated:h200-sxm --for 1s": ["telemetry"],
    "cluster isolate --simulate fabric?nodes=8": ["isolation"],
    "tuning switches omp_wait": ["switches", "left_out"],
    "stress --judge {stress}": ["run", "state", "reason", "devices", "allowed", "skew"],
}
KEYS = {  # of the manual, by command
    command: re.findall(r"`(\w+)`", keys)
    for commands_, keys in re.findall(r"^\| (`[a-z ]+`(?:, `[a-z ]+`)*) \| (.*) \|$", (ROOT / "docs" / "json.md").read_text(), re.MULTILINE)
    for command in re.findall(r"`([a-z ]+)`", commands_)
}  # fmt: skip
SMALL = 'schema = 1\nname = "small"\n[measure]\nrounds = 2\nrounds_max = 2\nround_time = "0.1 s"\n[[case]]\nworkload = "chase"\nsize = "1 MiB"\n'

TOOL = """name = "echoed"
about = "prints a rate"
measures = "machine"
find = ["echo"]
[run]
command = ["{program}", "rate 5 MB/s"]
[[result]]
read = "regex"
match = 'rate (?P<value>\\S+) (?P<unit>\\S+)'
name = "rate"
unit = "MB/s"
[[sample]]
origin = "written by this test"
stdout = "rate 5 MB/s"
expect = [["rate", 5, "MB/s"]]
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home with kept runs, a fleet of ten from a CSV, and files."""
    home = tmp_path_factory.mktemp("json")
    found = {"home": str(home), "examples": str(EXAMPLES), "trace": str(home / "trace.json")}
    for name in ("plan", "slower", "stress"):
        with zipfile.ZipFile(BUNDLES / f"{name}.zip") as bundle:
            bundle.extractall(home / "runs")
            found[name] = bundle.namelist()[0].partition("/")[0]
    (home / "small.toml").write_text(SMALL)
    lines = [f"2026-11-01,n{n},H200,copy,{3 - 0.2 * (n == 4) + 0.001 * ((n * 7 + r) % 5)},GB/s" for n in range(10) for r in range(3)]
    (home / "table.csv").write_text("\n".join(["time,host,model,case,value,unit", *lines]) + "\n")
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 200, "args": {"device": 0, "stream": 7}}
    (home / "trace.json").write_text(json.dumps({"traceEvents": [kernel]}))
    (home / "tools").mkdir()
    (home / "tools" / "echoed.toml").write_text(TOOL)
    log = "".join(f"100,10000,0,0,0,0,0,0,0,0,0,{n * 10_000_000}\n" for n in range(300))
    (home / "log.csv").write_text(
        "fps,frametime,cpu_load,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,elapsed\n" + log
    )
    (home / "traffic.jsonl").write_text("".join(f'{{"timestamp": {n * 100}, "input_length": 700, "output_length": 9}}\n' for n in range(40)))
    (home / "printed.txt").write_text("rate 5 MB/s\n")
    (home / "own.cl").write_text("__kernel void own(__global const float *x, __global float *y, uint columns) {}\n")
    return found


def test_every_verb_is_here() -> None:
    words = [commands.split(text.split())[0] for text in ANSWERS]
    assert {*words, *ELSEWHERE} == {*commands.VERBS}
    assert {name for name in KEYS if name in commands.VERBS} == {*commands.VERBS}, "docs/json.md: keys of commands"
    for file in ELSEWHERE.values():
        assert ", Document" in (ROOT / file).read_text(), f"{file} holds nothing against the schema"


@pytest.mark.slow("every verb once")
def test_every_verb_prints_the_shape(places: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", places["home"])
    assert main(["import", places["home"] + "/table.csv"]) == 0
    capsys.readouterr()
    for text, keys in ANSWERS.items():
        code = main([*text.format_map(places).split(), "--json"])
        captured = capsys.readouterr()
        try:
            answer: dict[str, Any] = json.loads(captured.out)
        except ValueError:
            pytest.fail(f"{text}: {captured.err or captured.out[:200]}")
        head = [name for name in answer if name in shape.HEAD]
        assert head[:3] == ["schema", "verdict", "exit_code"], text
        assert answer["exit_code"] in (None, code), text
        msgspec.convert(answer, document.Document)
        own = [name for name in answer if name not in shape.HEAD[:3]]
        assert own == keys, text
        documented = {*KEYS[commands.split(text.split())[0]], "cases"}
        assert {*own} <= documented, f"{text}: docs/json.md lacks {', '.join({*own} - documented)}"
        known = {*document.CaseEntry.__struct_fields__}
        assert all({*case} <= known for case in answer.get("cases", [])), text


@pytest.mark.slow("commands of their own")
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_lines_for_jq_run(places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", places["home"])
    block = (ROOT / "docs" / "json.md").read_text().partition("```sh\n")[2].partition("```")[0]
    for line in block.splitlines():
        command = line.replace("hotlap ", f"{sys.executable} -m hotlap ", 1).replace(" latest", f" {places['plan']}")
        done = subprocess.run(["sh", "-c", command.replace("gate ", f"gate {places['plan']} ")], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), line
        assert done.stdout.strip() or "slower" in line, line

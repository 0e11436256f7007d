"""The command line: exit codes, one line for what is wrong, JSON everywhere, nothing heavy before it is needed."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hotlap
from hotlap import cli
from hotlap.cli import commands, main, terminal
from hotlap.core import extend, work
from hotlap.core import plan as plans
from hotlap.core.analysis import rows
from hotlap.core.record import Device, Row
from hotlap.core.store import locks
from hotlap.core.store.bundle import Bundle
from hotlap.stress.record import builtin as profiles

RUN = ["run", "quick", "--target", "simulated:h200-sxm?times=bound&noise=0.002&seed=1", "--round-time", "1 s", "--seed", "5"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / "home"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of the simulated GPU that several tests read."""
    home, said = tmp_path_factory.mktemp("kept"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setenv("HOTLAP_HOME", str(home))
        assert main([*RUN, "--label", "a=b"]) == 0
    assert "report" in said.getvalue()
    return home


@pytest.mark.parametrize("verb", [RUN, ["show"], ["explain"], ["report", "--out", "page.html"]], ids=lambda verb: verb[0])
def test_a_command_analyses_a_bundle_once(
    verb: list[str], kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if verb is not RUN:
        monkeypatch.setenv("HOTLAP_HOME", str(kept))
    monkeypatch.chdir(tmp_path)
    inner, analysed = rows.rows, list[str]()

    def counted(bundle: Bundle, *rest: Any) -> list[Row]:
        analysed.append(bundle.run.id)
        return inner(bundle, *rest)

    monkeypatch.setattr(rows, "rows", counted)
    assert main(verb) == 0
    assert len(analysed) == 1
    assert capsys.readouterr().out


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    words = set(re.findall(r"[\w-]+", out))
    assert {name.partition(" ")[0] for name in commands.VERBS} <= words
    assert max(len(line) for line in out.splitlines()) <= 80
    assert len(out.splitlines()) <= 24
    assert {name for names in commands.GROUPS.values() for name in names} | {"completion"} == {name.partition(" ")[0] for name in commands.VERBS}


@pytest.mark.parametrize("noun", commands.NOUNS)
def test_a_noun_alone_lists_its_verbs_with_an_example_each(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    shorter = [] if commands.NOUNS[noun].alone else [[noun]]
    for words in (*shorter, [noun, "--help"], [noun, "help"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        for name, verb in commands.of_noun(noun).items():
            assert f"  {name} " in out
            assert verb.example in out
            assert verb.example.startswith(f"hotlap {noun}")


EXAMPLES = {**{name: verb.example for name, verb in commands.VERBS.items()}, **{f"start {line}": line for line in commands.START},
            **{f"tried {name}": line for name, line in commands.TRIED.items() if line.islower()}}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_typed(name: str) -> None:
    words = shlex.split(EXAMPLES[name])[1:]
    if words == ["--version"]:
        return
    command, rest = cli._command(words)
    assert name in (command, f"start {EXAMPLES[name]}") or name.startswith("tried ")
    verb = commands.VERBS[command]
    rewritten = getattr(extend.resolve(verb.module), "rewritten", list)
    given = vars(cli._parsed(cli.parser_of(command), [*verb.words, *rewritten(rest)], 3))
    named = given.get("plan") or []
    assert set([named] if isinstance(named, str) else named) <= {*plans.builtin(), "mine.toml"}
    assert command != "stress" or given["profile"] in (None, *profiles())
    assert given.get("workload") in (None, *work.WORKLOADS)
    assert given.get("like") in (None, "", *work.WORKLOADS)


@pytest.mark.parametrize(("former", "name"), commands.FORMER.items())
def test_a_former_name_is_the_verb_and_says_so(former: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*former.split(), "--help"])
    old = capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    new = capsys.readouterr()
    assert old.out == new.out
    assert (old.err, new.err) == (f"hotlap: '{former}' is now '{name}'; the former name works in version 0.2 only\n", "")


def test_an_unknown_command_is_answered_with_the_whole_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyzzy"]) == 2
    listed = capsys.readouterr().err.partition("valid: ")[2].strip().split(", ")
    assert listed == sorted({name.partition(" ")[0] for name in commands.VERBS})


def test_a_word_that_a_command_takes_gets_no_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chek").write_text('[[case]]\nworkload = "stream"\nsize = "1 MiB"\n')
    assert main(["plan", str(tmp_path / "chek")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("word", "instead"), commands.TRIED.items())
def test_names_of_other_tools_are_answered_with_the_right_command(word: str, instead: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert capsys.readouterr().err == f"hotlap: unknown command '{word}': write {instead}\n"
    name = instead.removeprefix("hotlap ")
    assert name == "--version" or commands.split(name.split())[0]


def test_two_words_that_verbs_begin_with_list_them(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["cluster", "accept"], ["cluster", "accept", "--help"]):
        assert main(words) == 0
        assert "cluster accept retest" in capsys.readouterr().out
    assert main(["cluster", "accept", "rnu"]) == 2
    assert "did you mean 'run'?" in capsys.readouterr().err


def test_a_noun_without_its_verb_takes_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "perf.toml").write_text('[[case]]\nworkload = "stream"\nsize = "1 MiB"\n')
    printed = []
    for words in (["plan"], ["plan", "show"]):
        assert main([*words, str(tmp_path / "perf.toml")]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "1 case" in printed[0]


def test_the_built_in_plans_are_listed_by_the_word_that_other_nouns_have_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    listed = []
    for words in (["plan", "list"], ["plan", "show"]):
        assert main(words) == 0
        listed.append(capsys.readouterr().out)
    assert listed[0] == listed[1]
    assert "quick" in listed[0]


def test_options_and_arguments_come_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for words in (["gemm", "m=64", "--machine", "h200-sxm", "--json"], ["--machine", "h200-sxm", "gemm", "--json", "m=64"]):
        assert main(["predict", *words]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_a_feature_that_does_not_load_names_itself_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "hotlap.nodes.cli.inspect", None)
    assert main(["node", "inspect"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("hotlap: hotlap.nodes does not load (")
    assert err.count("\n") == 1
    assert main(["model", "machines", "h200-sxm"]) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_its_shell_takes(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", str(script)], check=True)
    if shell == "bash":
        asked = f"source {script}; COMP_WORDS=(hotlap trace ''); COMP_CWORD=2; _hotlap; echo ${{COMPREPLY[*]}}; COMP_WORDS=(hotlap gate --ag); _hotlap; echo ${{COMPREPLY[*]}}"
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        verbs, options = done.stdout.splitlines()
        assert set(verbs.split()) == {"show", "diff", "lint", "capture"}
        assert options == "--against"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["devices", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = f"import sys; from hotlap.cli import main\ntry: main({words!r})\nexcept SystemExit: pass\nprint(sorted(set(sys.modules) & {{'torch', 'pyopencl', 'sqlite3', 'psutil', 'pynvml', 'cuda'}}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "did you mean 'run'"), (["run", "quik"], "quick"), (["run", "--target", "opencel"], "did you mean 'opencl'"),
        (["run", "--target", "simulated:h200-smx"], "h200-sxm"), (["run", "--target", "simulated:h200-sxm?effic=1"], "did you mean 'efficiency'"),
        (["run", "--rounds", "0"], "rounds"), (["run", "--budget", "soon"], "budget"), (["run", "--label", "x"], "name=value"), (["show", "nothing"], "nothing"),
        (["run", "--nonsense"], "unrecognized"), (["predict", "gemm", "m=-1", "--machine", "h100-sxm"], "'m'"), (["predict", "gemm", "--machine", "h1000"], "h100"),
        (["predict", "gem", "--machine", "h100-sxm"], "gemm"), (["model", "machines", "h20"], "h20"), (["plan", "check", "/nowhere.toml"], "nowhere"),
        (["predict", "llama-3-8b"], "hotlap predict net llama-3-8b"), (["plan", "check"], "which plan"), (["predict"], "which workload"), (["run", "--together"], "--device all"),
        (["predict", "stream", "size=1MiB", "size=2MiB", "--machine", "h200-sxm"], "twice"), (["run", "--label", "device=3"], "my_device"),
        (["verison"], "did you mean 'hotlap --version'"), (["run", "--rouns", "3"], "did you mean '--rounds'"),
        (["run", "--rouns=3"], "did you mean '--rounds'"), (["plan", "chek"], "did you mean 'hotlap plan check'"),
        (["model", "corelate", "a", "b"], "did you mean 'hotlap model correlate'"), (["trace", "shw"], "did you mean 'hotlap trace show'"),
        (["history", "bisct"], "did you mean 'hotlap history bisect'"), (["export", "--as", "jnit"], "did you mean 'junit'"),
        (["run", "quick", "--budget", "-5s"], "'budget' is a time above zero and up to 31 days, as in '60 s' or '10 min', not '-5s'"),
        (["run", "quick", "--budget"], "argument --budget: expected one argument; hotlap run --help"), (["run", "quick", "-5s"], "unrecognized arguments: -5s; hotlap"),
        (["predict", "gemm", "--gpu", "H200"], "did you mean '--machine'"), (["run", "--gpu", "0"], "did you mean '--device'"),
        (["plan", "from", "meta-llama/Llama-3-8B"], "did you mean 'llama-3-8b'"),
        (["run", "--target", "simulated:h200-sxm?slow=0.05@1.3,0.05@2.7"], "or with nodes slow=0.03@17.3,18.*"),
        (["run", "--target", "cpu"], "did you mean 'opencl:cpu'"), (["run", "--target", "h200"], "a simulated one is simulated:h200-sxm"), (["run", "--plan", "quick"], "write its value alone, without '--plan'"),
        (["stress", "--duration", "60"], "did you mean '--for'"), (["predict", "gemm", "dtype=float16", "--machine", "h100-sxm"], "did you mean 'fp16'"),
        (["predict", "attention", "cache_write=false", "--machine", "h100-sxm"], "'cache_write' is 0 or 1, not 'false'"),
        (["predict", "attention", "causal=yes", "--machine", "h100-sxm"], "did you mean 'mask=causal'"), (["training", "run", "x.py", "--rounds", "3"], "did you mean '--processes'"), (["compare", __file__, __file__], "become runs by hotlap import"),
        (["run", "--rounds", "1.5"], "whole number"), (["show", "--json", "--format", "csv"], "two answers"),
    ],
)
def test_a_usage_error_gets_one_line_and_exit_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_plan_is_answered_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text('schema = 1\n[[case]]\nworkload = "stream"\nsize = "1 GiB"\nopp = "copy"\n')
    assert main(["plan", "check", str(plan)]) == 2
    assert f"{plan}:5:" in capsys.readouterr().err


def test_an_unusable_home_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "file" / "home"))
    assert main(["list"]) == 3
    assert "HOTLAP_HOME" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["list"], ["list", "a=b"], ["show"], ["show", "latest", "--where", "workload=gemm"], ["explain"], pytest.param(["compare", "latest", "a=b"], marks=pytest.mark.slow("compares every case")), ["model", "machines"],
        ["model", "machines", "h200-sxm"], ["predict", "gemm", "m=4096", "dtype=bf16", "--machine", "h200-sxm"], ["plan", "show"], ["plan", "show", "quick"],
        ["plan", "check", "quick"], ["schema"], ["devices", "--target", "simulated:b200"],
    ],
)
def test_every_verb_prints_text_and_json(words: list[str], kept: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    assert main(words) == 0
    text = capsysbinary.readouterr().out
    assert main([*words, "--json"]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert text.strip()
    assert document
    assert b"\x1b[" not in text


@pytest.mark.slow("whole runs")
def test_report_writes_one_file(kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    out = tmp_path / "page.html"
    assert main(["report", "a=b", "--out", str(out)]) == 0
    assert "<html" in out.read_text()


@pytest.mark.slow("measures the whole plan quick")
def test_compare_of_a_slower_run_exits_1(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    slow = [w.replace("noise", "efficiency=0.9&noise") for w in RUN]
    assert main([*slow, "--no-report", "--label", "slow=yes"]) == 0
    assert main(["compare", "a=b", "slow=yes"]) == 1
    assert "slower" in capsys.readouterr().out
    assert main(["compare", "slow=yes", "a=b"]) == 0
    assert "faster" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "--where", "size=3GiB"], "has size=3GiB; did you mean"), (["explain", "--where", "device=9"], "valid: 0"), (["show", "--device", "9"], "has device=9; valid: 0"),
        (["show", "--where", "workload=fma", "--where", "op=copy"], "fits all of"), (["report", "--out", "/nonexistent/x.html"], "no folder"),
        (["report", "latest", "x.html"], "no run is 'x.html'; a page is written by --out x.html"),
        (["node", "audit", "n1.json", "n2.json"], "one node: --root n1.json; nodes to compare with each other: --fleet n1.json n2.json"),
        (["report", "--out", "x.docx"], "a report is not written as '.docx'; valid: FILE.html, FILE.pdf"),
        (["gate", "--against", "fleet", "--out", "x.docx"], "a page is not written as '.docx'; valid: FILE.html, FILE.pdf"),
        (["run", "--resume", "latest", "--rounds", "9"], "takes no --rounds"), (["run", "quick", "--resume", "latest"], "takes no plan"),
    ],
)
def test_what_a_run_does_not_have_gets_one_line(words: list[str], message: str, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_run_that_is_whole_leaves_nothing_to_resume(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    assert main(["run", "--resume", "a=b", "--no-report"]) == 0
    assert "nothing was left to do" in capsys.readouterr().err


def test_a_torn_line_is_told_once_when_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    plan = tmp_path / "p.toml"
    plan.write_text('schema = 1\n[measure]\nrounds = 1\nrounds_max = 1\nround_time = "1 s"\n[[case]]\nworkload = "stream"\nop = ["copy", "read"]\nsize = "1 MiB"\n')
    assert main(["run", str(plan), "--target", "simulated:h200-sxm", "--no-report"]) == 0
    (samples,) = tmp_path.glob("runs/*/samples.jsonl")
    samples.write_bytes(samples.read_bytes()[:-9])
    capsys.readouterr()
    assert main(["run", "--resume", "latest", "--no-report"]) == 0
    assert capsys.readouterr().err.count("samples.jsonl: its last line was cut off") == 1
    assert len(samples.read_bytes().splitlines()) == 2


def test_two_runs_from_two_homes_at_one_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The second one is refused whichever target it drives the device by, in one line, and keeps nothing."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with locks.hold([Device(target="torch", index=0, name="the CPU", kind="cpu")]):
        assert main(["run", "quick", "--target", "opencl:cpu"]) == 3
    line = capsys.readouterr().err.splitlines()[-1]  # a look at a busy machine may have said something before
    assert re.search(rf"the device opencl:0:.* is held, as torch:0:the CPU, by process {os.getpid()} .* since .* UTC, .* s ago; wait for it: --wait", line)
    assert not (tmp_path / "runs").exists()


def test_what_the_user_s_programs_meet_at_a_held_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs may be runs themselves: they hold nothing and are not refused, and who holds the processor is said by one rule."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    cpu = Device(target="torch", index=0, name="the CPU", kind="cpu")
    said = rf"is held, as torch:0:the CPU, by process {os.getpid()} .*: both disturb each other's numbers; --wait '10 min' waits for it"
    with locks.hold([cpu]):
        assert main(["bench", "true", "--runs", "2"]) == 0
        assert re.search(said, capsys.readouterr().err)
        assert main(["ab", "true", "true", "--pairs", "10"]) in (0, 3)
        assert re.search(said, capsys.readouterr().err)
        timed = hotlap.measure(lambda: None, rounds=1, round_s=0.01)
        assert [re.search(said, one.seen) is not None for one in timed.rounds[0].notices if one.code == "shared_device"][-1:] == [True]
        assert main(["bench", "stream", "size=1MiB", "--target", "opencl:cpu"]) == 3
        assert "wait for it: --wait '10 min'" in capsys.readouterr().err
    assert main(["bench", "true", "--runs", "2", "--wait", "1 s"]) == 0
    assert "is held" not in capsys.readouterr().err


def test_nothing_measured_exits_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text('schema = 1\n[measure]\nrounds = 1\n[[case]]\nworkload = "command"\nargv = ["true"]\n')
    assert main(["run", str(plan), "--target", "simulated:h200-sxm", "--no-report"]) == 3
    assert main(["show"]) == 3
    assert "not run" in capsys.readouterr().out


def test_runs_of_one_second_stand_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text('schema = 1\n[measure]\nrounds = 1\nround_time = "1 s"\n[[case]]\nworkload = "launch"\n')
    for number in range(4):
        assert main(["run", str(plan), "--target", "simulated:h200-sxm", "--no-report", "--label", f"n={number}"]) == 0
    capsys.readouterr()
    assert main(["list", "--json"]) == 0
    assert [run["labels"]["n"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["0", "1", "2", "3"]


@pytest.mark.slow("whole runs")
def test_verbs_that_read_years_of_runs_do_not_look_for_cycles(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    seen = list[bool]()
    monkeypatch.setattr(terminal, "width", lambda: seen.append(gc.isenabled()) or 100)
    for words in (["list"], ["history"], ["show", "latest"]):
        assert main(words) == 0
        assert gc.isenabled()
    assert seen == [False, False, True]


def test_a_path_is_listed_too(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = min((kept / "runs").iterdir())
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    assert main(["list", str(run)]) == 0
    one = capsys.readouterr().out
    assert main(["list", run.name]) == 0
    assert capsys.readouterr().out == one
    assert main(["list", run.name, str(run), "--json"]) == 0
    assert [found["id"] for found in json.loads(capsys.readouterr().out)["runs"]] == [run.name]


def test_json_before_the_command_is_json_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["model", "machines"], ["node", "audit", "--list"]):
        for flag in ("--json", "--json=2"):
            assert main([*words, flag]) == 0
            after = capsys.readouterr().out
            assert main([flag, *words]) == 0
            assert capsys.readouterr().out == after
            json.loads(after)
    assert main(["--json"]) == 2
    assert "as in hotlap list --json" in capsys.readouterr().err


def test_parameters_that_nobody_gave_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "gemm"]) == 0
    assert "these are taken: dtype=fp32, m=4096, n=4096, k=4096" in (said := capsys.readouterr().err)
    assert "as in hotlap predict gemm m=4096 (hotlap schema workloads gemm says what each is)" in said
    assert main(["predict", "gemm", "m=64"]) == 0
    assert "are taken" not in capsys.readouterr().err


def test_a_program_that_is_not_there_is_refused_before_the_first_pair(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", "nosuchcmd", "true"]) == 2
    assert capsys.readouterr().err == "hotlap: there is no program 'nosuchcmd'; is it installed, and in PATH?\n"


def test_a_script_that_cannot_be_executed_is_refused_with_what_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "slow.py"
    script.write_text("print(1)\n")
    line = f"hotlap: '{script}' is a file that cannot be executed; name what runs it, as in 'python {script}', or chmod +x\n"
    for words in (["ab", str(script), "true"], ["bench", str(script)], ["trace", "capture", "--", str(script)]):
        assert main(words) == 2
        assert capsys.readouterr().err == line


def test_a_kernel_that_is_not_kept_but_a_file_is_to_be_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.cl"
    file.write_text("__kernel void mine(__global float *x) {}\n")
    assert main(["kernel", "check", str(file)]) == 2
    assert f"it is a file: hotlap kernel add {file} first, which names the kernel" in capsys.readouterr().err


def test_verbs_that_predict_have_one_default_machine_and_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["predict", "gemm", "m=64"], ["predict", "net", "llama-3-8b"], ["model", "sensitivity", "quick"], ["plan", "from", "bert-base"]):
        assert main(words) == 0
        printed = capsys.readouterr()
        assert "h200-sxm" in printed.out + printed.err, words


def test_an_argument_that_is_missing_is_named_with_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", "true"]) == 2
    assert capsys.readouterr().err == "hotlap: 'b' is missing: a second one, or a second plan, that is compared with A; hotlap bench measures one alone; hotlap ab --help says what is valid\n"

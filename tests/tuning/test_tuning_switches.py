"""The catalogue of switches: every entry is whole, and says where it applies, what it changes and where that stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.tuning import applying, catalogue, cli_switches
from hotlap.tuning.catalogue import SwitchFacts
from hotlap.tuning.space import SwitchSetting

HERE = SwitchFacts(cores=4, numa=1, gpu=False, linux=True, glibc=(2, 36))
ASKED = {
    "batch", "micro_batch", "precision", "compile", "cuda_graphs", "channels_last", "optimizer", "attention", "checkpointing", "loader_workers",
    "prefetch", "pin_memory", "bucket_mb", "nccl_algorithm", "cuda_allocator", "omp_threads", "omp_binding", "omp_wait", "numa", "huge_pages",
    "power_limit", "clocks", "max_sequences", "batched_tokens", "chunked_prefill", "prefix_cache", "block_size", "kv_type",
}  # fmt: skip


@pytest.mark.parametrize("name", catalogue.switches())
def test_a_switch_says_all_that_a_user_needs(name: str) -> None:
    switch = catalogue.switches()[name]
    assert all((switch.about, switch.group, switch.subjects, switch.undo, switch.expect, switch.source))
    assert switch.argument == bool(switch.standing)
    assert (switch.changes == "rounding") == (switch.tolerance is not None)
    assert switch.verb or switch.values
    assert switch.standing not in switch.values


def test_the_catalogue_has_what_was_promised() -> None:
    assert catalogue.switches().keys() >= ASKED


def test_cores_are_numbers_and_each_value_is_tried_once() -> None:
    threads = catalogue.switches()["omp_threads"]
    assert catalogue.values(threads, HERE) == ["1", "2", "4"]
    assert catalogue.values(threads, SwitchFacts(cores=2, numa=1, gpu=False, linux=True)) == ["1", "2"]


def test_what_does_not_apply_says_why() -> None:
    switches = catalogue.switches()
    assert catalogue.lacking(switches["cuda_graphs"], HERE, "program") == "no NVIDIA GPU here"
    assert catalogue.lacking(switches["numa"], HERE, "program") == "one NUMA node alone"
    assert catalogue.lacking(switches["batch"], HERE, "server") == "it is of a program"
    assert catalogue.lacking(switches["omp_wait"], HERE, "plan") == ""


def test_the_model_expects_what_it_can() -> None:
    half = catalogue.expected(catalogue.switches()["precision"], SwitchFacts(cores=4, numa=1, gpu=True, linux=True, machine="h200-sxm"))
    assert "times as fast on h200-sxm" in half
    assert catalogue.expected(catalogue.switches()["precision"], HERE) == catalogue.UNKNOWN
    assert "at most 4 times" in catalogue.expected(catalogue.switches()["omp_threads"], HERE)


def test_a_configuration_becomes_variables_words_and_files(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[mine]\npath = "a.conf"\ncontent = "size={value}\\n"\nvalues = ["1", "2"]\n[wrapped]\nprefix = ["nice", "-n", "{value}"]\nvalues = ["5"]\n')
    every = {**catalogue.switches(), **catalogue.file(str(own))}
    settings = (SwitchSetting("compile", "default"), SwitchSetting("mine", "2"), SwitchSetting("omp_binding", "close"), SwitchSetting("wrapped", "5"))
    means = applying.applied(every, {name: switch.standing for name, switch in every.items()}, settings)
    assert means.environment == {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
    assert (means.prefix, means.files) == (["nice", "-n", "5"], {"a.conf": "size=2\n"})
    assert applying.filled(["train", "--compile={compile}", "{x}"], means.arguments) == ["train", "--compile=default", "{x}"]
    assert applying.filled(["serve", "{flag}"], {"flag": ""}) == ["serve"]


@pytest.mark.parametrize(("text", "said"), [
    ("[", "is no TOML"), ("a = 1", "is no switch"), ("[x]\nvalue = 1", "no key 'value'"), ('[x]\nvalues = ["1"]', "it has none"),
    ('[x]\nargument = true\npath = "a"\nvalues = ["1"]', "argument and path"), ('[x]\npath = "a"', "values is empty"),
    ('[x]\npath = "a"\nvalues = [1]', "Expected `str`"),
    ('[x]\npath = "a"\nvalues = ["1"]\nwhen = ["lunix"]', "no condition 'lunix'; did you mean 'linux'"),
])  # fmt: skip
def test_a_file_of_switches_that_is_wrong_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        catalogue.file(str(file))


def test_a_file_that_only_root_may_write_needs_root(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[mine]\npath = "/no/such/folder/file"\nvalues = ["1"]\n')
    chosen = applying.chosen(str(file), "program", [], HERE, False)
    assert [one.code for one in chosen.refused] == ["needs_root"]
    assert not chosen.values


def test_what_changes_the_machine_for_other_programs_is_tried_only_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catalogue.TuningSwitch(about="of all programs", path=str(tmp_path / "enabled"), content="{value}", values=["always"])
    monkeypatch.setattr(catalogue, "switches", lambda: {"whole": whole})
    left = applying.chosen("", "program", [], HERE, False)
    assert not left.values
    assert [(one.settings[0].switch, one.code) for one in left.refused] == [("whole", "not_named")]
    assert applying.chosen("whole", "program", [], HERE, False).values == {"whole": [applying.AS_FOUND, "always"]}


@pytest.mark.parametrize("kind", ["program", "plan", "server"])
def test_a_search_for_which_nothing_is_named_writes_no_file(kind: str) -> None:
    assert not [name for name, switch in applying.chosen("", kind, [], catalogue.here(), True).switches.items() if switch.path]


def test_a_new_file_whose_switch_changes_results_needs_a_result(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'[mine]\npath = "{tmp_path}/new"\nvalues = ["1"]\nchanges = "results"\n')
    assert [one.code for one in applying.chosen(str(file), "program", [], HERE, False).refused] == ["unchecked"]
    assert applying.chosen(str(file), "program", [], HERE, True).values == {"mine": [applying.AS_FOUND, "1"]}


def test_switches_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tuning", "switches", "--for", "server"]) == 0
    out = capsys.readouterr().out
    assert "kv_type" in out
    assert "loader_workers" not in out
    assert main(["tuning", "switches", "omp_wait"]) == 0
    assert "OMP_WAIT_POLICY={value}" in capsys.readouterr().out
    assert main(["tuning", "switches", "kv_type", "--for", "program"]) == 2
    assert "kv_type is of a server" in capsys.readouterr().err
    assert main(["tuning", "switches", "--machine", "h999"]) == 2
    assert "no machine 'h999'" in capsys.readouterr().err
    assert main(["tuning", "switches", "--machine", "h200-sxm"]) == 0
    assert "times as fast" in " ".join(capsys.readouterr().out.split())
    assert main(["tuning", "switches", "omp_wat"]) == 2
    assert "did you mean 'omp_wait'" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_of_switches_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["tuning", "switches", "--machine", "h200-sxm"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert all(any(line.split()[:1] == [name] for line in out.splitlines()) for name in catalogue.switches())


def test_what_applies_here_is_shown_alone_and_the_rest_by_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(catalogue, "here", lambda _="": HERE)
    words = ["tuning", "switches", "--here", "--for", "python train.py --precision {precision}"]
    assert main(words) == 0
    table, _, left = capsys.readouterr().out.partition("do not apply here:")
    assert {line.split()[0] for line in table.splitlines()[1:] if line and not line.startswith(" ")} >= {"omp_wait", "precision"}
    assert not any(name in table for name in ("tf32", "numa ", "batch ", "kv_type"))
    left = " ".join(left.split())
    assert "one NUMA node alone: numa" in left
    assert "no NVIDIA GPU here: cuda_allocator, tf32" in left
    assert "the command has no {NAME}: write it where its value stands: batch, micro_batch" in left
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["left_out"]["tf32"] == "no NVIDIA GPU here"
    assert document["switches"]["precision"]["lacking"] == ""
    assert not document["switches"].keys() & document["left_out"].keys()
    assert main(["tuning", "switches", "--here", "tf32"]) == 0
    assert capsys.readouterr().out.startswith("none applies here:\n  no NVIDIA GPU here: tf32\n")


def test_a_file_that_needs_root_does_not_apply_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catalogue.TuningSwitch(about="of all programs", path=str(tmp_path / "enabled"), values=["always"])
    assert cli_switches.refused("whole", whole, HERE, None) == ""
    monkeypatch.setattr(applying.os, "access", lambda *_: False)
    assert "run as root" in cli_switches.refused("whole", whole, HERE, None)


def test_of_a_server_that_is_not_started_here_only_the_load_applies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tuning", "switches", "--here", "--for", "http://127.0.0.1:9", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["switches"]) == ["concurrency"]
    assert document["left_out"]["omp_wait"] == applying.CLIENT_ALONE
    assert main(["tuning", "switches", "--for", "sever"]) == 2
    assert "did you mean 'server'" in capsys.readouterr().err

"""Facts of nodes that are made up, snapshots, and what is never kept."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import msgspec
import pytest
from inspect_recorded import config, grace, hgx

from hotlap.cli import main
from hotlap.errors import InputError, SchemaError
from hotlap.inspect import bmc, node, redact
from hotlap.inspect.noting import Notes
from hotlap.inspect.place import INDEX, Packed, packed
from hotlap.judge import audit, odd
from hotlap.report import audit as printing

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "redfish" / "gb300_supermicro.tar.gz"


def found(place: Packed, profile: str = "training") -> dict[str, list[str]]:
    outcomes = audit.audit(node.facts(place), audit.builtin(), profile)
    names = dict.fromkeys(one.rule for one in outcomes if one.finding)
    return {name: [one.at for one in outcomes if one.rule == name and one.finding] for name in names}


def test_a_node_that_is_set_right_has_no_error() -> None:
    facts = node.facts(hgx())
    assert (facts.host, facts.arch, facts.value("gpus.count")) == ("hgx01", "x86_64", 8)
    assert facts.value("gpu[7].pcie.width_possible") == 16
    assert facts.value("gpu[0].pcie.max_payload_bytes") == 512
    assert facts.value("gpu[0].pcie.max_read_request_bytes") == 4096
    assert facts.value("gpu[0].memory_bytes") == 81559 << 20
    assert found(hgx()) == {}


def test_what_is_wrong_is_found_where_it_is() -> None:
    wrong = found(hgx(narrow="3", acs="on", governor="powersave", persistence="Disabled", limit="500.00"))
    assert wrong == {
        "persistence": [f"gpu[{n}]" for n in range(8)], "power-cap": [f"gpu[{n}]" for n in range(8)], "pcie-width": ["gpu[3]"],
        "pcie-generation": ["gpu[3]"], "acs": [f"gpu[{n}]" for n in range(8)], "governor": [""],
    }


def test_an_audit_prints_what_it_printed() -> None:
    facts, rules = node.facts(hgx(narrow="3", governor="powersave", limit="500.00")), audit.builtin()
    golden = Path(__file__).resolve().parent.parent / "report" / "golden" / "audit-hgx.txt"
    assert printing.audit(facts, "training", audit.audit(facts, rules, "training"), rules, 100) + "\n" == golden.read_text(encoding="utf-8")


def test_a_snapshot_of_another_architecture_is_read() -> None:
    facts = node.facts(grace())
    assert (facts.arch, facts.value("cpu.model")) == ("aarch64", "Neoverse V2")
    assert "clock-source" not in found(grace())


def test_what_is_not_there_is_never_a_zero() -> None:
    facts = node.facts(grace()).facts
    for fact in facts.values():
        assert (fact.value is None) == (fact.status != "ok")
        assert fact.status == "ok" or fact.reason
    assert facts["memory.ecc_corrected"].reason == "no EDAC driver"


def test_no_permission_is_told_apart() -> None:
    place = Packed("x", files={"proc/cmdline": b"quiet"}, errors={"proc/sys/vm/swappiness": "denied"})
    fact = node.facts(place).facts["sysctl[vm.swappiness]"]
    assert (fact.status, fact.reason) == ("denied", "no permission")


def test_a_snapshot_of_this_machine_says_the_same_elsewhere(tmp_path: Path) -> None:
    target = tmp_path / "node.tar.gz"
    here, count = node.snapshot(target)
    there = node.read(str(target))
    moving = ("net[", "disk[", "memory.", "node[")
    assert {n: f for n, f in there.facts.items() if not n.startswith(moving)} == {n: f for n, f in here.facts.items() if not n.startswith(moving)}
    assert count > 10
    assert (there.host, there.arch) == (here.host, here.arch)


def test_credentials_and_serial_numbers_are_left_out() -> None:
    assert redact.file("proc/cmdline", b"quiet api_token=hunter2", False) == b"quiet api_token=left-out\n"
    assert b"\x11" not in redact.file("sys/x/config", config(), False)
    assert b"\x11" in redact.file("sys/x/config", config(), True)
    assert "165" not in redact.output("nvidia-smi-q.xml", "<serial>165</serial>", False)
    assert redact.file("etc/docker/daemon.json", b'{"auths": "secret", "default-runtime": "nvidia"}', False) == b'{"default-runtime": "nvidia"}'


@pytest.mark.parametrize(("files", "says"), [
    ({"x": b""}, "is no snapshot of a node"), ({INDEX: b"{"}, "has a broken"), ({INDEX: b'{"schema": 9}'}, "newer Hotlap"), ({INDEX: b'{"schema": 1}'}, "has a broken"),
])
def test_a_broken_snapshot_is_named(files: dict[str, bytes], says: str) -> None:
    with pytest.raises((InputError, SchemaError), match=says):
        packed(files, "node.tar.gz")


def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.tar.gz").write_bytes(b"not a tarball")
    (tmp_path / "bad.toml").write_text("[rule.x]\ntitle = 3\n")
    (tmp_path / "bad.json").write_text('{"facts": 3}')
    for words in (
        ["audit", "--profile", "gaming"], ["audit", "--explain", "persistance"], ["audit", "--rules", str(tmp_path / "bad.toml")],
        ["audit", "--root", str(tmp_path / "no.tar.gz")], ["audit", "--root", str(tmp_path / "none")], ["inspect", "--root", str(tmp_path)],
        ["audit", "--root", str(tmp_path / "bad.json")], ["audit", "--fleet", str(tmp_path / "no.tar.gz")], ["inspect", "--redfish", str(tmp_path)],
        ["inspect", "--snapshot", str(tmp_path / "no" / "x.tar.gz")], ["audit", "--fail-on", "fatal"],
    ):
        assert main(words) == 2, words
        assert capsys.readouterr().err.rstrip().rpartition("\n")[2].startswith("hotlap: "), words


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded Redfish crawl is not here")
def test_firmware_and_bios_of_a_recorded_crawl() -> None:
    notes = Notes(grace())
    bmc.collect(notes, str(RECORDED))
    assert notes.facts["firmware[HGX_FW_GPU_1]"].value == "97.10.3E.00.05"
    assert notes.facts["bios_setting[above_4g]"].value == "Enabled"
    assert notes.facts["bios_setting[sriov]"].value == "Disabled"


def tarball(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_the_odd_ones_out_of_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(6):
        facts = node.facts(hgx(host=f"hgx{n:02}", governor="powersave" if n == 4 else "performance", limit="650.00" if n == 2 else "700.00"))
        (tmp_path / f"{n}.json").write_bytes(msgspec.json.encode(facts))
    assert main(["audit", "--fleet", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "cpu.governor" in said
    assert "hgx04" in said
    assert "gpu[7].power.limit_w" in said
    assert main(["audit", "--fleet", *[str(tmp_path / f"{n}.json") for n in (0, 1, 3)]]) == 0


def test_what_differs_everywhere_is_left_out_unless_one_is_far() -> None:
    def facts(n: int) -> node.Facts:
        values = {"serial": f"s{n}", "memory": (1 << 40) + n * 4096 if n != 3 else 1 << 39, "split": n % 2, "driver": "570" if n else "565"}
        return node.Facts(host=str(n), facts={name: {"value": value} for name, value in values.items()})

    nodes = {str(n): msgspec.convert(msgspec.to_builtins(facts(n)), node.Facts) for n in range(20)}
    found = odd.compare(nodes)
    assert [(one.fact, list(one.nodes)) for one in found.odd] == [("driver", ["0"]), ("memory", ["3"])]
    assert (found.left_out, found.divided) == (["serial"], ["split"])

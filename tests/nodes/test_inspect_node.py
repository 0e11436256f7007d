"""Facts of nodes that are made up, snapshots, and what is never kept."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from inspect_recorded import config, grace, hgx

from hotlap.cli import main
from hotlap.core.errors import InputError, SchemaError
from hotlap.nodes import audit, odd
from hotlap.nodes.facts import Fact
from hotlap.nodes.inspect import bmc, commands, node, redact
from hotlap.nodes.inspect.noting import FactNotes
from hotlap.nodes.inspect.place import INDEX, Packed, opened, packed
from hotlap.nodes.show import audit as printing

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
    golden = Path(__file__).resolve().parent.parent / "core" / "show" / "golden" / "audit-hgx.txt"
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


@pytest.mark.slow("audits whole fleets")
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.tar.gz").write_bytes(b"not a tarball")
    (tmp_path / "bad.toml").write_text("[rule.x]\ntitle = 3\n")
    (tmp_path / "bad.json").write_text('{"facts": 3}')
    for words in (
        ["node", "audit", "--profile", "gaming"], ["node", "audit", "--explain", "persistance"], ["node", "audit", "--rules", str(tmp_path / "bad.toml")],
        ["node", "audit", "--root", str(tmp_path / "no.tar.gz")], ["node", "audit", "--root", str(tmp_path / "none")], ["node", "inspect", "--root", str(tmp_path)],
        ["node", "audit", "--root", str(tmp_path / "bad.json")], ["node", "audit", "--fleet", str(tmp_path / "no.tar.gz")], ["node", "inspect", "--redfish", str(tmp_path)],
        ["node", "inspect", "--snapshot", str(tmp_path / "no" / "x.tar.gz")], ["node", "audit", "--fail-on", "fatal"],
    ):
        assert main(words) == 2, words
        assert capsys.readouterr().err.rstrip().rpartition("\n")[2].startswith("hotlap: "), words


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded Redfish crawl is not here")
def test_firmware_and_bios_of_a_recorded_crawl() -> None:
    notes = FactNotes(grace())
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


def test_links_of_a_plain_tarball_are_followed_as_in_its_folder_and_lead_nowhere_else(tmp_path: Path) -> None:
    root = tmp_path / "node"
    device = root / "sys" / "bus" / "pci" / "devices" / "0000:17:00.0"
    device.mkdir(parents=True)
    for name, text in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2335")):
        (device / name).write_text(text + "\n")
    (root / "sys" / "bus" / "pci" / "drivers" / "nvidia").mkdir(parents=True)
    (root / "sys" / "bus" / "pci" / "drivers" / "nvidia" / "uevent").write_text("")
    (device / "driver").symlink_to("../../drivers/nvidia")
    (root / "proc").mkdir()
    (root / "proc" / "version").symlink_to("/etc/hostname")
    (root / "proc" / "cpuinfo").symlink_to("../../../../../../etc/hostname")
    archived = tmp_path / "node.tgz"
    with tarfile.open(archived, "w:gz") as archive:
        archive.add(root, ".")
    for where in (root, archived):
        assert node.read(str(where)).facts["gpu[0].driver"].value == "nvidia"
    inside = opened(str(archived))
    assert not inside.exists("proc/version")
    assert not inside.exists("proc/cpuinfo")


def test_a_fleet_with_a_node_that_cannot_be_read_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(3):
        (tmp_path / f"{n}.json").write_bytes(msgspec.json.encode(node.facts(hgx(host=f"hgx{n:02}"))))
    (tmp_path / "3.json").write_text("junk")
    assert main(["node", "audit", "--fleet", str(tmp_path)]) == 3
    assert "1 of the nodes named could not be read" in capsys.readouterr().err
    assert main(["node", "audit", "--fleet", str(tmp_path), "--profile", "nope"]) == 2


@pytest.mark.slow("audits whole fleets")
def test_the_odd_ones_out_of_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(6):
        facts = node.facts(hgx(host=f"hgx{n:02}", governor="powersave" if n == 4 else "performance", limit="650.00" if n == 2 else "700.00"))
        (tmp_path / f"{n}.json").write_bytes(msgspec.json.encode(facts))
    assert main(["node", "audit", "--fleet", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "cpu.governor" in said
    assert "hgx04" in said
    assert "gpu[0 … 7].power.limit_w  (setting)\n  700 W on 83.3 %\n  650 W: hgx02\n" in said
    assert main(["node", "audit", "--fleet", *[str(tmp_path / f"{n}.json") for n in (0, 1, 3)]]) == 0


@pytest.mark.slow("audits whole fleets")
def test_two_groups_are_compared_by_their_majorities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for group, governor in (("a", "performance"), ("b", "powersave")):
        (tmp_path / group).mkdir()
        for n in range(3):
            odd_one = {"limit": "650.00"} if (group, n) == ("b", 1) else {}
            facts = node.facts(hgx(host=f"{group}{n}", governor=governor, **odd_one))
            (tmp_path / group / f"{n}.json").write_bytes(msgspec.json.encode(facts))
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert main(["node", "audit", "--fleet", a, "--against", b]) == 1
    said = capsys.readouterr().out
    assert said.startswith("3 nodes (a0, a1, a2) against 3 nodes (b0, b1, b2)")
    assert "cpu.governor  (setting)\n  first   performance (3 of 3)\n  second  powersave, performance (3 of 3)\n" in said
    assert "power.limit_w" not in said  # one odd node does not make the group another
    assert main(["node", "audit", "--fleet", a, "--against", a]) == 0
    assert main(["node", "audit", "--against", b]) == 2


def test_quantities_of_groups_differ_by_their_medians_and_what_has_no_majority_is_left_out() -> None:
    def group(base: int, kinds: list[str], boot: str) -> dict[str, node.Facts]:
        rows = enumerate(kinds)
        values = [{"memory": base + n * 4096, "noise": n * 7 % 5, "slots": kind, "kernel.boot_id": boot} for n, kind in rows]
        raw = [{"host": str(n), "facts": {name: {"value": one} for name, one in row.items()}} for n, row in enumerate(values)]
        return {one["host"]: msgspec.convert(one, node.Facts) for one in raw}

    found = odd.against(group(1 << 40, ["a", "a", "b", "a"], "x"), group(1 << 39, ["a", "b", "b", "a"], "y"))
    assert [(one.fact, one.kind) for one in found.apart] == [("memory", "quantity")]
    assert found.divided == ["noise", "slots"]
    with pytest.raises(InputError, match="at least one node each"):
        odd.against({}, {"n": node.Facts(host="n")})


def test_what_differs_everywhere_is_left_out_unless_one_is_far() -> None:
    def facts(n: int) -> node.Facts:
        values = {"serial": f"s{n}", "memory": (1 << 40) + n * 4096 if n != 3 else 1 << 39, "split": n % 2, "driver": "570" if n else "565"}
        return node.Facts(host=str(n), facts={name: {"value": value} for name, value in values.items()})

    nodes = {str(n): msgspec.convert(msgspec.to_builtins(facts(n)), node.Facts) for n in range(20)}
    found = odd.compare(nodes)
    assert [(one.fact, list(one.nodes)) for one in found.odd] == [("driver", ["0"]), ("memory", ["3"])]
    assert (found.left_out, found.divided) == (["serial"], ["split"])


CARD = {
    "proc/cpuinfo": b"processor\t: 0\nmicrocode\t: 0x2b\n\nprocessor\t: 1\nmicrocode\t: 0x2c\n",
    "sys/class/net/eth0/device/uevent": b"x",
    "sys/bus/pci/devices/0000:17:00.0/vendor": b"0x15b3", "sys/bus/pci/devices/0000:17:00.0/class": b"0x020700",
    "sys/bus/pci/devices/0000:17:00.1/vendor": b"0x15b3", "sys/bus/pci/devices/0000:17:00.1/class": b"0x020700",
    "commands/ethtool-i/eth0": b"driver: mlx5_core\nversion: 24.10\nfirmware-version: 28.43.2026 (MT_0838)\n",
    "commands/ethtool-g/eth0": b"Pre-set maximums:\nRX:\t8192\nRX Mini:\tn/a\nTX:\t8192\nCurrent hardware settings:\nRX:\t1024\nTX:\tn/a\n",
    "commands/ethtool-a/eth0": b"Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\ton\nTX:\toff\n",
    "commands/ethtool/eth0": b"Settings for eth0:\n\tSupported link modes:   1000baseKX/Full\n\t   400000baseCR4/Full\n\tSpeed: 100000Mb/s\n\tAuto-negotiation: on\n",
    "commands/mlxconfig/0000:17:00.0": b"Configurations:      Default   Current   Next Boot\n        ARRAY   Array[0..15]   Array[0..15]   Array[0..15]\n"
    b"*       NUM_OF_VFS   0   8   16\nRO      PCI_WR_ORDERING   per_mkey(0)   force_relax(1)   force_relax(1)\n",
    "usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5": b"", "usr/local/lib/libnccl.so.2.9.8": b"", "usr/lib64/libnccl.so.2": b"",
    "usr/lib/x86_64-linux-gnu/pkgconfig/ucx.pc": b"Name: ucx\nVersion: 1.17.0\n",
    "etc/docker/daemon.json": b'{"runtimes": {"nvidia": {}}, "exec-opts": ["native.cgroupdriver=cgroupfs"]}',
    "etc/nvidia-container-runtime/config.toml": b'[nvidia-container-cli]\nno-cgroups = true\n[nvidia-container-runtime]\nmode = "cdi"\n',
    "etc/cdi/nvidia.yaml": b"x", "proc/self/status": b"Name:\tx\nCpus_allowed_list:\t0-3,8\n",
}


def test_cards_libraries_and_containers_are_read() -> None:
    facts = node.facts(packed({**CARD}))
    assert {name: facts.value(name) for name in facts.facts if name.startswith(("net[eth0].", "nic[")) and facts.value(name) is not None} == {
        "net[eth0].driver_version": "24.10", "net[eth0].firmware": "28.43.2026 (MT_0838)", "net[eth0].ring_rx": 1024, "net[eth0].ring_rx_max": 8192,
        "net[eth0].ring_tx_max": 8192, "net[eth0].pause_rx": True, "net[eth0].pause_tx": False, "net[eth0].speed_max_bits_per_s": 400 * 10**9,
        "net[eth0].autonegotiation": True, "nic[0000:17:00.0].write_ordering": "force_relax", "nic[0000:17:00.0].functions": "8",
        "nic[0000:17:00.0].pending": ["NUM_OF_VFS"],
    }
    assert (facts.value("library[nccl]"), facts.value("library[ucx]"), facts.value("library[openmpi]")) == (["2.9.8", "2.21.5"], ["1.17.0"], None)
    names = ("docker_runtimes", "docker_cgroup_driver", "nvidia_mode", "nvidia_no_cgroups", "cdi")
    assert [facts.value(f"container.{name}") for name in names] == [["nvidia"], "cgroupfs", "cdi", True, ["nvidia.yaml"]]
    assert (facts.value("cpu.microcode"), facts.value("cpu.allowed")) == (["0x2b", "0x2c"], 5)


def test_firmware_settings_of_the_next_boot_alone_tell_nothing_of_what_waits() -> None:
    short = b"Configurations:      Next Boot\n        NUM_OF_VFS   16\n"
    facts = node.facts(packed({**CARD, "commands/mlxconfig/0000:17:00.0": short})).facts
    assert (facts["nic[0000:17:00.0].functions"].value, facts["nic[0000:17:00.0].pending"].status) == ("16", "absent")


@pytest.mark.parametrize(("files", "cores", "memory"), [
    ({"cgroup.controllers": "cpu", "a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000", "a/memory.max": "8589934592"}, 2.5, 1 << 33),
    ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000", "memory/a/b/memory.limit_in_bytes": "1073741824"}, None, 1 << 30),
    ({"cpu/a/b/cpu.cfs_quota_us": "50000", "cpu/a/b/cpu.cfs_period_us": "100000", "memory/a/memory.limit_in_bytes": "9223372036854771712"}, 0.5, None),
])
def test_limits_of_control_groups_of_both_versions(files: dict[str, str], cores: float | None, memory: int | None) -> None:
    own = b"4:memory:/a/b\n1:cpu,cpuacct:/a/b\n0::/a/b\n"
    facts = node.facts(packed({"proc/self/cgroup": own, **{f"sys/fs/cgroup/{name}": text.encode() for name, text in files.items()}}))
    assert (facts.value("cgroup.cpus"), facts.value("cgroup.memory_bytes")) == (cores, memory)
    assert facts.facts["cgroup.cpus"].status in ("ok", "absent")


def test_control_groups_that_cannot_be_seen_are_no_proof_of_no_limit() -> None:
    assert node.facts(packed({"proc/x": b""})).facts["cgroup.cpus"].status == "error"


def test_a_processor_that_is_not_shown_is_not_that_of_this_machine() -> None:
    facts = node.facts(Packed("x", files={"proc/x": b""}, errors={"proc/cpuinfo": "denied"})).facts
    assert (facts["cpu.model"].status, facts["cpu.model"].value) == ("denied", None)


def test_of_files_with_other_peoples_business_only_what_is_needed_is_kept() -> None:
    assert redact.file("proc/1/environ", b"AWS_KEY=hunter2\0container=podman\0X=1", False) == b"container=podman\n"
    assert redact.file("proc/self/status", b"Name:\tpython\nCpus_allowed_list:\t0-1\n", False) == b"Cpus_allowed_list:\t0-1\n"
    kept = redact.file("etc/nvidia-container-runtime/config.toml", b'[a]\nenvironment = ["K=hunter2"]\nmode = "cdi"\n', False)
    assert kept == b'[a]\nmode = "cdi"\n'


@pytest.mark.parametrize("device", ["-S", "--all", "eth0;x", ""])
def test_no_device_is_taken_for_an_option(device: str) -> None:
    with pytest.raises(ValueError, match="no name of a device"):
        commands.run(f"ethtool-i/{device}")


@pytest.mark.slow("audits whole fleets")
def test_an_audit_as_junit_fails_from_the_severity_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_bytes(msgspec.json.encode(node.facts(hgx(narrow="3", governor="powersave"))))
    for least, failures in (("error", 2), ("warning", 3)):
        words = ["node", "audit", "--root", str(tmp_path / "n.json"), "--profile", "training", "--junit", str(tmp_path / "a.xml"), "--fail-on", least]
        assert main(words) == 1
        (suite,) = ElementTree.parse(tmp_path / "a.xml").getroot()
        assert (suite.get("name"), int(suite.get("failures", "")), len(suite.findall("testcase/failure"))) == ("hgx01", failures, failures)
        assert int(suite.get("tests", "")) == len(suite)


def test_growth_since_an_earlier_reading_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = node.facts(hgx())
    for name, taken, count in (("a", "2026-11-21T10:00:00Z", 5), ("b", "2026-11-21T10:30:00Z", 9)):
        more = {"ib[mlx5_0:1].state": "ACTIVE", "ib[mlx5_0:1].symbol_errors": count}
        changed = msgspec.structs.replace(facts, taken=taken, facts={**facts.facts, **{key: Fact(value=value) for key, value in more.items()}})
        (tmp_path / name).write_bytes(msgspec.json.encode(changed))
    assert main(["node", "audit", "--root", str(tmp_path / "b"), "--since", str(tmp_path / "a"), "--fail-on", "warning"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("growth since 2026-11-21T10:00:00Z, 30 min before\n")
    assert "ib[mlx5_0:1].symbol_errors, growth = 4 in 30 min, 8 an hour" in " ".join(said.split())

"""Every rule of the package: facts that it passes, and facts that it finds fault with."""

from __future__ import annotations

import re

import msgspec
import pytest

from hotlap.core.errors import InputError
from hotlap.nodes import audit, expression, odd
from hotlap.nodes.expression import Scope, Unknown
from hotlap.nodes.facts import Fact, Facts
from hotlap.nodes.show import audit as printing

RULES = audit.builtin()
BARE = {"host.guest": False, "cpu.vendor": "GenuineIntel"}
NV = {"gpu[0].vendor": "nvidia", "gpu[0].address": "0000:17:00.0", "gpu[0].driver": "nvidia"}
IB = {"ib[mlx5_0:1].state": "ACTIVE"}


def one(name: str, good: object, bad: object, **extra: object) -> tuple[dict, dict]:
    base = {key.replace("__", "."): value for key, value in extra.items()}
    return {**NV, **base, name: good}, {**NV, **base, name: bad}


def pair(a: str, b: str, good: tuple, bad: tuple, **base: object) -> tuple[dict, dict]:
    return {**NV, **base, a: good[0], b: good[1]}, {**NV, **base, a: bad[0], b: bad[1]}


def two(leaf: str, same: object, other: object, family: str = "gpu", keys: tuple = ("0", "1"), **base: object) -> tuple[dict, dict]:
    a, b = (f"{family}[{key}].{leaf}" for key in keys)
    return pair(a, b, (same, same), (same, other), **{"gpus.count": 2, **base})


PORT = "ib[mlx5_0:1]"
CASES: dict[str, tuple[dict, dict]] = {
    "gpu-driver": ({**NV}, {"gpu[0].vendor": "nvidia"}),
    "gpu-told": one("gpu[0].name", "NVIDIA H100", None),
    "persistence": one("gpu[0].persistence", "Enabled", "Disabled"),
    "ecc": one("gpu[0].ecc.now", "Enabled", "Disabled"),
    "ecc-pending": pair("gpu[0].ecc.now", "gpu[0].ecc.pending", ("Enabled", "Enabled"), ("Enabled", "Disabled")),
    "mig": one("gpu[0].mig", "Disabled", "Enabled"),
    "mig-pending": pair("gpu[0].mig", "gpu[0].mig_pending", ("Disabled", "Disabled"), ("Disabled", "Enabled")),
    "power-cap": pair("gpu[0].power.limit_w", "gpu[0].power.default_w", (700, 700), (500, 700)),
    "power-equal": two("power.limit_w", 700, 650),
    "application-clocks": pair("gpu[0].clock.application_hz", "gpu[0].clock.application_default_hz", (1.98e9, 1.98e9), (1.2e9, 1.98e9)),
    "slowed": one("gpu[0].slowed", [], ["hw_slowdown"]),
    "compute-mode": one("gpu[0].compute_mode", "Default", "Exclusive_Process"),
    "display": one("gpu[0].display_active", "Disabled", "Enabled"),
    "remap-pending": one("gpu[0].remap.pending", "No", "Yes"),
    "remap-failure": one("gpu[0].remap.failure", "No", "Yes"),
    "retired-pending": one("gpu[0].retired.pending", "No", "Yes"),
    "dram-uncorrected": one("gpu[0].ecc.uncorrected", 0, 1),
    "sram-uncorrected": one("gpu[0].ecc.sram_uncorrected", 0, 1),
    "sram-threshold": one("gpu[0].ecc.sram_threshold", "No", "Yes"),
    "vbios-equal": two("vbios", "96.00.A5", "96.00.89"),
    "gpu-model-equal": two("device_id", "0x2330", "0x2331"),
    "memory-equal": two("memory_bytes", 80 << 30, 64 << 30),
    "fabric": pair("gpu[0].fabric.state", "gpu[0].fabric.status", ("Completed", "Success"), ("In Progress", "N/A")),
    "nvlink-down": pair("gpu[0].nvlink.active", "gpu[0].nvlink.links", (18, 18), (16, 18)),
    "nvlink-equal": two("nvlink.active", 18, 17),
    "nvlink-rate": pair("gpu[0].nvlink.bytes_per_s", "gpu[0].nvlink.highest_bytes_per_s", (26.562e9, 26.562e9), (1.562e9, 26.562e9)),
    "runtime-power": one("gpu[0].runtime_power", "on", "auto"),
    "amd-level": one("gpu[0].performance_level", "auto", "low", **{"gpu[0].vendor": "amd"}),
    "amd-partition": two("compute_partition", "SPX", "CPX"),
    "pcie-width": pair("gpu[0].pcie.width_now", "gpu[0].pcie.width_possible", (16, 16), (8, 16), **{"gpu[0].pstate": "P0"}),
    "pcie-slot": pair("gpu[0].pcie.width_possible", "gpu[0].pcie.width_max", (16, 16), (8, 16), **BARE),
    "pcie-generation": pair("gpu[0].pcie.gen_now", "gpu[0].pcie.gen_possible", (5, 5), (4, 5), **{"gpu[0].pstate": "P0"}),
    "pcie-replays": one("gpu[0].pcie.replays", 0, 7),
    **{f"aer-{kind}": one(f"gpu[0].pcie.aer_{kind}", 0, 3) for kind in ("correctable", "nonfatal", "fatal")},
    "aer-others": one("pci[a].pcie.aer_fatal", 0, 1, **{"pci[a].class": "0200", "pci[a].pcie.aer_nonfatal": 0}),
    "acs": one("gpu[0].acs_redirect", False, True, gpus__count=8, **BARE),
    "iommu": one("gpu[0].iommu_type", "identity", "DMA-FQ", **{"iommu.active": True}, **BARE),
    "resizable-bar": pair("gpu[0].bar_bytes", "gpu[0].bar_possible_bytes", (128 << 30, 128 << 30), (256 << 20, 128 << 30)),
    "aspm": one("cmdline[pcie_aspm]", "off", "force", **{"kernel.cmdline": ["quiet"]}),
    "gpu-numa": one("gpu[0].numa_node", 1, -1, numa__nodes=2, **BARE),
    "gpu-nic-numa": one("gpu[0].numa_node", 1, 0, numa__nodes=2, **{f"{PORT}.numa_node": 1}, **IB, **BARE),
    "governor": one("cpu.governor", "performance", "powersave"),
    "epp": one("cpu.epp", "performance", "balance_power"),
    "cpu-clock-cap": pair("cpu.clock_limit_hz", "cpu.clock_max_hz", (4e9, 4e9), (2e9, 4e9)),
    "boost": one("cpu.boost", True, False),
    "c-states": one("cpu.idle_latency_s", 2e-6, 1.33e-4),
    "smt": one("cpu.smt_active", False, True),
    "offline": pair("cpu.online", "cpu.present", (64, 64), (60, 64)),
    "numa-balancing": one("sysctl[kernel.numa_balancing]", 0, 1, numa__nodes=2),
    "node-memory": one("node[1].memory_bytes", 1 << 38, 0, **{"node[1].cpus": "8-15"}, **BARE),
    "zone-reclaim": one("sysctl[vm.zone_reclaim_mode]", 0, 1),
    "swappiness": one("sysctl[vm.swappiness]", 1, 60, memory__swap_bytes=1 << 33),
    "thp": one("memory.thp", "madvise", "never"),
    "thp-defrag": one("memory.thp_defrag", "madvise", "always"),
    "locked-memory": one("limits.locked_memory", "unlimited", 65536, memory__total_bytes=1 << 40),
    "open-files": one("limits.open_files", 1048576, 1024),
    "stack": one("limits.stack", "unlimited", 1 << 20),
    "clock-source": one("clock.source", "tsc", "hpet"),
    "irqbalance": one("service[irqbalance]", "inactive", "active"),
    "nmi-watchdog": one("sysctl[kernel.nmi_watchdog]", 0, 1),
    "memory-uncorrected": one("memory.ecc_uncorrected", 0, 1),
    "memory-corrected": one("memory.ecc_corrected", 0, 12),
    "cgroup-cpu": one("cgroup.cpus", None, 2.5),
    "nouveau": one("module[nouveau].loaded", False, True),
    "cuda-pairing": pair("cuda.toolkit", "nvidia.cuda", ("12.4.1", "12.8"), ("13.0.0", "12.8")),
    "nccl-cuda12": one("nvidia.driver", "525.60.13", "470.82.01", **{"package[nvidia-nccl-cu12]": "2.21.5"}),
    "nccl-cuda13": one("nvidia.driver", "580.65.06", "570.124.06", **{"package[nvidia-nccl-cu13]": "2.27.7"}),
    "driver-age": one("nvidia.driver", "580.95.05", "535.183.01"),
    "fabric-manager": one("service[nvidia-fabricmanager]", "active", "inactive", **{"gpu[0].fabric.state": "Completed"}, **BARE),
    "peermem": one("module[nvidia_peermem].loaded", True, False, **{"nvidia.open": False}, **IB),
    "gdrcopy": one("module[gdrdrv].loaded", True, False, **IB),
    "container-toolkit": one("container.docker_runtimes", ["nvidia"], ["runc"], **{"service[docker]": "active"}),
    **{
        f"{kind}-pcie-{word}": pair(f"{name}.pcie.{leaf}_now", f"{name}.pcie.{leaf}_possible", (high, high), (low, high))
        for kind, name in (("net", "net[eth0]"), ("ib", PORT)) for word, leaf, low, high in (("width", "width", 8, 16), ("generation", "gen", 3, 5))
    },
    "ib-state": one(f"{PORT}.state", "ACTIVE", "DOWN"),
    "ib-rate": two("rate_bits_per_s", 400e9, 200e9, "ib", ("mlx5_0:1", "mlx5_1:1")),
    "ib-firmware": two("firmware", "28.39.1002", "28.35.1012", "ib", ("mlx5_0:1", "mlx5_1:1"), **{f"{PORT}.board": "MT_0838", "ib[mlx5_1:1].board": "MT_0838"}),
    **{
        f"ib-{leaf.replace('_', '-')}": one(f"{PORT}.{leaf}", 0, 9)
        for leaf in ("symbol_errors", "link_downed", "link_recoveries", "receive_errors", "integrity_errors", "overruns", "discards")
    },
    "net-errors": one("net[eth0].errors_rx", 0, 5, **{"net[eth0].errors_tx": 0}),
    "net-duplex": one("net[eth0].duplex", "full", "half"),
    "roce-mtu": one("net[eth0].mtu_bytes", 9000, 1500, **{"net[eth0].speed_bits_per_s": 400_000_000_000, f"{PORT}.link_layer": "Ethernet"}),
    "net-pause": pair("net[eth0].pause_rx", "net[eth0].pause_tx", (True, True), (True, False), **{f"{PORT}.link_layer": "Ethernet"}),
    "net-speed": pair("net[eth0].speed_bits_per_s", "net[eth0].speed_max_bits_per_s", (4e11, 4e11), (1e11, 4e11), **BARE),
    "nic-pending": one("nic[0000:17:00.0].pending", [], ["SRIOV_EN"]),
    "nic-write-ordering": two("write_ordering", "per_mkey", "force_relax", "nic", ("0000:17:00.0", "0000:18:00.0")),
    "cgroup-memory": one("cgroup.memory_bytes", None, 1 << 34),
    "cpus-allowed": one("cpu.allowed", 64, 8, cpu__online=64),
    "microcode-old": one("vulnerability[old_microcode]", "Not affected", "Vulnerable", **BARE),
    "microcode-equal": one("cpu.microcode", ["0x2b0"], ["0x2b0", "0x2a1"], **BARE),
    "container-reload": one(
        "container.device_links", True, False, **{"service[docker]": "active", "container.docker_runtimes": ["nvidia"]}
    ),
    "bios-above-4g": one("bios_setting[above_4g]", "Enabled", "Disabled"),
    "bios-smt": one("bios_setting[smt]", "Disabled", "Enabled"),
    "bios-profile": one("bios_setting[profile]", "PerfOptimized", "PowerSaving"),
}


def node(values: dict) -> Facts:
    return Facts(host="n", facts={name: Fact(value=value) for name, value in values.items() if value is not None})


def states(name: str, values: dict) -> set[str]:
    rule = RULES[name]
    return {one.state for one in audit.audit(node(values), {name: rule}, rule.profiles[0])} - {"not applicable"}


def test_every_rule_has_its_cases_and_there_are_at_least_60() -> None:
    growing = {name for name, rule in RULES.items() if expression.grows(expression.parse(rule.expect))}  # these have theirs in test_audit_growth
    assert set(CASES) == set(RULES) - growing
    assert len(RULES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_a_rule_passes_what_is_right_and_finds_what_is_wrong(name: str) -> None:
    good, bad = CASES[name]
    assert states(name, good) == {"pass"}
    assert states(name, bad) == {"finding"}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_nothing_where_nothing_is_known(name: str) -> None:
    assert not states(name, {}) & {"finding", "pass"} or name in ("cgroup-cpu", "cgroup-memory")  # not set is what these want


@pytest.mark.parametrize(("active", "state"), [(False, "pass"), (True, "not known"), (None, "not known")])
def test_a_gpu_in_no_iommu_group_passes_only_where_there_is_no_iommu(active: bool | None, state: str) -> None:
    assert states("iommu", {**NV, **BARE, "iommu.active": active}) == {state}


@pytest.mark.parametrize("name", ["iommu", "fabric-manager"])
def test_rules_for_x86_say_nothing_of_grace(name: str) -> None:
    assert not states(name, {**CASES[name][1], "cpu.vendor": "ARM"})


@pytest.mark.parametrize("name", [
    "acs", "iommu", "pcie-slot", "gpu-numa", "gpu-nic-numa", "node-memory", "microcode-old", "microcode-equal", "net-speed", "fabric-manager",
])
def test_a_guest_is_not_blamed_for_what_it_cannot_set(name: str) -> None:
    assert states(name, CASES[name][1]) == {"finding"}
    assert not states(name, {**CASES[name][1], "host.guest": True})


def test_a_link_wider_than_a_virtual_slot_says_it_can_be_is_no_finding() -> None:
    assert states("pcie-width", {**CASES["pcie-width"][0], "gpu[0].pcie.width_possible": 1}) == {"pass"}


def test_every_rule_names_a_source_or_says_that_there_is_none_and_only_informs() -> None:
    unsourced = {name for name, rule in RULES.items() if audit.NO_SOURCE in rule.source}
    alone = sum(RULES[name].source.startswith(audit.NO_SOURCE) for name in unsourced)
    assert {RULES[name].severity for name in unsourced} == {"info"}
    for name, rule in RULES.items():
        if name not in unsourced:
            assert re.search(r"Documentation/|\.(com|org)\b|MLNX2-", rule.source), name
    assert audit.sources(RULES) == {"published": len(RULES) - len(unsourced), "in part": len(unsourced) - alone, "common practice": alone}


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if re.search(r"\d", rule.effect)])
def test_a_figure_of_an_effect_has_a_published_source(name: str) -> None:
    assert audit.NO_SOURCE not in RULES[name].source


def test_a_finding_says_what_is_set_and_fills_in_the_command() -> None:
    found = audit.audit(node(CASES["power-cap"][1]), {"power-cap": RULES["power-cap"]}, "bench")
    (finding,) = [one.finding for one in found]
    assert finding is not None
    assert finding.action == "nvidia-smi -i 0000:17:00.0 -pl 700"
    assert "gpu[0].power.limit_w is 500" in finding.detail


def test_a_command_names_the_facts_that_it_has_not() -> None:
    rule = msgspec.structs.replace(RULES["power-cap"], fix="set {gpu.address} to {no.such}")
    (found,) = audit.audit(node(CASES["power-cap"][1]), {"power-cap": rule}, "bench")
    assert found.finding is not None
    assert found.finding.action == "set 0000:17:00.0 to <no.such: not known here>"


def test_a_fleet_is_told_in_units() -> None:
    sizes = [8589934592, 25276514304, 25276514304, 25276514304]
    nodes = {f"n{n}": Facts(host=f"n{n}", facts={"memory.total_bytes": Fact(value=size, unit="B")}) for n, size in enumerate(sizes)}
    found = odd.compare(nodes)
    assert [one.unit for one in found.odd] == ["B"]
    text = printing.fleet(found, 100)
    assert "25.3 GB" in text or "23.5 GiB" in text
    assert "25276514304" not in text
    text = printing.groups(odd.against({"a": nodes["n0"]}, {"b": nodes["n1"]}), 100)
    assert "25276514304" not in text


def test_a_node_without_a_gpu_is_said_to_be_no_pass() -> None:
    said = "no GPU found: its rules were skipped and do not count as passed"
    for facts, there in ((node({"kernel.release": "6.1"}), True), (node(CASES["power-cap"][1]), False)):
        assert (said in printing.audit(facts, "bench", audit.audit(facts, RULES, "bench"), RULES, 200)) == there


FACTS = {"a": Fact(value=3), "b": Fact(status="denied", reason="no permission"), "u": Fact(value="unlimited"), "x[0].v": Fact(value=1), "x[1].v": Fact(value=2)}


@pytest.mark.parametrize(("text", "answer"), [
    ("a == 3 and not (a > 4)", True), ("a + 2 * 3 == 9", True), ("a < 2 or a >= 3", True), ("u > 64 GiB", True), ("a in [1, 2]", False),
    ("b == 1 and a == 4", False), ("b == 1 or a == 3", True), ("x[*].v > 0", True), ("any(x[*].v == 2)", True), ("any(y[*].v == 2)", False),
    ("same(x[*].v)", False), ("count(x[*].v) == 2", True), ('version("12.10") > version("12.9")', True), ("exists(a) and not exists(zz)", True),
    ("a not in [1]", True), ("max(x[*].v) == 2", True),
])
def test_expressions(text: str, answer: bool) -> None:
    assert expression.evaluate(expression.parse(text), Scope(FACTS)) is answer


@pytest.mark.parametrize("text", ["b == 1", "exists(b)", "zz > 1", "a / 0 == 1", 'a < "x"', "a == 3 and b == 1"])
def test_what_cannot_be_told_is_unknown(text: str) -> None:
    assert isinstance(expression.evaluate(expression.parse(text), Scope(FACTS)), Unknown)


@pytest.mark.parametrize("text", ["a ==", "a == = 3", "__import__('os')", "a.b(1)", "(a", "a b", "$", "(" * 60 + "a" + ")" * 60, ""])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        expression.parse(text)


GOOD = "title='t'\nexpect='a == 1'\nshould='s'\nbecause='b'\neffect='e'\nfix='f'\nsource='s'\n"


@pytest.mark.parametrize(("text", "says"), [
    ("[rule.x]\n" + GOOD + "wehn='a'", "rule x: there is no key 'wehn'; did you mean 'when'"),
    ("[rule.x]\ntitle='t'", "rule x: 'expect' is missing"),
    ("[rule.x]\n" + GOOD.replace("a == 1", "a == "), "rule x: expect: a value is missing"),
    ("[rule.x]\n" + GOOD + "each='gpu[0]'", "each: 'gpu[0]' is no family"),
    ("[rule.x]\n" + GOOD.replace("a == 1", "exists(3)"), "exists() wants the name of one fact"),
    ("[rule.x]\n" + GOOD + "severity='fatal'", "there is no severity 'fatal'"),
    ("[rule.x]\n" + GOOD + "profiles=['gaming']", "'profiles' is a list of bench"),
    ("[rule.x]\n" + GOOD + "[rule.x.growth]\nexpect='a == 1'", "rule x: growth: expect: it asks for no growth"),
    ("[rule.x]\n" + GOOD + "[rule.x.growth]\nwhen='a == 1'", "growth: a table with 'expect'"),
    ("[rule.x]\n" + GOOD + "[rule.x.growth]\nexpect='growth(a) == 0'\nfix='x'", "growth: there is no key 'fix'"),
    ("[rule.x]\n" + GOOD.replace("a == 1", "growth(x[*].v) == 0"), "growth() wants the name of one counter"),
    ("x = ", "not TOML"), ("", "holds tables [rule.NAME]"), ("[rule]\nx = 3", "not a table"),
])
def test_a_broken_file_of_rules_is_one_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=r"^mine\.toml: ") as error:
        audit.read(text, "mine.toml")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_numbers_of_rules_and_outcomes_are_told_apart() -> None:
    """A rule that is asked of every GPU has an outcome for each: the tally's sum is more than the rules."""
    known = {f"gpu[{n}].{leaf}": value for n in range(4) for leaf, value in (("vendor", "nvidia"), ("driver", "nvidia"))}
    node = Facts(host="a", arch="x86_64", taken="", facts={name: Fact(value=value) for name, value in known.items()})
    outcomes = audit.audit(node, RULES, "bench")
    text = printing.audit(node, "bench", outcomes, RULES, 120)
    asked = len({outcome.rule for outcome in outcomes})
    assert asked < len(outcomes)
    assert f"profile bench, {asked} of {len(RULES)} rules" in text
    assert f"{len(outcomes)} outcomes of {asked} rules" in text
    tally = next(line for line in text.splitlines() if " passed, " in line)
    assert sum(int(number) for number in re.findall(r"(\d+) (?:findings?\b|passed|not known|not applicable)", tally)) == len(outcomes)

"""Facts that BMCs know, read live: many nodes, version drift, what fails, and secrets that stay secret."""

import json

import pytest

pytest.importorskip("aiohttp", reason="the extra bmc is not installed")
pytest.importorskip("trustme", reason="trustme is not installed; it is in the extra test")

from tests.nodes.bmc_server import Server

from hotlap import cli
from hotlap.nodes.inspect import bmc
from hotlap.nodes.sensors import bmc_file

R = "/redfish/v1"
SECRET = "hunter2-secret"


def to(path):
    return {"@odata.id": f"{R}/{path}"}


def service(version="1.2.3"):
    resources = {
        "": {"Systems": to("Systems"), "Managers": to("Managers"), "UpdateService": to("UpdateService"), "Links": {"Sessions": to("S")}},
        "Systems": {"Members": [to("Systems/1")]},
        "Systems/1": {"@odata.type": "#ComputerSystem.v1_2_0.ComputerSystem", "Id": "1", "Model": "GB", "SerialNumber": "S964512X", "BiosVersion": "2.1 ", "PowerState": "On", "Bios": to("Systems/1/Bios")},
        "Systems/1/Bios": {"@odata.type": "#Bios.v1_2_0.Bios", "Id": "BIOS", "Attributes": {"SRIOVSupport": "Enabled", "AdminPassword": "geheim", "Above4GDecoding": "Disabled"}},
        "Managers": {"Members": [to("Managers/BMC_0")]},
        "Managers/BMC_0": {"@odata.type": "#Manager.v1_2_0.Manager", "Id": "BMC_0", "FirmwareVersion": "70.01"},
        "UpdateService": {"FirmwareInventory": to("UpdateService/FirmwareInventory")},
        "UpdateService/FirmwareInventory": {"Members": [to("UpdateService/FirmwareInventory/GPU_0"), to("UpdateService/FirmwareInventory/Gone")]},
        "UpdateService/FirmwareInventory/GPU_0": {"@odata.type": "#SoftwareInventory.v1_4_0.SoftwareInventory", "Id": "GPU_0", "Version": version},
    }  # fmt: skip
    paths = {f"{R}/{path}".rstrip("/"): body for path, body in resources.items()}
    return {path: json.dumps({"@odata.id": path, **body}).encode() for path, body in paths.items()}


@pytest.fixture
def rack(tmp_path):
    """Four BMCs, the third with another firmware; `bmcs.toml` names them and one that is dead."""
    servers = []
    text = '[[bmc]]\nurl = "https://127.0.0.1:1"\nname = "dead"\n'
    secret = tmp_path / "secret.toml"
    secret.write_text(f'user = "root"\npassword = "{SECRET}"')
    secret.chmod(0o600)
    for n in range(4):
        folder = tmp_path / f"tls{n}"
        folder.mkdir()
        servers.append(Server(service("1.2.4" if n == 2 else "1.2.3"), "root", SECRET, folder).__enter__())
        text += f'[[bmc]]\nurl = "{servers[-1].url}"\nname = "n{n}"\ncafile = "tls{n}/ca.pem"\ncredentials = "secret.toml"\n'
    (tmp_path / "bmcs.toml").write_text(text)
    yield tmp_path, servers
    for one in servers:
        one.__exit__()


@pytest.mark.slow("audits whole fleets")
def test_version_drift_across_nodes_is_found(rack, capsys):
    folder, servers = rack
    into = folder / "facts"
    into.mkdir()
    assert cli.main(["node", "inspect", "--bmc", str(folder / "bmcs.toml"), "--into", str(into)]) == 0
    caught = capsys.readouterr()
    assert "left out: dead: no connection to" in caught.err
    assert sorted(file.name for file in into.iterdir()) == ["n0.json", "n1.json", "n2.json", "n3.json"]
    kept = "".join(file.read_text() for file in into.iterdir())
    assert not [word for word in (SECRET, "token", "geheim", "S964512X") if word in kept + caught.out + caught.err]
    assert all(("DELETE", f"{R}/SessionService/Sessions/1") in one.asked for one in servers), "a BMC has few sessions"
    assert cli.main(["node", "audit", "--fleet", str(into), "--json"]) == 1
    (odd,) = json.loads(capsys.readouterr().out)["odd"]
    assert (odd["fact"], odd["kind"], odd["majority"], odd["nodes"]) == ("firmware[GPU_0]", "version", "1.2.3", {"n2": "1.2.4"})


def test_the_facts_of_one(rack):
    folder, servers = rack
    end = bmc_file.Endpoint(servers[0].url, "n0", bmc_file.Credentials("root", SECRET), str(folder / "tls0" / "ca.pem"))
    found, failed = bmc.read([end], identifiers=True)
    known = {name: fact.value for name, fact in found["n0"].facts.items() if fact.status == "ok"}
    assert known == {
        "system[1].model": "GB", "system[1].bios_version": "2.1", "system[1].power_state": "On", "system[1].serial": "S964512X",
        "bios[Above4GDecoding]": "Disabled", "bios[SRIOVSupport]": "Enabled", "bios_setting[above_4g]": "Disabled", "bios_setting[sriov]": "Enabled",
        "manager[BMC_0].firmware_version": "70.01", "firmware[GPU_0]": "1.2.3",
    }  # fmt: skip
    assert not failed


@pytest.mark.slow("audits whole fleets")
def test_a_node_with_its_own_bmc_is_audited(rack, capsys):
    folder, servers = rack
    own = folder / "own.toml"
    own.write_text(f'[[bmc]]\nurl = "{servers[1].url}"\nname = "n1"\ncafile = "tls1/ca.pem"\ncredentials = "secret.toml"\n')
    assert cli.main(["node", "audit", "--redfish", str(own), "--json"]) in (0, 1)
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert any(one["rule"] == "bios-above-4g" for one in outcomes)


def test_bad_input_is_one_line(rack, capsys):
    folder, servers = rack
    file = str(folder / "bmcs.toml")
    for words, said in (
        (["--bmc", file, "--root", str(folder)], "takes no --root"),
        (["--bmc", file, "--into", str(folder / "none")], "there is no folder"),
        (["--into", str(folder)], "--into is for --bmc"),
        (["--bmc", str(folder / "none.toml")], "cannot be read as a list of BMCs"),
        (["--redfish", file], "names 5 BMCs"),
    ):
        assert cli.main(["node", "inspect", *words]) == 2, words
        assert said in capsys.readouterr().err.splitlines()[-1]
    servers[0].password = "changed"
    (folder / "one.toml").write_text(file_of(servers[0], folder))
    assert cli.main(["node", "inspect", "--bmc", str(folder / "one.toml")]) == 3
    said = capsys.readouterr().err
    assert "n0: the BMC refuses the user or the password" in said
    assert SECRET not in said


def file_of(server, folder):
    return f'[[bmc]]\nurl = "{server.url}"\nname = "n0"\ncafile = "{folder}/tls0/ca.pem"\ncredentials = "secret.toml"\n'

"""BMCs against sushy-tools' emulator, which others wrote: its fake driver, over TLS, with a password for each request."""

import json
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("aiohttp", reason="the extra bmc is not installed")
pytest.importorskip("sushy_tools", reason="sushy-tools is not installed; it is in the extra test")
pytest.importorskip("trustme", reason="trustme is not installed; it is in the extra test")

import bcrypt
import trustme

from hotlap import cli

PASSWORD = "hunter2-secret"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    """Folder with bmcs.toml, ca.pem and secret.toml of an emulator that runs."""
    folder = tmp_path_factory.mktemp("emulator")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    server = authority.issue_cert("127.0.0.1")
    server.private_key_pem.write_to_path(str(folder / "key.pem"))
    server.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    (folder / "users").write_bytes(b"root:" + bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).replace(b"$2b$", b"$2y$"))
    (folder / "config.py").write_text(f"SUSHY_EMULATOR_AUTH_FILE = {str(folder / 'users')!r}\nSUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--fake", "-i", "127.0.0.1", "-p", str(port), "--config", "config.py", "--ssl-certificate", "cert.pem", "--ssl-key", "key.pem"]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([sys.executable, "-m", "sushy_tools.emulator.main", *words], cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert running.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        (folder / "secret.toml").write_text(f'user = "root"\npassword = "{PASSWORD}"')
        (folder / "secret.toml").chmod(0o600)
        (folder / "bmcs.toml").write_text(
            f'[[bmc]]\nurl = "https://127.0.0.1:{port}"\nname = "fake1"\ncafile = "ca.pem"\ncredentials = "secret.toml"\n'
        )
        yield folder
    finally:
        running.kill()
        running.wait()


def test_its_chassis_is_watched(emulator, tmp_path, capsys):
    kept = tmp_path / "r.jsonl"
    assert cli.main(["node", "watch", "--bmc", str(emulator / "bmcs.toml"), "--every", "0.5 s", "--for", "3 s", "--to", f"lines:{kept}"]) == 0
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    by = {(row["sensor"], row.get("value")) for row in rows if "sensor" in row}  # the first line says what is watched
    assert ("temperature_c.cpu_temp", 41.0) in by
    assert ("temperature_c.chassis_intake_temp", 25.0) in by
    caught = capsys.readouterr()
    assert PASSWORD not in caught.out + caught.err + kept.read_text()


def test_its_facts_are_read(emulator, capsys):
    assert cli.main(["node", "inspect", "--bmc", str(emulator / "bmcs.toml"), "--json"]) == 0
    text = capsys.readouterr().out
    (facts,) = json.loads(text)["nodes"]
    assert facts["host"] == "fake1"
    known = {name: fact["value"] for name, fact in facts["facts"].items() if fact["status"] == "ok"}
    assert known["system[0].manufacturer"] == "Sushy Emulator"
    assert known["system[0].power_state"] in ("On", "Off")
    assert known["manager[0].firmware_version"] == "1.00"
    assert "27946b59" not in text, "its ids are UUIDs, which are not kept"
    assert PASSWORD not in text


@pytest.mark.slow("a process of its own")
def test_a_wrong_password_is_named(emulator, tmp_path, capsys):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('user = "root"\npassword = "another-secret"')
    wrong.chmod(0o600)
    (tmp_path / "bmcs.toml").write_text(
        (emulator / "bmcs.toml").read_text().replace("secret.toml", str(wrong)).replace("ca.pem", str(emulator / "ca.pem"))
    )
    assert cli.main(["node", "inspect", "--bmc", str(tmp_path / "bmcs.toml")]) == 3
    said = capsys.readouterr().err
    assert "fake1: the BMC refuses the user or the password" in said
    assert "another" not in said

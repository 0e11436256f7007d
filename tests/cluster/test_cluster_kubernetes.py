"""Campaigns by Kubernetes: the manifest, and the pods' own command run here in processes. No API server is seen."""

from __future__ import annotations

import ast
import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.cluster import folder, member_pod, taking
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import kubernetes


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def states(home: Path) -> dict[str, tuple[str, int, str]]:
    return {state.member: (state.state, state.attempt, state.why) for state in newest(home).states(time.time())}


def begun(home: Path, tmp_path: Path, *what: str, results: str = "records", pods: int = 3) -> tuple[dict[str, Any], Path]:
    """The Job of a campaign that was begun, and a folder that looks to a pod like what its ConfigMap is mounted as."""
    out = tmp_path / "job.yaml"
    words = ["--kubernetes", str(out), "--pods", str(pods), "--image", "python:3.12-slim", "--results", results, "--python", sys.executable]
    assert main(["cluster", "run", *words, *what]) == 0
    kept = newest(home)
    options = kubernetes.PodOptions(**kept.campaign.options)
    config, job = kubernetes.manifest(kept.campaign, options)
    assert out.read_text() == kubernetes.yaml([config, job])
    (tmp_path / "sources").mkdir()
    for name, text in config["data"].items():
        (tmp_path / "sources" / name).write_text(text)
    return job, out


def pod(tmp_path: Path, job: dict[str, Any], index: int, name: str, **surroundings: str) -> subprocess.CompletedProcess[str]:
    """The command of the Job's container, with what Kubernetes would set and mount."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command = [word.replace(kubernetes.LEFT["sources"], str(tmp_path / "sources")) for word in container["command"]]
    given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    given |= {"JOB_COMPLETION_INDEX": str(index), "HOTLAP_POD": name, "HOTLAP_NODE": f"node{index}"} | surroundings
    return subprocess.run(command, env={"PATH": os.environ["PATH"]} | given, capture_output=True, text=True, timeout=120)


@pytest.mark.slow("four processes of agents")
def test_pods_leave_records_on_a_volume_and_collect_reads_each_once(home: Path, tmp_path: Path) -> None:
    script = "echo {member} {index} of {members} $HOTLAP_MEMBER; test {index} != 1 || test -e " + str(tmp_path / "again")
    job, _ = begun(home, tmp_path, "--rounds", "2", "--", "sh", "-c", script)
    volume = tmp_path / "volume"
    volume.mkdir()
    for index in (0, 1):
        assert pod(tmp_path, job, index, f"hotlap-{index}-x", HOTLAP_RESULTS=str(volume)).returncode == 0
    assert main(["cluster", "collect", "--from", str(volume)]) == 3
    kept = newest(home)
    assert {member: known[:2] for member, known in states(home).items()} == {
        "pod00": ("measured", 1), "pod01": ("died", 1), "pod02": ("never started", 0),
    }  # fmt: skip
    assert (kept.attempt(1, "pod00", 1) / "stdout").read_text() == "pod00 0 of 3 pod00\n" * 2
    assert kept.members()[0].identity.key == "machine-id node node0"  # type: ignore[union-attr]
    before = (kept.path / "events.jsonl").read_bytes()
    assert main(["cluster", "collect", "--from", str(volume)]) == 3
    assert (kept.path / "events.jsonl").read_bytes() == before  # a record counts once
    (tmp_path / "again").touch()
    for index, name in ((1, "hotlap-1-replaced"), (2, "hotlap-2-x"), (0, "hotlap-0-replaced")):
        assert pod(tmp_path, job, index, name, HOTLAP_RESULTS=str(volume)).returncode == 0
    assert main(["cluster", "collect", "--from", str(volume)]) == 0
    assert {member: known[:2] for member, known in states(home).items()} == {
        "pod00": ("measured", 1), "pod01": ("measured", 2), "pod02": ("measured", 1),
    }  # fmt: skip


@pytest.mark.slow("two processes of agents")
def test_records_by_put_with_the_token_which_stands_nowhere_else(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, out = begun(home, tmp_path, "--", "sh", "-c", "echo {member}", results="http://127.0.0.1:1/", pods=2)
    token = out.with_suffix(".token").read_text()
    assert out.with_suffix(".token").stat().st_mode & 0o777 == 0o600
    kept = newest(home)
    taker = taking.RecordTaker(tmp_path, token.encode(), 2)
    server = taking.server("127.0.0.1", 0, taker)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for index in (0, 1):
        done = pod(tmp_path, job, index, f"p{index}", HOTLAP_PUT=url, HOTLAP_TOKEN_FILE=str(out.with_suffix(".token")))
        assert done.returncode == 0, done.stderr
    (tmp_path / "wrong").write_text("another token of many characters")
    strange = pod(tmp_path, job, 0, "p9", HOTLAP_PUT=url, HOTLAP_TOKEN_FILE=str(tmp_path / "wrong"))
    assert strange.returncode == 1
    assert "401 another token" in strange.stderr
    server.shutdown()
    server.server_close()
    assert sorted(path.name for path in tmp_path.glob("*.frames")) == ["0-p0.frames", "1-p1.frames"]
    assert main(["cluster", "collect", "--from", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    everything = [printed.out, printed.err, out.read_text(), *(path.read_text(errors="replace") for path in kept.path.rglob("*") if path.is_file())]
    assert not any(token in text for text in everything)


@pytest.mark.parametrize(
    ("name", "authorization", "length", "status"),
    [
        ("0-p.frames", "Bearer nothing", "4", 401), ("0-p.frames", "", "4", 401), ("7-p.frames", "Bearer secret", "4", 404),
        ("0-../../p.frames", "Bearer secret", "4", 404), ("..%2fp", "Bearer secret", "4", 404), ("0-p.frames", "Bearer secret", "x", 411),
        ("0-p.frames", "Bearer secret", str(1 << 40), 413), ("0-there.frames", "Bearer secret", "4", 409), ("1-p.frames", "Bearer secret", "4", 201),
    ],
)  # fmt: skip
def test_what_is_put_is_checked(tmp_path: Path, name: str, authorization: str, length: str, status: int) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "0-there.frames").write_bytes(b"old")
    server = taking.server("127.0.0.1", 0, taking.RecordTaker(place, b"secret", 2))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    connection.putrequest("PUT", f"/{name}")
    for key, value in (("Authorization", authorization), ("Content-Length", length)):
        connection.putheader(key, value)
    connection.endheaders(b"data" if status == 201 else None)
    assert connection.getresponse().status == status
    connection.close()
    server.shutdown()
    server.server_close()
    assert (place / "0-there.frames").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["0-there.frames", *(["1-p.frames"] if status == 201 else [])]


def test_a_record_that_ends_early_or_lies_gives_no_result(home: Path, tmp_path: Path) -> None:
    job, _ = begun(home, tmp_path, "--", "sh", "-c", "head -c 300000 /dev/urandom")
    volume = tmp_path / "volume"
    volume.mkdir()
    assert pod(tmp_path, job, 0, "p", HOTLAP_RESULTS=str(volume)).returncode == 0
    whole = (volume / "0-p.frames").read_bytes()
    (volume / "0-p.frames").write_bytes(whole[:200_000])
    (volume / "1-p.frames").write_bytes(whole)  # of another index
    (volume / "2-p.frames").write_bytes(b"\0" * 5000)
    assert main(["cluster", "collect", "--from", str(volume)]) == 3
    known = states(home)
    assert known["pod00"] == ("died", 1, "the way to its agent was lost: the record of its pod ends here")
    assert known["pod01"][0] == "refused"
    assert known["pod01"][2].startswith("its record is of index 0 of")
    assert known["pod02"][0] == "never started"


def test_the_manifest_keeps_failures_apart_and_names_no_secret(home: Path, tmp_path: Path) -> None:
    job, _ = begun(home, tmp_path, "--timeout", "10 min", "--gpus", "8", "--", "true", results="https://collector.example/x", pods=64)
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == ("Indexed", 64, 64, 0)
    assert (spec["maxFailedIndexes"], spec["podReplacementPolicy"], spec["activeDeadlineSeconds"]) == (64, "Failed", 600 + 3600)
    given = spec["template"]["spec"]
    (container,) = given["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    (apart,) = given["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert {"name": "token", "secret": {"secretName": job["metadata"]["name"], "defaultMode": 0o400}} in given["volumes"]
    assert given["restartPolicy"] == "Never"


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl here")
def test_kubectl_reads_the_manifest_as_it_was_meant(home: Path, tmp_path: Path) -> None:
    """By `kustomize` and `patch --local`, which need no API server: each text of the ConfigMap comes back as it was."""
    _, out = begun(home, tmp_path, "--", "sh", "-c", "printf '%s\\n' \"a: b\" '- #x' && echo ünï\ttab")
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{out.name}]\n")
    done = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    config, _ = kubernetes.manifest(newest(home).campaign, kubernetes.PodOptions(**newest(home).campaign.options))
    for name in ("member_pod.py", "agent.py", "campaign.json"):
        field = "{.data['" + name.replace(".", "\\.") + "']}"
        words = ["kubectl", "patch", "--local", "-f", str(out), "--type=merge", "-p", "{}", "-o", f"jsonpath={field}"]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout == config["data"][name]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--image", "x", "--results", "r"], "--pods is a number from 1"), (["--pods", "2", "--results", "r"], "--image NAME says"),
        (["--pods", "2", "--image", "x"], "--results is the name of a PersistentVolumeClaim"),
        (["--pods", "2", "--image", "x", "--results", "r", "--gang", "2"], "pods are told of no rendezvous"),
        (["--local", "2"], "--local and --kubernetes are given: give one of them"),
    ],
)  # fmt: skip
def test_bad_input_leaves_no_campaign(home: Path, tmp_path: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "--kubernetes", str(tmp_path / "out.yaml"), *words, "--", "true"]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out.yaml").exists()
    assert not (home / "runs").exists()


def test_collect_says_what_it_cannot_take(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(home, tmp_path, "--", "true")
    for words, text in (
        (["collect", "--from", str(tmp_path / "nowhere")], "there is no folder"), (["collect", "--serve", "8080"], "--serve is HOST:PORT"),
        (["collect", "--serve", "127.0.0.1:0", "--token-file", str(tmp_path / "no")], "cannot be read"), (["resume"], "pods run again by kubectl"),
    ):  # fmt: skip
        assert main(["cluster", *words]) == 2
        assert text in capsys.readouterr().err
    (tmp_path / "wrong").mkdir()
    for _ in range(2):  # the second time nothing more is kept of it
        assert main(["cluster", "collect", "--from", str(tmp_path / "wrong")]) == 3
        out = capsys.readouterr().out
        assert "no record of it is in" in out
        assert "kubectl apply -f" in out
    assert len(newest(home).events()) == 3
    assert main(["cluster", "stop", "--json"]) == 3
    assert "kubectl delete job" in json.loads(capsys.readouterr().out)["unseen"]["its pods"]


def test_what_a_pod_runs_is_of_python_3_9_and_the_standard_library() -> None:
    tree = ast.parse(Path(member_pod.__file__).read_text(), feature_version=(3, 9))
    imported = {alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)

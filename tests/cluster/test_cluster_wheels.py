"""Hotlap is sent to members that lack it, with what it needs: which wheels fit, what becomes of broken ones, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import hotlap
from hotlap.cli import main
from hotlap.cluster import folder, member_zips, parcel
from hotlap.cluster.record import MemberState
from hotlap.core.store import bundle as bundles


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path / "home"


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python of this version that has no package at all."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return str(tmp_path / "bare" / "bin" / "python")


def states(home: Path) -> list[MemberState]:
    return folder.load(max((home / "runs").iterdir())).states(time.time())


PLAN = 'schema = 1\nname = "small"\n[measure]\nrounds = 2\nrounds_max = 2\nround_time = "0.1 s"\n[[case]]\nworkload = "chase"\nsize = "1 MiB"\n'


@pytest.mark.slow("NumPy is packed, sent and unpacked")
def test_a_plan_runs_on_members_that_have_nothing_but_python(home: Path, bare: str, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(PLAN)
    words = ["cluster", "run", str(tmp_path / "small.toml"), "--local", "2", "--target", "simulated:h200-sxm?seed={index}"]
    assert main([*words, "--python", bare]) == 0
    (kept,) = (tmp_path / "cache" / "hotlap-agent").iterdir()
    assert not list(home.rglob("wheels"))
    there = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert main([*words, "--python", bare]) == 0  # what is there is not sent again
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == there
    assert main(words) == 0
    sent, again, here = (
        [(one.case, one.round, one.values) for one in bundles.load(path).samples] for path in sorted((home / "runs").iterdir())
    )
    assert sent == again == here
    assert len(here) == 4


def test_a_broken_wheel_is_refused_by_its_name(home: Path, bare: str, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "numpy-99.0-cp{0}{1}-cp{0}{1}-linux_{2}.whl".format(*sys.version_info[:2], os.uname().machine)).write_bytes(b"no zip")
    (wheels / "other-1.0-py2-none-any.whl").write_bytes(b"fits nobody, and nobody needs it")
    assert main(["cluster", "run", "node", "inspect", "--local", "1", "--python", bare, "--wheels", str(wheels)]) == 3
    (state,) = states(home)
    assert state.state == "refused"
    assert "numpy-99.0" in state.why
    assert "is no wheel" in state.why


def test_hotlap_packs_itself_as_a_wheel_that_runs(tmp_path: Path) -> None:
    wheel = next(path for path in parcel.built(tmp_path) if path.name.startswith("hotlap-"))
    assert wheel.name == f"hotlap-{hotlap.__version__}-py3-none-any.whl"
    inside = zipfile.ZipFile(wheel).namelist()
    assert "hotlap/core/record.py" in inside
    assert not any(name.endswith(".pyc") for name in inside)
    first = wheel.read_bytes()
    assert parcel.built(tmp_path)[0].read_bytes() == first  # its digest depends on the files alone
    assert parcel._needed("hotlap") >= {"numpy", "msgspec"}


GLIBC = (2, 36)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("x-1-py3-none-any.whl", True), ("x-1-py2.py3-none-any.whl", True), ("x-1-py2-none-any.whl", False), ("x-1-py312-none-any.whl", False),
        ("x-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True), ("x-1-cp311-cp311-manylinux2014_x86_64.whl", True),
        ("x-1-cp311-cp311-manylinux_2_39_x86_64.whl", False), ("x-1-cp310-cp310-manylinux2014_x86_64.whl", False),
        ("x-1-cp39-abi3-manylinux2014_x86_64.whl", True), ("x-1-cp313-abi3-manylinux2014_x86_64.whl", False),
        ("x-1-cp311-cp311-manylinux2014_aarch64.whl", False), ("x-1-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("x-1-cp311-cp311-win_amd64.whl", False), ("x-1-7-cp311-cp311-linux_x86_64.whl", True), ("x-1.tar.gz", False), ("x.whl", False),
    ],
)  # fmt: skip
def test_which_wheels_fit(name: str, fits: bool) -> None:
    assert bool(member_zips.suits(name, (3, 11), "x86_64", GLIBC)) == fits


def test_which_wheels_fit_as_packaging_has_it() -> None:
    """Every tag that packaging accepts here fits, and the order of two tags is never the other way round between its own and general ones."""
    tags = pytest.importorskip("packaging.tags")
    machine, glibc, version = os.uname().machine, member_zips.c_library(), sys.version_info[:2]
    accepted = [tag for tag in tags.sys_tags() if "linux" in tag.platform or tag.platform == "any"]
    unlike = [str(tag) for tag in accepted if not member_zips.suits(f"x-1-{tag}.whl", version, machine, glibc)]
    assert [tag for tag in unlike if not tag.startswith(("pp", "cp")) and "-none-" in tag] == []
    assert [tag for tag in unlike if tag.startswith(f"cp{version[0]}{version[1]}-")] == []


def test_an_old_python_is_refused_and_a_wheel_that_is_lacking_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    only = [{"name": "numpy-2-cp99-cp99-win32.whl", "needed": True, "digest": "", "size": 0}]
    with pytest.raises(member_zips.UnfitError, match=r"no wheel of numpy .* put one into a folder for --wheels"):
        member_zips.chosen(only)
    monkeypatch.setattr(member_zips.sys, "version_info", (3, 9, 2))
    with pytest.raises(member_zips.UnfitError, match=r"Python 3.9 is there, plans need 3.11: name another by --python"):
        member_zips.chosen([])


def test_names_within_a_wheel_lead_nowhere_and_data_is_put_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w") as archive:
        archive.writestr("../../evil", "x")
        archive.writestr("x-1.data/purelib/x/__init__.py", "y = 1\n")
    member_zips.unpack([str(tmp_path / "x-1-py3-none-any.whl")], str(tmp_path / "in" / "env"))
    assert (tmp_path / "in" / "env" / "x" / "__init__.py").read_text() == "y = 1\n"
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path.parent / "evil").exists()
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["env"]

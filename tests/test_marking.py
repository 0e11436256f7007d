"""hotlap.marker: levels, what is emitted, and that nothing is while it is off."""

from __future__ import annotations

import subprocess
import sys
import threading
import types

import pytest

import hotlap
from hotlap.core.errors import InputError
from hotlap.traces import marking
from hotlap.traces.marking import Marker


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a profiler is told, through a package nvtx of the test's own."""
    told: list[str] = []
    fake = types.ModuleType("nvtx")
    fake.push_range = lambda name: told.append(f"+{name}")  # type: ignore[attr-defined]
    fake.pop_range = lambda: told.append("-")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return told


def test_levels_decide_what_is_emitted(said: list[str]) -> None:
    marker = Marker()
    for level, expected in (("off", 0), ("coarse", 1), ("fine", 2), ("all", 3)):
        marker.level = level
        said.clear()
        for one in ("coarse", "fine", "all"):
            with marker(one, level=one):
                pass
        assert len(said) == 2 * expected, level
        assert marker.level == level


def test_ranges_nest_recur_and_close_on_errors(said: list[str]) -> None:
    marker = Marker("all")
    with marker("a"), marker("b"), marker("a"):
        pass
    with pytest.raises(KeyError), marker("c"):
        raise KeyError
    assert said == ["+a", "+b", "+a", "-", "-", "-", "+c", "-"]
    assert not any(one.opened for ranges in marker.kept.values() for one in ranges.values())


def test_a_function_is_marked_on_every_call_also_when_the_level_comes_later(said: list[str]) -> None:
    marker = Marker()

    @marker("work", level="fine")
    def work(x: int) -> int:
        """Says what it does."""
        return x + 1

    assert (work(1), said) == (2, [])
    assert work.__name__ == "work"
    assert work.__doc__ == "Says what it does."
    marker.level = "fine"
    assert (work(2), said) == (3, ["+work", "-"])


def test_a_range_made_before_the_level_changes_follows_it(said: list[str]) -> None:
    marker = Marker()
    held = marker("held")
    with held:
        marker.level = "all"  # opened while off: nothing to close
    assert said == []
    with held:
        marker.level = "off"  # opened while on: closed all the same
    assert said == ["+held", "-"]
    with held:
        pass
    marker.level = "coarse"
    with held:
        pass
    assert said == ["+held", "-"] * 2


def test_threads_do_not_close_each_others_ranges(said: list[str]) -> None:
    marker = Marker("all")
    one = marker("one")
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with one:
        pass
    assert list(one.opened) == [thread.ident]
    leave.set()
    thread.join()
    assert one.opened == {}
    assert said == ["+one", "+one", "-", "-"]


def test_more_names_than_are_kept_still_work(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marking, "MOST_KEPT", 2)
    marker = Marker("all")
    for i in range(4):
        with marker(f"n{i}"):
            pass
    assert len(marker.kept["coarse"]) == 2
    assert said == ["+n0", "-", "+n1", "-", "+n2", "-", "+n3", "-"]


def test_wrong_levels_are_refused_with_what_is_valid() -> None:
    marker = Marker()
    with pytest.raises(InputError, match=r"'corse'; did you mean 'coarse'\?"):
        marker("x", level="corse")
    with pytest.raises(InputError, match="a marker's level is not 'off'"):
        marker("x", level="off")
    with pytest.raises(InputError, match=r"no level 'everything' of markers.*valid: all, coarse, fine, off"):
        marker.level = "everything"


def test_the_environment_sets_the_level_and_a_wrong_one_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MARKERS", "Fine")
    assert marking.from_environment().level == "fine"
    monkeypatch.setenv("HOTLAP_MARKERS", "fien")
    with pytest.warns(UserWarning, match="valid: off, coarse, fine, all"):
        assert marking.from_environment().level == "off"
    monkeypatch.delenv("HOTLAP_MARKERS")
    assert marking.from_environment().level == "off"


def test_roctx_and_torch_nvtx_where_nvtx_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setitem(sys.modules, "nvtx", None)
    roctx = types.ModuleType("roctx")
    roctx.rangePush, roctx.rangePop = (lambda name: told.append(f"roctx {name}")), (lambda: told.append("end"))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "roctx", roctx)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with Marker("all")("a"):
        pass
    monkeypatch.setitem(sys.modules, "roctx", None)
    torch = types.SimpleNamespace(
        version=types.SimpleNamespace(cuda="13.0", hip=None),
        cuda=types.SimpleNamespace(
            nvtx=types.SimpleNamespace(range_push=lambda name: told.append(f"torch {name}"), range_pop=lambda: told.append("end"))
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    with Marker("all")("b"):
        pass
    torch.version.cuda = None  # a build for the CPU
    with Marker("all")("c"):
        pass
    assert told == ["roctx a", "end", "torch b", "end"]


def test_the_public_name_is_the_marker_and_imports_no_torch() -> None:
    assert hotlap.marker is marking.marker
    code = "import sys, hotlap\nwith hotlap.marker('x'): pass\nassert len([one for one in sys.modules if one.partition('.')[0] == 'hotlap']) <= 3, sys.modules\nprint('torch' in sys.modules, 'numpy' in sys.modules, hotlap.marker.level)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"HOTLAP_MARKERS": "all", "PATH": ""}, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["False", "False", "all"]


def test_pytorch_records_the_range() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    marker = Marker("coarse")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        with marker("seen"):
            torch.zeros(2)
        with marker("not seen", level="fine"):
            torch.zeros(2)
    names = [event.name for event in found.events()]
    assert "seen" in names
    assert "not seen" not in names

"""A workload is whole: whatever file was forgotten, a test here names it. `docs/adding-a-workload.md` is followed in a scratch copy."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hotlap
from hotlap.core import plan as plans
from hotlap.core import work
from hotlap.core.model.predict import predict
from hotlap.core.work.base import Workload
from hotlap.core.work.traits import Traits

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Path(hotlap.__file__).parent
PREPARERS = SOURCE / "core" / "measure" / "workloads"
PAGE = ROOT / "docs" / "adding-a-workload.md"
BLOCK = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def unregistered(names: frozenset[str]) -> list[str]:
    """Workloads of the modules of core/work that are not in the table."""
    modules = [importlib.import_module(f"hotlap.core.work.{one.name}") for one in pkgutil.iter_modules(work.__path__)]
    found: dict[str, str] = {}
    for module in modules:
        values = [*vars(module).values(), *getattr(module, "WORKLOADS", ())]
        found |= {value.name: module.__name__ for value in values if isinstance(value, Workload)}
    return [f"{name} of {module}: add its module to src/hotlap/core/work/__init__.py" for name, module in found.items() if name not in names]


def test_every_workload_is_in_the_table() -> None:
    assert not unregistered(frozenset(work.WORKLOADS))
    assert unregistered(frozenset(work.WORKLOADS) - {"fft"}) == ["fft of hotlap.core.work.science: add its module to src/hotlap/core/work/__init__.py"]


def lacking(kind: Workload) -> Iterator[str]:
    """What the files of a workload lack, each with the file to edit."""
    own = "src/hotlap/core/work: the file of " + kind.name
    if kind.source != "loop":
        return
    if kind.heading == "user":
        yield f"{own} needs the trait 'heading'"
    if not (kind.preparer or kind.operator) and kind.unprepared == Traits().unprepared:
        yield f"{own} needs the trait 'preparer' or 'operator', or says by 'unprepared' why nothing prepares it"
    for folder, module, function in (("", kind.preparer, "prepare"), ("operators/", kind.operator, "operator")):
        path = PREPARERS / f"{folder}{module}.py"
        where = f"src/hotlap/core/measure/workloads/{folder}{module}.py"
        if module and not path.is_file():
            yield f"{where} is missing"
        elif module and not any(isinstance(node, ast.FunctionDef) and node.name == function for node in ast.parse(path.read_text()).body):
            yield f"{where} needs a function '{function}'"


@pytest.mark.parametrize("name", work.WORKLOADS)
def test_a_workload_lacks_nothing(name: str) -> None:
    assert not list(lacking(work.find(name)))


def test_what_a_workload_lacks_is_named_with_its_file() -> None:
    bare = Workload("bare", "", (), "time", "s", "lower", lambda _: work.base.Work())
    assert [line.split("trait ")[1].split()[0] for line in lacking(bare)] == ["'heading'", "'preparer'"]
    missing = Workload("bare", "", (), "time", "s", "lower", lambda _: work.base.Work(), heading="memory", preparer="nowhere")
    assert list(lacking(missing)) == ["src/hotlap/core/measure/workloads/nowhere.py is missing"]


@pytest.mark.parametrize("name", [name for name in work.WORKLOADS if work.find(name).model])
def test_what_has_a_model_is_predicted(name: str) -> None:
    """One case and many at once; a fault is of the file of the workload: its counts (`count` takes arrays) or its traits."""
    cases = [case for path in sorted((SOURCE / "core" / "plan" / "builtin").glob("*.toml")) for case in plans.load(path.stem).cases]
    mine = [case.params for case in cases if case.workload == name] or [{"op": "all_reduce", "size": "1 MiB", "gpus": 8} if name == "collective" else {}]
    limits = [predict(name, machine="h200-sxm", **params) for params in mine]
    assert any(limit.expected_s for limit in limits), f"src/hotlap/core/work: the file of {name}: {limits[0].reason or 'no case of it is expected'}"


def test_kernel_files_that_are_asked_for_exist() -> None:
    for path in sorted(PREPARERS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "source":
                name, *dialect = (one.value for one in node.args if isinstance(one, ast.Constant))
                file = f"{name}.wgsl" if dialect == ["wgsl"] else f"{name}.c"
                assert (PREPARERS / "kernels" / file).is_file(), f"{path.name} needs src/hotlap/core/measure/workloads/kernels/{file}"


def test_every_trait_stands_on_the_page() -> None:
    table = re.findall(r"^\| (`\w+`[^|]*) \|", PAGE.read_text(encoding="utf-8").split("## Traits")[1].split("## ")[0], re.MULTILINE)
    assert {name for cell in table for name in re.findall(r"`(\w+)`", cell)} == {field.name for field in dataclasses.fields(Traits)}


PLAN = '[[case]]\nworkload = "fill"\nsize = ["256 KiB", "64 MiB"]\n'


@pytest.mark.slow("copies the package and measures with it")
def test_a_workload_is_added_as_its_page_says(tmp_path: Path) -> None:
    """In five files: two that exist, three that are new."""
    shutil.copytree(SOURCE, tmp_path / "src" / "hotlap", ignore=shutil.ignore_patterns("__pycache__"))
    files = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    section = files.pop("section.md")
    for name, text in files.items():
        assert not (ROOT / name).exists()
        (tmp_path / name).write_text(text, encoding="utf-8")
    table = tmp_path / "src/hotlap/core/work/__init__.py"
    text = re.sub(r"(from hotlap\.core\.work import )", r"\1fill, ", table.read_text())
    table.write_text(text.replace("for family in (memory, ", "for family in (memory, fill, "))
    assert len([*files, table, "docs/workloads.md"]) <= 5
    assert section.startswith("## fill\n")
    assert "**Checked**: " in section
    (tmp_path / "fill.toml").write_text(PLAN)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "HOTLAP_HOME": str(tmp_path / "home"), "NO_COLOR": "1", "COLUMNS": "120"}

    def hotlap_(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "hotlap", *words], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    hotlap_("run", "fill.toml", "--target", "simulated:h100-sxm", "--rounds", "1", "--round-time", "1 s", "--no-report")
    shown = hotlap_("show", "latest")
    assert "fill" in shown
    assert "memory" in shown
    assert "GB/s" in shown or "TB/s" in shown
    assert "bound" in hotlap_("predict", "fill", "size=64MiB", "--machine", "h100-sxm")
    script = (
        "from hotlap.core.work import find; from hotlap.core.measure import targets, workloads\n"
        "spec = targets.parse('opencl'); target = targets.open_device(spec, targets.find(spec)[0])\n"
        "made = workloads.prepare(target, find('fill').case({'size': '1 MiB'}), 1); made.enqueue(2); assert made.check().passed\n"
    )
    if not isinstance(opencl(), str):
        subprocess.run([sys.executable, "-c", script], env=env, cwd=tmp_path, check=True, timeout=600)


def opencl() -> object:
    """A device, or why there is none."""
    from hotlap.core.errors import HotlapError
    from hotlap.core.measure import targets

    try:
        return targets.find(targets.parse("opencl"))[0]
    except (HotlapError, IndexError) as error:
        return str(error)

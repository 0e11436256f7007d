"""Imported numbers: no view says how to run what Hotlap did not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from foreign import files
from foreign_serving import HELD

import hotlap
from hotlap.cli import main
from hotlap.core.show import report
from hotlap.core.store import select

RUNNING = re.compile(
    r"--rounds|--round-time|--budget|--precision|--wait-quiet|--resume|--min-runs|sample_time|run again|measure (it )?again|more rounds|"
    r"longer rounds|run at least|run more|add runs|quiet(er)? machine|precision asked|was stopped",
)
TABLE = "time,case,value,unit,better\n" + "".join(
    f"{1_700_000_000 + 86400 * day},copy,{value},s,lower\n" for day, value in enumerate([1.0, 1.02, 0.98, 1.01, 1.0, 0.99, 1.5, 1.52, 9.0])
)
ACCELSIM = Path(__file__).parent / "simulators" / "vectors.log"
VIEWS = (
    ["show"], ["explain"], ["show", "--json=2"], ["show", "--json=3"], ["show", "--format", "markdown"], ["show", "--format", "csv"],
    ["explain", "--json=2"], ["explain", "--json=3"], ["gate", "--against", "baseline:same", "--match", "class"], ["gate", "--against", "limit"],
    ["history"], ["list"], ["gate", "--against", "fleet"],
)
EACH = ["hyperfine", "pytest-benchmark", "google-benchmark", "asv", "nvbench", "jmh", "criterion", "benchmarkdotnet", "conbench", "phoronix", "superbench", "pyperf", *HELD]


def test_every_format_is_looked_at(tmp_path: Path) -> None:
    assert set(EACH) == set(files(tmp_path))


@pytest.mark.parametrize("name", [*EACH, "table", "accelsim"])
def test_no_view_advises_how_to_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    if name == "table":
        path = tmp_path / "t.csv"
        path.write_text(TABLE)
    else:
        path = ACCELSIM if name == "accelsim" else files(tmp_path)[name]
    above = {"criterion": 3, "asv": 1}.get(name, -1)  # of these a folder is imported
    assert main(["import", str(path.parents[above] if above >= 0 else path)]) == 0
    ids = [one.run.id for one in select.every(tmp_path / "home")]
    assert ids
    main(["baseline", "save", ids[0], "--name", "same"])
    shown: dict[str, str] = {}
    for view in VIEWS:
        capsys.readouterr()
        assert main([view[0], *ids, *view[1:]]) in (0, 1, 2, 3)
        both = capsys.readouterr()
        shown[" ".join(view)] = both.out + both.err
    if len(ids) > 1:
        assert main(["compare", ids[0], ids[-1], "--force"]) in (0, 1, 3)
        shown["compare"] = capsys.readouterr().out
    page = report.page([hotlap.load(ids[0]).bundle])
    shown["report"] = re.sub(r"(?s)<script.*?</script>", "", page)
    assert all(shown[one] for one in ("show", "explain", "report"))
    found = {view: sorted({match[0] for match in RUNNING.finditer(text)}) for view, text in shown.items() if RUNNING.search(text)}
    assert not found, "\n".join(f"{view}: {words}\n{shown[view][-1500:]}" for view, words in found.items())
    assert "fresh random input" not in page

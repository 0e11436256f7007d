"""pytest: the fixture `hotlap_bench(fn, *args)`. Without `--hotlap` it calls the function once; with it the function is measured, the
run is kept, and `--hotlap=baseline.json` judges it. Nothing of Hotlap is imported before it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hotlap.core.measure.runs import OpenRun
    from hotlap.core.record import Baseline, Case, Judgement, MeasureOptions, Row

Bench = Callable[..., Any]
ROUND = "0.5 s"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("hotlap", "measuring with Hotlap")
    measure = "measure what tests give to the fixture hotlap_bench and keep it as a run; with =baseline.json judge it"
    group.addoption("--hotlap", nargs="?", const="", default=None, metavar="BASELINE", help=measure)
    match = "compare with a baseline's runs of this host (default), or of machines of its class"
    group.addoption("--hotlap-match", choices=("host", "class"), default="host", help=match)
    group.addoption("--hotlap-round-time", default=ROUND, metavar="TIME", help=f"of each of the 6 rounds of a test (default: {ROUND})")


def pytest_configure(config: pytest.Config) -> None:
    """Whatever can be refused is refused before the first test."""
    if config.getoption("--hotlap") is None or hasattr(config, "workerinput"):
        return
    if getattr(config.option, "dist", "no") != "no":
        raise pytest.UsageError("--hotlap measures a test at a time, and tests of pytest-xdist disturb each other: leave out -n")
    config.pluginmanager.register(_Session(config), "hotlap-session")


@pytest.fixture
def hotlap_bench(request: pytest.FixtureRequest) -> Bench:
    """Calls `fn(*args)` and returns what it returns; measures it where --hotlap is given. Once a test."""
    if request.config.getoption("--hotlap") is None:
        return lambda fn, *args: fn(*args)
    session = request.config.pluginmanager.get_plugin("hotlap-session")
    if session is None:
        pytest.fail("hotlap_bench does not measure in workers of pytest-xdist, which disturb each other: leave out -n", pytrace=False)
    return lambda fn, *args: session.measured(request.node.nodeid, fn, args)


class _Session:
    """What was measured, as one run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.cases: list[Case] = []
        self.opened: OpenRun | None = None
        self.judgement: Judgement | None = None
        self.rows: list[Row] = []
        self.options, self.baseline = _read(config)

    def measured(self, name: str, fn: Bench, args: tuple[Any, ...]) -> Any:
        """The function's result; its times are kept under the test's name."""
        from hotlap.core.measure import inline
        from hotlap.core.work.program import CALLABLE

        case = CALLABLE.case({"name": name})
        if any(known.id == case.id for known in self.cases):
            pytest.fail("hotlap_bench measures one function a test; make a test of each", pytrace=False)
        value = fn(*args)
        _, lines = inline.rounds(lambda: fn(*args), case, "", self.options)
        self.cases.append(case)
        for samples in lines:
            self._run().writer.append(samples)
        return value

    def _run(self) -> OpenRun:
        if self.opened is None:
            from hotlap.core.measure import runs
            from hotlap.core.measure.machine.machine import fingerprint
            from hotlap.core.measure.targets import host
            from hotlap.core.record import METHOD
            from hotlap.core.store import bundle, paths

            device = host.describe()
            record = runs.record(self._plan(), "host", [device], fingerprint([device]), method=METHOD)
            self.opened = runs.OpenRun(record, [device], bundle.Writer.create(record, paths.home()))
        return self.opened

    def _plan(self) -> Any:
        from hotlap.core.record import Plan

        return Plan(name="pytest", cases=list(self.cases), measure=self.options, source="pytest --hotlap")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Ends the run and judges it: over all tests, so that many of them are no more often wrong than one."""
        if self.opened is None:
            return
        from hotlap.core.analysis import reference, rows, verdicts
        from hotlap.core.record import Stop
        from hotlap.core.store import bundle

        self.opened.finish([Stop("rounds_max")], plan=self._plan())
        kept = bundle.load(self.opened.writer.path)
        self.rows = rows.rows(kept)
        if self.baseline is not None:
            standard = reference.AgainstBaseline(self.baseline, kept.run.machine, match=self.config.getoption("--hotlap-match"))
            self.judgement = verdicts.judge(kept.run.id, self.rows, standard)
            if self.judgement.state == "fail" and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table, and the verdict where there is one."""
        if self.opened is None:
            return
        from hotlap.core.show import judgement, text

        width = terminalreporter._tw.fullwidth
        terminalreporter.section("hotlap")
        shown = judgement.judgement(self.judgement, width) if self.judgement else text.table(self.rows, width, color=False)
        terminalreporter.write_line(shown)
        run = self.opened.record.id
        terminalreporter.write_line(f"\nrun     {run}" + ("" if self.judgement else f"; hotlap baseline save {run} --to baseline.json"))


def _read(config: pytest.Config) -> tuple[MeasureOptions, Baseline | None]:
    """How to measure, and what to judge by. Raises pytest.UsageError."""
    from hotlap.core.errors import InputError
    from hotlap.core.plan import measuring
    from hotlap.core.store import baselines

    file = config.getoption("--hotlap")
    if file and (file.partition("::")[0].endswith(".py") or Path(file).is_dir()):
        raise pytest.UsageError(f"--hotlap: '{file}' is no baseline but tests; write: pytest {file} --hotlap (a baseline: --hotlap=FILE)")
    if file and not Path(file).is_file():
        raise pytest.UsageError(f"--hotlap: there is no baseline file '{file}'; write --hotlap=FILE, and --hotlap alone after the tests")
    try:
        options = measuring.options({"round_time": config.getoption("--hotlap-round-time"), "rounds_max": 6})
        return options, baselines.read(Path(file)) if file else None
    except InputError as error:
        raise pytest.UsageError(f"--hotlap: {error}") from None

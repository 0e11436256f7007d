"""What runs a configuration once, in a fresh process: a program, a plan, a server with a block of requests."""

from __future__ import annotations

import os
import shlex
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec
import numpy as np

from hotlap.core import objectives
from hotlap.core import plan as plans
from hotlap.core.analysis import energy
from hotlap.core.errors import InputError, MachineError, NotSupported, nearest
from hotlap.core.measure import signals, targets
from hotlap.core.measure.targets import host
from hotlap.core.measure.workloads.command import CommandProgram, number_in
from hotlap.core.objectives import Objective
from hotlap.core.record import Device, Readings, Samples
from hotlap.core.store import bundle as bundles
from hotlap.core.trials import arms
from hotlap.core.work.program import COMMAND
from hotlap.serving import ab_blocks, ab_config, ab_live, ab_servers, reading, session
from hotlap.serving.ab_blocks import Block
from hotlap.serving.ab_config import AbSide, ServerSide, SideLoad
from hotlap.serving.summary import BAD
from hotlap.training import launching, steady
from hotlap.training.record import TrainingAsked, rows
from hotlap.tuning import joules
from hotlap.tuning.applying import CLIENT_ALONE, Applied, ChosenSwitches, filled
from hotlap.tuning.record import DroppedSetting, TuningAsked, TuningSetting

SubjectKind = Literal["program", "plan", "server"]
Better = Literal["lower", "higher"]
Goals = Mapping[str, tuple[str, Better]]
PROGRAM_GOALS: Goals = {"time": ("s", "lower"), joules.ENERGY: ("J", "lower")}
TRAINING_GOALS: Goals = {
    "step": ("s", "lower"), "tokens/s": ("1/s", "higher"), "samples/s": ("1/s", "higher"), joules.STEP: ("J", "lower"),
    joules.TOKEN: ("J", "lower"),
}  # fmt: skip
PLAN_GOALS: Goals = {"time": ("", "lower"), joules.ENERGY: ("J", "lower")}
SERVER_GOALS: Goals = {
    "p99": ("s", "lower"), "e2e": ("s", "lower"), "ttft": ("s", "lower"), "tpot": ("s", "lower"), "throughput": ("1/s", "higher"),
    "tokens/s": ("1/s", "higher"), joules.TOKEN: ("J", "lower"),
}  # fmt: skip
P99, ATTEMPTS = 0.99, 6


class Disturbed(MachineError):
    """The machine spoilt a run, whatever the settings: nothing is said of them."""


class Ran(NamedTuple):
    """What a run gave. `metrics`: what limits are on."""

    value: float
    result: float | None = None
    metrics: Mapping[str, float] = {}


class Subject(Protocol):
    """What is tuned."""

    device: Device
    words: list[str]  # of its command, for placeholders

    def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
        """Once. Raises NotSupported, InputError or MachineError with why it gave no number."""


class ProgramSubject:
    """A command line: its wall time, or a number that it prints."""

    def __init__(self, asked: TuningAsked) -> None:
        self.words = split(asked.subject)
        self.asked, self.device = asked, host.describe()
        self.meter = joules.meter() if asked.goal == joules.ENERGY and not asked.how.get("read") else None

    def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
        how = {name: value for name, value in self.asked.how.items() if name in ("read", "expression", "unit", "better")}
        environment = [f"{name}={value}" for name, value in applied.environment.items()]
        words = [*applied.prefix, *filled(self.words, applied.arguments)]
        program = CommandProgram(COMMAND.case({"argv": words, "environment": environment, "timeout": limit_s, **how}))
        with self.meter.on() if self.meter else nullcontext():
            began_s = time.perf_counter()
            done = program.once()
            ended_s = time.perf_counter()
        value = done.seconds if program.read == "wall" else program.value()
        if self.meter:
            value = self.meter.joules(began_s, ended_s)
        result = number_in(self.asked.result, program.output) if self.asked.result else None
        return Ran(value, result, {"time": done.seconds})


class TrainingSubject:
    """A script that steps under `hotlap.steps`, or by PyTorch's optimisers: the steady step of a fresh process."""

    def __init__(self, asked: TuningAsked, home: Path) -> None:
        words = split(asked.subject)
        self.words = words[1:] if Path(words[0]).name.startswith("python") else words
        if not self.words or not self.words[0].endswith(".py"):
            raise InputError(f"--goal {asked.goal} is of a script, as in 'python train.py …', not '{asked.subject}'")
        self.asked, self.home, self.device = asked, home, host.describe()
        self.meter = joules.meter() if asked.goal in joules.GOALS else None

    def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
        words = filled(self.words, applied.arguments)
        training = TrainingAsked(program=words[0], kind="script", arguments=words[1:], steps=0, processes=1, limit_s=limit_s)
        running = launching.Running()
        with tempfile.TemporaryDirectory(dir=self.home) as folder, signals.caught(running.interrupt):
            launch = launching.Launch(number, "", environment=applied.environment, before=tuple(applied.prefix))
            with self.meter.on() if self.meter else nullcontext():
                process = launching.run(training, launch, Path(folder), running, lambda: None)[0]
            printed = Path(folder) / f"output-{number}.txt"
            output = printed.read_text("utf-8", "replace") if printed.is_file() else ""
            file = Path(folder) / process.file if process.file else None
            steps = steady.of_process(process, rows(file.read_bytes() if file and file.is_file() else b""))
        if running.interrupted:
            raise KeyboardInterrupt
        if process.exit_code:
            last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
            raise NotSupported(f"the script ended with status {process.exit_code}: {last[:200]}")
        if not steps.step_s:
            raise NotSupported("no step of the script could be timed; mark each of several: with hotlap.steps() as t: … t.step()")
        rates = {"tokens/s": steps.tokens, "samples/s": steps.samples}
        metrics = {"step": steps.step_s, **{name: count / steps.step_s for name, count in rates.items() if count}}
        if self.meter:
            metrics[joules.STEP] = self.meter.joules(steps.began_s, steps.ended_s) / steps.steps
            metrics |= {joules.TOKEN: metrics[joules.STEP] / steps.tokens} if steps.tokens else {}
        if self.asked.goal not in metrics:
            counted = "samples" if self.asked.goal == "samples/s" else "tokens"
            raise NotSupported(f"the script does not say its {counted} of a step: t.step(tokens=…, samples=…)")
        result = number_in(self.asked.result, output) if self.asked.result else None
        return Ran(metrics[self.asked.goal], result, metrics)


class PlanSubject:
    """A plan: the geometric mean of its cases' times in a round."""

    words: list[str] = []

    def __init__(self, asked: TuningAsked) -> None:
        self.plan = plans.load(asked.subject)
        self.readings: list[Readings] = []
        self.arm = arms.planned(
            asked.subject, self.plan, asked.how.get("target", ""), asked.how.get("device", ""), self.readings.extend
        )  # fmt: skip
        self.device, self.asked = self.arm.device, asked
        if asked.goal == joules.ENERGY:
            joules.of_target(targets.open_device(targets.parse(self.arm.target), self.device))

    def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
        self.readings.clear()
        with environment(applied.environment):
            lines = self.arm.once(number)
        bad = next((line for line in lines if not line.values), None)
        if bad is not None or not lines:
            raise NotSupported(bad.reason if bad else "the round has no case")
        seconds = statistics.geometric_mean([statistics.median(line.values) for line in lines])
        value = statistics.geometric_mean([self._joules(line) for line in lines]) if self.asked.goal == joules.ENERGY else seconds
        return Ran(value, None, {"time": seconds})

    def _joules(self, samples: Samples) -> float:
        spent = energy.of_call(samples, self.readings, self.device)
        if not spent:
            raise NotSupported(f"no two readings of power fall into the time of {samples.case}: give its plan a longer round_time")
        return spent


class ServerSubject:
    """A server as its file says, started anew for each run, loaded with a block of requests on 127.0.0.1."""

    def __init__(self, asked: TuningAsked, home: Path) -> None:
        self.side, self.asked, self.home = side_of(asked.subject), asked, home
        self.words, self.device = list(self.side.server.command), host.describe()
        if asked.goal == joules.TOKEN and self.side.server.simulated:
            raise InputError("--goal J/token: a simulated server spends no energy; hotlap predict net says what is expected of one")
        self.meter = joules.meter() if asked.goal == joules.TOKEN else None

    def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
        """A block in which the client was late or starved is taken again, `ATTEMPTS` times in all."""
        block = self._block(applied, number)
        for _ in range(ATTEMPTS - 1):
            if not block.flaws:
                break
            block = self._block(applied, number)
        if block.flaws:
            seen = f"the client was {', '.join(block.flaws)} in {ATTEMPTS} blocks: its numbers are not the server's"
            raise Disturbed(seen, "use a quieter machine, or longer answers")
        failed = [request for request in block.requests if request.outcome in BAD]
        if failed:
            raise NotSupported(f"{len(failed)} of {len(block.requests)} requests failed: {failed[0].reason}")
        metrics = {name: ab_blocks.value(block.requests, name) for name in ab_blocks.METRICS}
        times = [request.e2e_s for request in block.requests if request.e2e_s is not None]
        if self.meter:
            metrics[joules.TOKEN] = self._joules_a_token(block)
        metrics |= {"p99": float(np.quantile(times, P99, method="higher")), "tokens/s": metrics["throughput"]}
        return Ran(metrics[self.asked.goal], None, metrics)

    def _joules_a_token(self, block: Block) -> float:
        tokens = sum(request.output_tokens or 0 for request in block.requests)
        if not tokens or self.meter is None:
            raise NotSupported("the server counts no tokens, so no energy is known of one")
        begins = [request.sent_s for request in block.requests if request.sent_s is not None]
        ends = [request.ended_s for request in block.requests if request.ended_s is not None]
        return self.meter.joules(self.origin_s + min(begins), self.origin_s + max(ends)) / tokens

    def _block(self, applied: Applied, number: int) -> Block:
        side = self._side(applied)
        with ab_servers.running(side.server, False) as (address, model), tempfile.TemporaryDirectory(dir=self.home) as folder:
            asked = ab_live.asked_of(side.load, address.shown, model, ab_blocks.seed(self.asked.seed, number))
            options = session.ServingOptions(Path(folder), {"block": str(number)}, key_env=side.server.api_key_env)
            with self.meter.on() if self.meter else nullcontext():
                path = session.run(address, asked, options)
            served = reading.read(bundles.load(path)) if self.meter else None
            self.origin_s = (served.served.origin_s or 0.0) if served else 0.0
            return ab_live.read(path, ["e2e"])

    def _side(self, applied: Applied) -> AbSide:
        server = self.side.server
        words = [*applied.prefix, *filled(server.command, applied.arguments)] if server.command else []
        changed = msgspec.structs.replace(server, command=words, environment={**server.environment, **applied.environment} if words else {})
        return AbSide(self.side.name, changed, ab_config.changed(self.side.load, applied.load, self.side.name))


def side_of(subject: str) -> AbSide:
    """A server's file; of a URL one with the usual load. Raises InputError."""
    if subject.endswith(".toml"):
        return ab_config.read(subject)
    return AbSide(subject, ServerSide(url=subject), SideLoad(arrivals="closed:1"))


def client_alone(asked: TuningAsked) -> bool:
    """Whether only the client's switches can be tried: nobody starts the server here."""
    return asked.kind == "server" and not side_of(asked.subject).server.command


def of_client(chosen: ChosenSwitches) -> ChosenSwitches:
    """Without switches of a server that is not started here."""
    lost = [name for name, switch in chosen.switches.items() if not switch.load]
    refused = [DroppedSetting(settings=[TuningSetting(name, "")], code="not_applicable", reason=CLIENT_ALONE) for name in lost]
    kept = {name: switch for name, switch in chosen.switches.items() if switch.load}
    return ChosenSwitches(kept, {name: chosen.values[name] for name in kept}, [*chosen.refused, *refused])


def words_of(asked: TuningAsked) -> list[str]:
    """Of its command, in which placeholders may stand. Raises InputError."""
    if asked.kind == "server":
        return list(side_of(asked.subject).server.command)
    return split(asked.subject) if asked.kind == "program" else []


def split(text: str) -> list[str]:
    """Words of a command line. Raises InputError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"'{text}' is no command line: {error}") from None
    if not words:
        raise InputError("an empty command has nothing to tune; give a command line, a plan or a server's file")
    return words


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """These variables for processes started meanwhile; then as found."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def kind_of(subject: str) -> SubjectKind:
    """A plan that is built in or a TOML file, a server's file where it has [server], or its URL; else a command line."""
    if subject.startswith(("http://", "https://")) and " " not in subject.strip():
        return "server"
    if subject in plans.builtin():
        return "plan"
    if not subject.endswith(".toml") or " " in subject.strip():
        return "program"
    try:
        text = Path(subject).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{subject} cannot be read: {reason}; give a plan, or a server's file") from None
    return "server" if any(line.strip().startswith("[server") for line in text.splitlines()) else "plan"


def goals(kind: SubjectKind) -> Goals:
    """Metrics of a kind of subject, with unit and which way is better."""
    return {"program": {**PROGRAM_GOALS, **TRAINING_GOALS}, "plan": PLAN_GOALS, "server": SERVER_GOALS}[kind]


def check_goal(name: str, kind: SubjectKind) -> None:
    """Raises InputError."""
    if name not in goals(kind):
        raise InputError(f"--goal: a {kind} has no metric '{name}'; {nearest(name, goals(kind))}; a program's own number by --metric")


def limits(under: str, kind: SubjectKind) -> tuple[Objective, ...]:
    """Times that must hold. Raises InputError."""
    times = {name: unit for name, (unit, better) in goals(kind).items() if better == "lower" and name not in joules.GOALS}
    if any(name in under for name in ("power", "J/")):
        raise InputError(f"--under '{under}': limits are on times of a {kind}: {', '.join(times)}; hotlap tuning power tries power limits")
    return objectives.parse(under, times) if under else ()


def subject_of(asked: TuningAsked, home: Path) -> Subject:
    """Raises InputError."""
    if asked.kind == "program":
        training = asked.goal in TRAINING_GOALS and not asked.how.get("read")
        known = "step" if training else "time"
        if other := next((limit for limit in limits(",".join(asked.under), "program") if limit.metric != known), None):
            raise InputError(f"--under '{other.text}': a run for {asked.goal} tells {known} and no {other.metric}; give a limit on {known}")
        return TrainingSubject(asked, home) if training else ProgramSubject(asked)
    return PlanSubject(asked) if asked.kind == "plan" else ServerSubject(asked, home)



"""A search as a run: its bundle, kept as it goes, and gone on with after a kill."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import HotlapError, InputError, SchemaError
from hotlap.core.measure import runs, signals
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.record import Notice, Plan, RunRecord, Stop, encode
from hotlap.core.store import files, labels
from hotlap.core.store.bundle import Bundle, being_measured
from hotlap.tuning import benches, learnt, proposing, restoring, search, tape
from hotlap.tuning.applying import ChosenSwitches
from hotlap.tuning.record import SESSION, TRIALS, TuningAsked, TuningKept, TuningOutcome, TuningTrial
from hotlap.tuning.space import Configuration, SwitchSetting, TuningSpace

KIND = "tuning"
PROGRAMS = ("torch", "numpy", "vllm", "onnxruntime")  # whose versions a result is of


class TuningSessionOptions(NamedTuple):
    """`say`: how the search goes; `listen`: each run."""

    home: Path
    labels: Mapping[str, object] = {}
    say: Callable[[str], None] = lambda _: None
    listen: Callable[[TuningTrial], None] = lambda _: None
    wait_s: float = 0.0  # for a device that another run holds


def run(asked: TuningAsked, chosen: ChosenSwitches, options: TuningSessionOptions) -> Path:
    """A new search. Raises InputError before anything is run; what comes later is kept."""
    _check_space(chosen)
    proposing.check(asked.propose)
    subject = benches.subject_of(asked, options.home)
    device = subject.device
    mend(options.home)
    for path in dict.fromkeys(chosen.switches[name].path for name in chosen.values if chosen.switches[name].path):
        options.say(f"writes {path} for the runs that try it; it is put back after each")
    plan = Plan(name="tuning", about=asked.subject, source="hotlap tuning run")
    target = "host" if device.target == "host" else asked.how.get("target", "") or device.target
    marks = labels.check(dict(options.labels))
    record = runs.record(plan, target, [device], fingerprint([device]), kind=KIND, labels=marks, seed=asked.seed)
    kept = TuningKept(asked=asked, device=device, versions=versions(record), refused=list(chosen.refused))
    guess = learnt.guess(options.home, kept, chosen)
    if guess:
        kept = replace(kept, guess=guess.settings, guessed=guess.when)
        options.say(f"first guess, of {guess.when[:10]}: {guess.text}")
    with runs.begin(record, [device], options.home, options.wait_s) as held:
        _write(held.writer.path, kept)
        return _searched(held, kept, chosen, options, subject, [])


def resume(path: Path, chosen_of: Callable[[TuningAsked], ChosenSwitches], options: TuningSessionOptions) -> Path:
    """Goes on with a search that was cut off. Raises InputError for a run that is none, or that has its answer."""
    kept = _read(path)
    if kept is None:
        raise InputError(f"{path.name} is no search that could go on: it kept nothing; begin anew")
    if kept.outcome is not None:
        more = f"--resume {path.name} --out FILE writes a gain"
        raise InputError(f"{path.name} has its answer: hotlap show {path.name}; {more}; begin anew for another one")
    chosen = chosen_of(kept.asked)
    proposing.check(kept.asked.propose)
    subject = benches.subject_of(kept.asked, options.home)
    with runs.resume(path, options.wait_s) as held:
        past = tape.read((path / TRIALS).read_bytes()) if (path / TRIALS).is_file() else []
        _cut(path / TRIALS, past)
        return _searched(held, kept, chosen, options, subject, past)


def _cut(file: Path, past: Sequence[TuningTrial]) -> None:
    """Without a torn last line."""
    if file.is_file():
        files.write_whole(file, b"".join(encode(trial) + b"\n" for trial in past))


def mend(home: Path) -> None:
    """Files that searches left as they were not found, where both they and what guards them were killed. A search that runs keeps its."""
    for note in sorted((home / "runs").glob("*/files-before.json")):
        with contextlib.suppress(HotlapError):
            if not being_measured(note.parent):
                restoring.mend(note)


def _check_space(chosen: ChosenSwitches) -> None:
    settings = sum(len(values) - 1 for values in chosen.values.values())
    if settings:
        return
    refused = "; ".join(f"{one.settings[0].switch}: {one.reason}" for one in chosen.refused[:4])
    raise InputError(
        f"there is nothing to try: every switch has one value{f' or does not apply ({refused})' if refused else ''}; "
        "name switches and values, as in --switches 'OMP_NUM_THREADS=1,2'; hotlap tuning switches lists what is known"
    )


def space_of(kept: TuningKept, chosen: ChosenSwitches) -> TuningSpace:
    """What is searched, the first guess first."""
    values = {name: every[1:] for name, every in chosen.values.items()}
    guess: Configuration = tuple(sorted(SwitchSetting(one.switch, one.value) for one in kept.guess))
    return TuningSpace(values, [guess] if guess else [])


def _searched(
    held: runs.OpenRun, kept: TuningKept, chosen: ChosenSwitches, options: TuningSessionOptions, subject: benches.Subject,
    past: Sequence[TuningTrial],
) -> Path:
    folder, asked = held.writer.path, kept.asked
    bench = tape.TuningTape(subject, asked, chosen, folder, past, options.listen)
    rules = search.SearchOptions(asked.resolve, asked.min_effect, asked.seed, propose=asked.propose)
    stop = Stop("interrupted")
    try:
        with signals.caught(_interrupt), restoring.guarded(folder / "files-before.json"):
            outcome = search.TuningSearch(space_of(kept, chosen), bench, rules, options.say).run()
        kept = replace(kept, outcome=_with_doubts(_needing(outcome, bench), bench.trials, asked))
        stop = Stop("precision" if outcome.answer in ("gain", "nothing") else "planned_pairs" if outcome.pairs else "budget")
        learnt.keep(options.home, kept, held.record.id)
    except KeyboardInterrupt:
        pass
    except search.NotRepeating as error:
        stop = Stop("error", error.reason)
        raise InputError(f"as found it gives no number: {error.reason}") from None
    except benches.Disturbed as error:
        stop = Stop("error", error.reason)
        remedy = f"use a quieter machine, or longer answers; hotlap tuning run --resume {held.record.id} goes on"
        raise benches.Disturbed(error.reason, remedy) from None
    except HotlapError as error:
        stop = Stop("error", error.reason)
        raise
    finally:
        with contextlib.suppress(OSError):
            _write(folder, kept)
        held.finish([stop])
    return folder


def _needing(outcome: TuningOutcome, bench: tape.TuningTape) -> TuningOutcome:
    """With the budget that its runs need, to two digits or so, rounded up."""
    if not outcome.needs_runs:
        return outcome
    wanted = outcome.needs_runs * bench.each_s() / (1 - tape.SLACK)
    step = 10.0 ** max(math.floor(math.log10(max(wanted, 1.0))) - 1, 0)
    return replace(outcome, needs_s=math.ceil(wanted / step) * step)


def _with_doubts(outcome: TuningOutcome, trials: Sequence[TuningTrial], asked: TuningAsked) -> TuningOutcome:
    notices = [*outcome.notices]
    if seen := tape.repeats(trials, asked.tolerance or 1e-3):
        notices.append(Notice("not_exact", seen))
    return replace(outcome, notices=notices)


def _interrupt(_: int) -> NoReturn:
    raise KeyboardInterrupt


def versions(record: RunRecord) -> dict[str, str]:
    """What a result is of beside the device."""
    software = record.machine.software
    return {"hotlap": record.hotlap, **{name: software[name] for name in PROGRAMS if name in software}}


def _write(folder: Path, kept: TuningKept) -> None:
    files.write_whole(folder / SESSION, msgspec.json.format(encode(kept), indent=2) + b"\n")


def _read(path: Path) -> TuningKept | None:
    return _decoded(files.long(path, (SESSION,)), path)


def _decoded(contents: Mapping[str, bytes], path: Path) -> TuningKept | None:
    if SESSION not in contents:
        return None
    try:
        return msgspec.json.decode(contents[SESSION], type=TuningKept)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{path}/{SESSION}: {error}") from None


class TuningRead(NamedTuple):
    """A bundle as it is read."""

    run: RunRecord
    kept: TuningKept
    trials: list[TuningTrial]


def read(bundle: Bundle) -> TuningRead | None:
    """None where the run was killed before it said what it is. Raises SchemaError."""
    contents = files.long(bundle.path, (SESSION, TRIALS))
    kept = _decoded(contents, bundle.path)
    return None if kept is None else TuningRead(bundle.run, kept, tape.read(contents.get(TRIALS, b"")))

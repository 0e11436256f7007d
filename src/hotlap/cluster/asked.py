"""What the command line asks of a campaign: its launcher, its steps, and which campaign a selector names."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import hotlap
from hotlap.cluster import folder as folders
from hotlap.cluster import gang, hosts, parcel
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import mpi, slurm, ssh
from hotlap.cluster.launch.kubernetes import PodOptions
from hotlap.cluster.record import Campaign, StepRecord
from hotlap.core import units
from hotlap.core.errors import InputError, PlanError
from hotlap.core.measure import targets
from hotlap.core.plan import read as plans
from hotlap.core.plan import write
from hotlap.core.store import paths, select

VERBS = {"stress": "run", "inspect": "facts", "audit": "command"}  # steps of Hotlap beside plans, and what they leave
DASHED = ("--slurm", "--wrap")  # options whose value is words of another program, and may begin with a dash
FANOUT = 256  # agents at a time
LOCAL_WAIT = "1 h"  # slots of one machine measure one after the other


def add_members(parser: argparse.ArgumentParser) -> None:
    """Which members, and how they are reached."""
    parser.add_argument("--hosts", metavar="NAMES|FILE", help="members by ssh: n[001-128,200], names with commas, or a file of names")
    parser.add_argument("--local", type=int, metavar="N", help="N members that are slots of this machine")
    parser.add_argument("--slurm", metavar="OPTIONS", help="members by Slurm: options of sbatch, as in '-p gpu -N 16 --exclusive'")
    parser.add_argument("--ray", metavar="ADDRESS", help="members are the nodes of a Ray cluster that runs, as in 10.0.0.1:6379 or auto")
    parser.add_argument("--queue", default="1 h", metavar="TIME", help="longest wait for a job to start, or for ranks (default: 1 h)")
    add_ranks(parser)
    parser.add_argument("--ssh-config", default="", metavar="FILE", help="for ssh's -F, in place of your own configuration")
    parser.add_argument("--ssh", choices=ssh.CLIENTS, help="the client for --hosts (default: openssh); asyncssh is an extra, in Python")
    parser.add_argument("--python", default="", metavar="PATH", help="on members: 3.9 or later, for plans 3.11; Hotlap is sent")
    parser.add_argument("--gpus", type=int, default=0, metavar="N", help="refuse members with more or fewer GPUs")


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """Of verbs that mpirun and torchrun can start."""
    parser.add_argument("--mpi", action="store_true", help="members are the ranks that mpirun, srun or torchrun started this as")
    parser.add_argument("--meet", default="", metavar="HOST:PORT", help="where rank 0 listens, for ranks on several machines")


def joined(args: argparse.Namespace) -> None:
    """A rank other than 0 becomes an agent, and does not return. Raises InputError, MachineError."""
    if args.mpi and (rank := mpi.own()).number:
        mpi.serve(rank, args.meet, seconds(getattr(args, "queue", "") or "1 h", "--queue"))


def launcher(args: argparse.Namespace) -> tuple[str, dict[str, object], str]:
    """The launcher's name, its options as they are kept, and the Python. Raises InputError."""
    pods = getattr(args, "kubernetes", None)
    ways = {"--hosts": args.hosts, "--local": args.local, "--slurm": args.slurm, "--ray": args.ray, "--mpi": args.mpi or None}
    given = [option for option, value in [*ways.items(), ("--kubernetes", pods)] if value is not None]
    if not given:
        raise InputError("which members? give one of --hosts 'n[01-16]', --local N, --slurm 'OPTIONS', --ray ADDRESS, --mpi")
    if len(given) > 1:
        raise InputError(f"members are reached in one way, and {' and '.join(given)} are given: give one of them")
    if args.gpus < 0:
        raise InputError(f"--gpus is a number from 1 on, not {args.gpus}")
    if (args.ssh_config or args.ssh) and args.hosts is None:
        raise InputError(f"{'--ssh-config' if args.ssh_config else '--ssh'} goes with --hosts; leave it out")
    if args.local is not None:
        _local_python(args.python)
        return "local", {"count": args.local}, args.python or sys.executable
    if pods is not None:
        if args.gang:
            raise InputError("--gang with --kubernetes: pods are told of no rendezvous; leave it out")
        options = PodOptions(args.pods, args.image, args.results, args.gpus)
        options.check()
        return "kubernetes", asdict(options), args.python or "python3"
    if args.mpi:
        if not getattr(args, "dry_run", False):
            mpi.own()
        return "mpi", {"meet": args.meet, "wait_s": seconds(args.queue, "--queue")}, args.python or sys.executable
    if args.ray is not None:
        return "ray", {"address": args.ray, "wait_s": seconds(args.queue, "--queue")}, args.python or "python3"
    if args.slurm is not None:
        if getattr(args, "gang", 0) and slurm.is_array(words(args.slurm, "--slurm", "-p gpu -N 16")):
            raise InputError("--gang with --array: tasks of an array start one by one; ask for all nodes at once by -N")
        asked = {"options": words(args.slurm, "--slurm", "-p gpu -N 16"), "queue_s": seconds(args.queue, "--queue")}
        return "slurm", asked, args.python or "python3"
    if args.ssh_config and not Path(args.ssh_config).is_file():
        raise InputError(f"there is no file '{args.ssh_config}'; --ssh-config takes a configuration of ssh")
    config = str(Path(args.ssh_config).absolute()) if args.ssh_config else ""
    asked = {"hosts": ",".join(hosts.parse(args.hosts)), "config": config, "client": args.ssh or "openssh"}
    return "ssh", asked, args.python or "python3"


def _local_python(path: str) -> None:
    """Raises InputError where it is not here."""
    if path and not shutil.which(path):
        raise InputError(f"--python {path}: no such program is on this machine; leave it out for this one")


def python(path: str, campaign: Campaign) -> str:
    """The Python of a campaign that goes on; "": the one that it began with. Raises InputError."""
    if campaign.launcher == "local":
        _local_python(path)
    return path or campaign.python


def add_fanout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fanout", default=str(FANOUT), metavar="N", help=f"members at a time (default: {FANOUT})")


def fanout(args: argparse.Namespace) -> int:
    """Members at a time. Raises InputError."""
    if not args.fanout.isdecimal() or int(args.fanout) < 1:
        raise InputError(f"--fanout is a number of members from 1 on, not '{args.fanout}'")
    return int(args.fanout)


def rewritten(words: Sequence[str]) -> list[str]:
    """The words with the command behind `--` as one, so that options may stand anywhere before it."""
    if "--" not in words:
        return dashed(words)
    place = list(words).index("--")
    return [*dashed(words[:place]), "--command", json.dumps(list(words[place + 1 :]))]


def dashed(words: Sequence[str]) -> list[str]:
    """The words, those of DASHED as one with their value."""
    joined = list[str]()
    for word in words:
        if joined and joined[-1] in DASHED:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def seconds(text: str, option: str) -> float:
    """A time above 0; "" is 0, none. Raises InputError."""
    if not text:
        return 0.0
    time_s = units.parse(text, "s")
    if not 0 < time_s < float("inf"):
        raise InputError(f"{option} is a time above 0, as in '10 min', not '{text}'")
    return time_s


def steps(args: argparse.Namespace) -> list[StepRecord]:
    """The steps in their order. Raises InputError for none, and for a plan that is none."""
    command = json.loads(args.command) if args.command else []
    words = [word for what in args.what for word in (what.split() if what.startswith("node ") else [what])]
    if bool(words) == bool(command):
        raise InputError("what is to be run? give plans, stress, node inspect or node audit, or a command after --, as in -- hostname")
    if args.rounds is not None and args.rounds < 1:
        raise InputError(f"--rounds is a number from 1 on, not {args.rounds}")
    chosen_steps = [_command(command, args)] if command else []
    while words:
        word = words.pop(0)
        if word == "node" and words:
            word = words.pop(0)
        chosen_steps.append(_verb(word, args) if word in VERBS else _plan(word, args))
    if not command:
        _used(args, chosen_steps)
    timeout_s = seconds(args.timeout, "--timeout") or (gang.TIMEOUT_S if args.gang else 0.0)
    wrap = wrapping(args.wrap)
    return [
        StepRecord(
            number=number, name=folders.step_name(step.name), gather=step.gather, argv=step.argv, label=step.label, files=step.files,
            rounds=step.rounds, timeout_s=timeout_s, wrap=wrap, gang=args.gang,
        )
        for number, step in enumerate(chosen_steps, 1)
    ]  # fmt: skip


def add_wheels(parser: argparse.ArgumentParser, lasting: str = "") -> None:
    help = f"{lasting}of NumPy and msgspec, for members with another Python or system"
    parser.add_argument("--wheels", default="", metavar="FOLDER", help=help)


def wheels(folder: str) -> str:
    """The folder of --wheels. Raises InputError for one that has none."""
    return str(Path(folder).absolute()) if parcel.given(folder) else ""


def wrapping(text: str) -> list[str]:
    """The words of --wrap. Raises InputError."""
    return words(text, "--wrap", "srun --container-image=NAME")


def words(text: str, option: str, example: str) -> list[str]:
    """Of an option whose value is words of a shell. Raises InputError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text}: {str(error).lower()}; write it as in a shell, as in '{example}'") from None


def _command(words: list[str], args: argparse.Namespace) -> StepRecord:
    """A command; one that begins with `hotlap` is a step of Hotlap, with the member's own."""
    if args.target or args.budget:
        raise InputError("--target and --budget go with a plan; write them into the command")
    label = shlex.join(words)
    if words[0] != "hotlap":
        return StepRecord(number=0, name=Path(words[0]).name, gather="command", argv=words, label=label, rounds=args.rounds or 1)
    name = next((word for word in words[1:] if not word.startswith("-") and word != "node"), "hotlap")
    if name == "inspect" and "--json" not in words:
        words = [*words, "--json"]
    gather = VERBS.get(name, "run")
    return StepRecord(number=0, name=name, gather=gather, argv=words, label=label)  # type: ignore[arg-type]


def _used(args: argparse.Namespace, chosen: Sequence[StepRecord]) -> None:
    """Raises InputError for an option that no step takes: it would be dropped."""
    taken = {word for step in chosen for word in step.argv}
    options = {"--target": "plans and stress", "--budget": "plans", "--rounds": "plans"}
    for option, whose in options.items():
        if getattr(args, option[2:]) and option not in taken:
            asked = ", ".join(step.name for step in chosen)
            raise InputError(f"{option} goes with {whose}, not with {asked}; a command takes its own: -- hotlap stress --for '1 h'")


def _check_target(text: str) -> None:
    """What every member would refuse is refused here, once. Raises InputError. Of devices only simulated ones are looked at."""
    if not text:
        return
    wanted = text.replace("{index}", "0")
    spec = targets.parse(wanted)
    file = "/" in spec.part or spec.part.endswith(".toml")  # which may be there on members alone
    if spec.name == "simulated" and "{" not in wanted and not file:
        for device in targets.find(spec):
            targets.open_device(spec, device)


def _verb(word: str, args: argparse.Namespace) -> StepRecord:
    target = ["--target", args.target] if args.target else []
    inspect, audit = ["hotlap", "node", "inspect", "--json"], ["hotlap", "node", "audit"]
    words = {"stress": ["hotlap", "stress", *target], "inspect": inspect, "audit": audit}[word]
    return StepRecord(number=0, name=word, gather=VERBS[word], argv=words, label=" ".join(words))  # type: ignore[arg-type]


def _plan(word: str, args: argparse.Namespace) -> StepRecord:
    try:
        plan = plans.load(word)
    except PlanError as error:
        raise InputError(f"{error}; a command stands after --, as in hotlap cluster run --local 4 -- hostname") from None
    file = f"{folders.step_name(plan.name)}.toml"
    argv = ["hotlap", "run", f"./{file}"]
    for option, value in (("--target", args.target), ("--budget", args.budget), ("--rounds", args.rounds)):
        argv += [option, str(value)] if value else []
    argv += ["--wait", LOCAL_WAIT] if args.local is not None else []
    return StepRecord(number=0, name=plan.name, gather="run", argv=argv, label=f"plan {plan.name}", files={file: write.text(plan)})


def campaign(args: argparse.Namespace) -> Campaign:
    """What is asked, frozen. Raises InputError."""
    name, options, python = launcher(args)
    asked = steps(args)
    _check_target(args.target)
    silent_s = seconds(args.silent, "--silent")
    named, began = folders.new_id()
    return Campaign(
        id=named, hotlap=hotlap.__version__, began=began, launcher=name, options=options, python=python, silent_s=silent_s,
        beat_s=min(2.0, silent_s / 5), gpus=args.gpus, steps=asked, wheels=wheels(args.wheels),
    )  # fmt: skip


def chosen(selector: str) -> CampaignFolder:
    """The campaign that a selector names; "": the newest. Raises InputError."""
    home = paths.home()
    if not selector:
        try:
            kept = select.entries(["kind=campaign"], home)
        except InputError:
            raise InputError("no campaign is kept yet; hotlap cluster run --local 3 -- hostname would begin one") from None
        return folders.load(kept[-1].path)
    entries = select.entries([selector], home)
    if len(entries) != 1:
        raise InputError(f"'{selector}' names {len(entries)} runs; give the id of one campaign: hotlap list kind=campaign")
    return folders.load(entries[0].path)

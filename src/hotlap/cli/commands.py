"""The map of commands: the verbs of core, those that features bring, former names, and names that people try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap.core.errors import closest
from hotlap.features import FEATURES, Noun, Verb

_CORE: Mapping[str, Verb] = {
    "devices": Verb("what is here to measure, and what would make the rest usable", "hotlap.cli.devices", "hotlap devices"),
    "doctor": Verb("is this machine fit to measure: load, governor, A/A test", "hotlap.cli.doctor", "hotlap doctor"),
    "bench": Verb("measure commands, or a workload, now", "hotlap.cli.bench", "hotlap bench 'python a.py' 'python b.py'"),
    "run": Verb("measure a plan and keep every number", "hotlap.cli.run", "hotlap run quick --target cuda"),
    "plan show": Verb("a plan's cases; without a name, the built-in plans", "hotlap.cli.plan", "hotlap plan show quick", ("show",)),
    "plan check": Verb("is a plan valid", "hotlap.cli.plan", "hotlap plan check mine.toml", ("check",)),
    "list": Verb("the runs that were kept", "hotlap.cli.listing", "hotlap list kind=stress"),
    "show": Verb("a run's table of results", "hotlap.cli.show", "hotlap show latest"),
    "explain": Verb("each number against its limit: headroom and cause", "hotlap.cli.explain", "hotlap explain latest"),
    "report": Verb("one HTML page of one or more runs", "hotlap.cli.report", "hotlap report latest --out page.html"),
    "import": Verb("numbers measured elsewhere, as runs", "hotlap.cli.importing", "hotlap import table.csv"),
    "export": Verb("runs in the files of other tools", "hotlap.cli.export", "hotlap export latest --as google-benchmark"),
    "schema": Verb("what is in workloads, codes, bundles and JSON", "hotlap.cli.schema", "hotlap schema workloads gemm"),
    "compare": Verb("case by case: faster, slower, same, or not known", "hotlap.cli.compare", "hotlap compare latest driver=570"),
    "ab": Verb("two commands or plans in turns, until the answer is sure", "hotlap.cli.ab", "hotlap ab 'python a.py' 'python b.py'"),
    "gate": Verb("one verdict: against a limit, a baseline, the fleet, rules", "hotlap.cli.gate", "hotlap gate --against baseline:good"),
    "baseline save": Verb("what is normal, learnt from runs", "hotlap.cli.baseline", "hotlap baseline save driver=570", ("save",)),
    "baseline list": Verb("the baselines that are kept", "hotlap.cli.baseline", "hotlap baseline list", ("list",)),
    "baseline show": Verb("what a baseline holds as normal", "hotlap.cli.baseline", "hotlap baseline show good", ("show",)),
    "baseline promote": Verb("the baseline that verdicts use", "hotlap.cli.baseline", "hotlap baseline promote good", ("promote",)),
    "history": Verb("cases over time: where a level changed, and what with it", "hotlap.cli.history", "hotlap history --changed"),
    "history bisect": Verb(
        "which commit of a repository changed a case", "hotlap.cli.bisect", "hotlap history bisect --good v1 --bad v2 --plan mine.toml"
    ),
    "predict": Verb("what a workload or network can reach on a machine", "hotlap.cli.predict", "hotlap predict gemm m=4096"),
    "energy": Verb("energy of a call and of an operation", "hotlap.cli.energy", "hotlap energy latest"),
    "model machines": Verb("the machine table", "hotlap.cli.machines", "hotlap model machines h200-sxm"),
    "model calibrate": Verb("learn this machine, for better predictions", "hotlap.cli.calibrate", "hotlap model calibrate"),
    "model sensitivity": Verb("what a plan gains from more of each figure", "hotlap.cli.sensitivity", "hotlap model sensitivity quick"),
    "model correlate": Verb("a simulation against silicon, case by case", "hotlap.cli.correlate", "hotlap model correlate A B"),
    "completion": Verb("what lets a shell complete these words: bash, zsh, fish", "hotlap.cli.completion", "hotlap completion bash"),
}
_CORE_NOUNS: Mapping[str, Noun] = {
    "plan": Noun("show, check and make plans", "show"),
    "baseline": Noun("what is normal, learnt from runs", "show"),
    "model": Noun("the machine table, calibration, sensitivity", "machines"),
}
VERBS: Mapping[str, Verb] = {**_CORE, **{name: verb for feature in FEATURES.values() for name, verb in feature.verbs.items()}}
NOUNS: Mapping[str, Noun] = {**_CORE_NOUNS, **{name: noun for feature in FEATURES.values() for name, noun in feature.nouns.items()}}
GROUPS: Mapping[str, tuple[str, ...]] = {  # of the first screen
    "measure": ("devices", "doctor", "bench", "run", "ab", "stress", "plan"),
    "results": ("list", "show", "explain", "report", "import", "export", "schema"),
    "judge": ("compare", "gate", "baseline", "history", "energy"),
    "expect": ("predict", "model"),
    "workloads": ("training", "serving", "tuning", "frames", "tool"),
    "machines": ("node", "cluster"),
    "look into": ("trace", "kernel"),
}
START: Mapping[str, str] = {
    "hotlap bench 'A' 'B'": "which of two commands is faster, and how sure",
    "hotlap run": "measure this machine: limits, intervals, doubts",
    "hotlap explain": "each number against its limit: how far it is, and why",
}
FORMER: Mapping[str, str] = {  # of 0.1, and of 0.2 before it was published; they run in 0.2
    "energy frontier": "tuning power",
    "judge": "gate", "ls": "list", "selftest": "doctor", "bisect": "history bisect", "baseline ls": "baseline list",
    "inspect": "node inspect", "audit": "node audit", "watch": "node watch", "capture": "trace capture",
    "coverage": "kernel coverage", "opportunities": "kernel opportunities", "compiled": "kernel compiled",
    "track report": "kernel track report", "track": "kernel track",
    "machines": "model machines", "calibrate": "model calibrate", "sensitivity": "model sensitivity", "correlate": "model correlate",
}  # fmt: skip
SHAPES = (3, 2)  # of JSON: what --json alone prints, and the former one, which commands under their former names print
FORMER_OPTIONS: Mapping[str, str] = {"--gate": "--min-effect"}  # they work in 0.2
TRIED: Mapping[str, str] = {  # names of other tools → what is meant
    "diff": "hotlap compare A B", "roofline": "hotlap explain RUN", "profile": "hotlap trace capture -- PROGRAM",
    "version": "hotlap --version", "hist": "hotlap history", "trend": "hotlap history",
    "benchmark": "hotlap bench COMMAND", "hyperfine": "hotlap bench COMMAND", "measure": "hotlap bench COMMAND",
    "verify": "hotlap gate RUN",
    "test": "hotlap doctor", "monitor": "hotlap node watch", "top": "hotlap node watch", "info": "hotlap node inspect",
    "burn": "hotlap stress burn-in", "results": "hotlap list", "runs": "hotlap list", "plot": "hotlap report RUN",
    "fleet": "hotlap gate RUN --against fleet", "outliers": "hotlap gate RUN --against fleet",
    "accept": "hotlap gate RUN --against rules.toml",
    "regress": "hotlap gate RUN --against baseline:NAME", "regression": "hotlap history", "estimate": "hotlap predict WORKLOAD",
    "simulate": "hotlap run PLAN --target simulated:h200-sxm",
}  # fmt: skip

TRIED_OPTIONS: Mapping[str, Sequence[str]] = {  # options of other tools → what may be meant: the first that the command has
    "--gpu": ("--machine", "--device"), "--gpus": ("--device",), "--output": ("--out",), "--repetitions": ("--rounds", "--runs"),
    "--iterations": ("--rounds", "--runs"), "--repeat": ("--rounds", "--runs"), "--rounds": ("--processes", "--runs"),
    "--duration": ("--for", "--sustain", "--budget", "--limit"),
}


def of_noun(noun: str) -> dict[str, Verb]:
    """The verbs of a noun, by all of their words."""
    return {name: verb for name, verb in VERBS.items() if name.startswith(f"{noun} ")}


def group(words: list[str]) -> str:
    """The first two words where they are no command and commands begin with them; else ""."""
    both = " ".join(words[:2])
    return both if len(words) > 1 and both not in VERBS and of_noun(both) else ""


def split(words: list[str]) -> tuple[str, list[str]]:
    """The command that words begin with, as many of them as are one, and what is left; ("", words) where there is none."""
    for count in (3, 2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in VERBS:
            return name, words[count:]
    return "", words


def renamed(words: list[str]) -> tuple[list[str], str, str]:
    """Words with a former name replaced by today's; the former name and today's, or "" twice."""
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in FORMER:
            return [*FORMER[name].split(), *words[count:]], name, FORMER[name]
    return words, "", ""


def meant(words: list[str]) -> str:
    """The command of two words that was meant, where the second is close to that of one and they are none; else ""."""
    if len(words) < 2 or " ".join(words[:2]) in VERBS or " ".join(words[:3]) in VERBS:
        return ""
    close = closest(words[1], [name.split()[1] for name in of_noun(words[0])])
    return f"{words[0]} {close}" if close else ""

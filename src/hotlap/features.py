"""The features, in one table: what each brings, as "package.module:name". Nothing is imported before it is used.

`verbs`: words of a command → what it does, its module (`add(parser)`, `run(args) -> exit code`), an example.
`kinds`: a kind of run → the module that shows it (`hotlap.core.show.kinds.Kind`).
`sections`: a part of the report of runs (`hotlap.core.show.sections.base.ReportSection`).
`schemas`: a command → the JSON Schema of what its `--json` prints, a function.
`beside`: a file in a campaign's folder → what shows it there (`hotlap.cluster.show.BesideCampaign`).
`tool_files`: what reads tool files: `load(name, home) -> ToolFile`.
`implementers`: modules that prepare cases which users' own code implements (`hotlap.core.measure.workloads.base.Implementer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Verb(NamedTuple):
    """One command. `words` stand before what the user writes."""

    about: str
    module: str
    example: str
    words: tuple[str, ...] = ()


class Noun(NamedTuple):
    """A word that has verbs; a bare argument goes to `first`, the word alone to `alone` ("": to the list of its verbs)."""

    about: str
    first: str
    alone: str = ""


class Feature(NamedTuple):
    """What one folder beside `core` brings."""

    nouns: Mapping[str, Noun] = {}
    verbs: Mapping[str, Verb] = {}
    kinds: Mapping[str, str] = {}
    sections: Mapping[str, str] = {}
    implementers: Mapping[str, str] = {}
    schemas: Mapping[str, str] = {}
    beside: Mapping[str, str] = {}
    tool_files: Mapping[str, str] = {}


KERNEL = "hotlap.kernels.cli.kernel"
TOOL = "hotlap.tools.cli"
TUNED = "hotlap.tuning.cli_apply"

FEATURES: Mapping[str, Feature] = {
    "kernels": Feature(
        nouns={"kernel": Noun("your own kernels; what plans cover; where work on kernels pays", "add")},
        verbs={
            "kernel add": Verb("keep a kernel of your own, with its revision", KERNEL, "hotlap kernel add mine.py", ("add",)),
            "kernel new": Verb(
                "begin a .cl or .cu: its heading, guessed", KERNEL, "hotlap kernel new rms.cl --like rowwise", ("new",)
            ),
            "kernel list": Verb("the kernels that are kept", KERNEL, "hotlap kernel list", ("list",)),
            "kernel show": Verb("one kernel: what it implements, its files, its cost", KERNEL, "hotlap kernel show mine", ("show",)),
            "kernel check": Verb("are its results right", KERNEL, "hotlap kernel check mine m=512", ("check",)),
            "kernel run": Verb("measure it now, the library beside it", KERNEL, "hotlap kernel run mine --beside", ("run",)),
            "kernel plan": Verb("its cases, as a plan", KERNEL, "hotlap kernel plan mine -o mine.toml", ("plan",)),
            "kernel remove": Verb("forget it; runs that measured it are kept", KERNEL, "hotlap kernel remove mine", ("remove",)),
            "kernel coverage": Verb(
                "what plans cover of real use, and what they lack", "hotlap.kernels.cli.coverage", "hotlap kernel coverage quick"
            ),
            "kernel opportunities": Verb(
                "where work on kernels pays, why, and what would change it", "hotlap.kernels.cli.opportunities",
                "hotlap kernel opportunities latest",
            ),
            "kernel compiled": Verb(
                "compiled-kernel resources: registers, spills, occupancy", "hotlap.kernels.cli.compiled",
                "hotlap kernel compiled a.cubin",
            ),
            "kernel track": Verb(
                "kernel performance history by commit, version, device", "hotlap.kernels.cli.track", "hotlap kernel track"
            ),
            "kernel track report": Verb(
                "a release against another, kernel by kernel", "hotlap.kernels.cli.track_report",
                "hotlap kernel track report --from v1 --to v2",
            ),
            "plan from": Verb(
                "the kernels that networks really run, with their weight", "hotlap.kernels.cli.plan_from",
                "hotlap plan from llama-3-8b -o llama.toml",
            ),
        },
        implementers={"own": "hotlap.kernels.implementer"},
    ),
    "traces": Feature(
        nouns={"trace": Noun("where the time of a recorded program went, what gains most", "show")},
        verbs={
            "trace show": Verb(
                "where the time of a recorded program went, what gains most", "hotlap.traces.cli.trace", "hotlap trace t.json"
            ),
            "trace diff": Verb(
                "two traces of one program: what changed, summed to the whole", "hotlap.traces.cli.diff", "hotlap trace diff a.json b.json"
            ),
            "trace lint": Verb(
                "markers that will mislead: unbalanced, misspelt, too short", "hotlap.traces.cli.lint", "hotlap trace lint t.json"
            ),
            "trace capture": Verb(
                "record some steps of a program, and say where the time went", "hotlap.traces.cli.capture",
                "hotlap trace capture -- python train.py",
            ),
        },
        kinds={"capture": "hotlap.traces.show.kind"},
        sections={"capture": "hotlap.traces.show.kind:SECTION"},
        schemas={"trace": "hotlap.traces.show.schema:json_schema"},
    ),
    "nodes": Feature(
        nouns={"node": Noun("a node's facts, rules over them, its telemetry", "inspect")},
        verbs={
            "node inspect": Verb(
                "the facts of a node: GPUs, links, cards, settings, firmware", "hotlap.nodes.cli.inspect", "hotlap node inspect"
            ),
            "node audit": Verb(
                "those facts against rules: what is wrong, and what mends it", "hotlap.nodes.cli.audit", "hotlap node audit"
            ),
            "node watch": Verb(
                "telemetry: on the terminal, as an exporter, into a file", "hotlap.nodes.cli.watch", "hotlap node watch --for '1 min'"
            ),
        },
        kinds={"watch": "hotlap.nodes.show.kind"},
        sections={"sensors": "hotlap.nodes.show.kind:SECTION"},
    ),
    "tools": Feature(
        nouns={"tool": Noun("other people's benchmarks: found, run, refuted, read", "show", "list")},
        verbs={
            "tool list": Verb("which tools are here, and what installs the others", TOOL, "hotlap tool list", ("list",)),
            "tool show": Verb("one tool: its command, its numbers, what they do not say", TOOL, "hotlap tool show fio", ("show",)),
            "tool run": Verb("measure by tools, Hotlap's own number beside", TOOL, "hotlap tool run mbw sysbench-memory", ("run",)),
            "tool read": Verb("the numbers of a tool's output from elsewhere", TOOL, "hotlap tool read fio fio.json", ("read",)),
            "tool test": Verb("do tool files read their own samples", TOOL, "hotlap tool test", ("test",)),
        },
        tool_files={"load": "hotlap.tools.files:load"},
    ),
    "frames": Feature(
        verbs={
            "frames": Verb("captures of games: frame times, lows by definition, hitches", "hotlap.frames.cli", "hotlap frames game.csv"),
            "frames capture": Verb(
                "a program that draws, logged by MangoHud and judged", "hotlap.frames.cli_capture", "hotlap frames capture -- vkcube"
            ),
        },
        kinds={"frames": "hotlap.frames.show_kind"},
        sections={"frames": "hotlap.frames.show_kind:SECTION"},
    ),
    "stress": Feature(
        verbs={
            "stress": Verb(
                "hours at the limit: load that is checked, and a verdict", "hotlap.stress.cli", "hotlap stress burn-in --for '8 h'"
            )
        },
        kinds={"stress": "hotlap.stress.show_kind"},
        sections={"stress": "hotlap.stress.show_kind:SECTION"},
    ),
    "training": Feature(
        nouns={"training": Noun("a training step and inference engines, measured honestly", "run")},
        verbs={
            "training run": Verb(
                "a step in fresh processes: time, parts, loader, compilation, MFU", "hotlap.training.cli", "hotlap training run train.py"
            ),
            "training frontier": Verb(
                "batch against throughput, step time, memory and energy", "hotlap.training.cli_frontier",
                "hotlap training frontier minilm-l6 context=128 --batch 1,2,4,8",
            ),
            "training converge": Verb(
                "time to quality by MLPerf's rule, of logs or programs", "hotlap.training.cli_converge",
                "hotlap training converge reference/ mine/",
            ),
            "training infer": Verb(
                "inference engines on one model, by MLPerf's scenarios", "hotlap.training.cli_infer",
                "hotlap training infer net.onnx --scenario single,offline",
            ),
            "training memory": Verb(
                "what a training step needs of memory, and what to switch first", "hotlap.training.cli_memory",
                "hotlap training memory llama-3-8b --batch 4 --machine h100-sxm",
            ),
        },
        kinds={
            "training": "hotlap.training.show_kind", "training-frontier": "hotlap.training.frontier_show",
            "infer": "hotlap.training.infer_show", "converge": "hotlap.training.converge_show",
            "training-memory": "hotlap.training.memory_kind",
        },
        sections={
            "training": "hotlap.training.show_kind:SECTION", "training-frontier": "hotlap.training.frontier_show:SECTION",
            "infer": "hotlap.training.infer_show:SECTION", "converge": "hotlap.training.converge_show:SECTION",
            "training-memory": "hotlap.training.memory_kind:SECTION",
        },
    ),
    "serving": Feature(
        nouns={"serving": Noun("requests to a server of models, from when they are due", "bench")},
        verbs={
            "serving bench": Verb(
                "load an OpenAI-compatible server: TTFT, TPOT, goodput", "hotlap.serving.cli",
                "hotlap serving bench http://127.0.0.1:8000 --arrivals poisson:8",
            ),
            "serving ab": Verb(
                "two servers in blocks of requests, until it is sure", "hotlap.serving.cli_ab", "hotlap serving ab a.toml b.toml"
            ),
            "serving capacity": Verb(
                "which rate a server holds: known good, known bad", "hotlap.serving.cli_capacity",
                "hotlap serving capacity http://127.0.0.1:8000 --slo 'ttft<=450ms'",
            ),
            "serving frontier": Verb(
                "throughput against interactivity over loads", "hotlap.serving.cli_frontier",
                "hotlap serving frontier http://127.0.0.1:8000 --concurrency 1,2,4,8,16",
            ),
            "serving simulate": Verb(
                "an OpenAI server timed by the model, honest or with faults", "hotlap.serving.cli_simulate",
                "hotlap serving simulate h200-sxm --model llama-3-8b",
            ),
            "serving traffic": Verb(
                "what recorded traffic is like, and the same at another rate", "hotlap.serving.cli_traffic",
                "hotlap serving traffic show trace.csv",
            ),
        },
        kinds={
            "serving": "hotlap.serving.show_kind", "serving-capacity": "hotlap.serving.show_capacity",
            "serving-frontier": "hotlap.serving.show_frontier",
        },
        sections={
            "serving-capacity": "hotlap.serving.show_capacity:SECTION", "serving-frontier": "hotlap.serving.show_frontier:SECTION",
            "serving": "hotlap.serving.show_kind:SECTION",
        },
    ),
    "tuning": Feature(
        nouns={"tuning": Noun("settings searched and proven, models compared, energy over clocks and caps", "run")},
        verbs={
            "tuning run": Verb(
                "search switches; one gain, confirmed on runs the search has not seen", "hotlap.tuning.cli",
                "hotlap tuning run 'python train.py' --budget '30 min'",
            ),
            "tuning switches": Verb(
                "what can be switched, what it may change, whether it applies here", "hotlap.tuning.cli_switches", "hotlap tuning switches"
            ),
            "tuning apply": Verb("set what was found, on this device and version", TUNED, "hotlap tuning apply best.toml", ("apply",)),
            "tuning revert": Verb("put back what stood before", TUNED, "hotlap tuning revert best.toml", ("revert",)),
            "tuning quality": Verb(
                "is a quantised or compiled model as good: KL, flips, accuracy", "hotlap.tuning.cli_quality",
                "hotlap tuning quality fp32.npz int8.npz",
            ),
            "tuning power": Verb(
                "time against energy over clocks or power caps", "hotlap.tuning.cli_power", "hotlap tuning power quick --power 400,500"
            ),
        },
        kinds={"tuning": "hotlap.tuning.show_kind", "tuning-quality": "hotlap.tuning.quality_show"},
        sections={"tuning": "hotlap.tuning.show_kind:SECTION", "tuning-quality": "hotlap.tuning.quality_show:SECTION"},
    ),
    "cluster": Feature(
        nouns={"cluster": Noun("one measurement on many machines, in one table", "run")},
        verbs={
            "cluster run": Verb(
                "plans, stress, facts or a command on many machines", "hotlap.cluster.cli_run",
                "hotlap cluster run quick --hosts 'n[01-16]'",
            ),
            "cluster check": Verb(
                "before: reach, versions, clocks, disk, return path", "hotlap.cluster.cli_check", "hotlap cluster check --hosts 'n[01-16]'"
            ),
            "cluster status": Verb("where each member of a campaign is now", "hotlap.cluster.cli_status", "hotlap cluster status"),
            "cluster logs": Verb("what the programs of members printed", "hotlap.cluster.cli_logs", "hotlap cluster logs n07"),
            "cluster collect": Verb("rebuild a campaign's table from its bundles", "hotlap.cluster.cli_collect", "hotlap cluster collect"),
            "cluster resume": Verb("run what has no result yet", "hotlap.cluster.cli_resume", "hotlap cluster resume"),
            "cluster compare": Verb(
                "two campaigns, with members as units", "hotlap.cluster.cli_compare", "hotlap cluster compare nccl=old nccl=new",
            ),
            "cluster stop": Verb("end a campaign, and what it left on members", "hotlap.cluster.cli_stop", "hotlap cluster stop"),
        },
        kinds={"campaign": "hotlap.cluster.show_kind"},
        sections={"campaign": "hotlap.cluster.show_kind:SECTION"},
    ),
    "bringup": Feature(
        verbs={
            "cluster isolate": Verb(
                "which part of a fabric is slow: node, direction, link, uplink", "hotlap.bringup.cli_isolate",
                "hotlap cluster isolate --hosts 'n[01-16]' --topology leaves.txt",
            ),
            "cluster collective": Verb(
                "all-reduce and the like between members: bus bandwidth", "hotlap.bringup.cli_collective",
                "hotlap cluster collective --hosts 'n[01-16]'",
            ),
            "cluster gate": Verb(
                "before a job: nodes by the age of what is known, stale tested", "hotlap.bringup.cli_gate",
                "hotlap cluster gate --hosts 'n[01-16]'",
            ),
            "cluster accept plan": Verb(
                "write or check a plan of an acceptance: what it takes, and leaves out", "hotlap.bringup.cli_accept_plan",
                "hotlap cluster accept plan --hosts 'n[001-128]' --out hall.toml",
            ),
            "cluster accept run": Verb(
                "accept nodes step by step; goes on where it was stopped", "hotlap.bringup.cli_accept_run",
                "hotlap cluster accept run hall.toml",
            ),
            "cluster accept status": Verb(
                "nodes by state, causes, overrides, on one screen", "hotlap.bringup.cli_accept", "hotlap cluster accept status"
            ),
            "cluster accept retest": Verb(
                "measure what failed again, longer, then the whole path", "hotlap.bringup.cli_accept_retest",
                "hotlap cluster accept retest n07 --repair 'new cable'",
            ),
            "cluster accept release": Verb(
                "decide about a node without evidence; the reason stays", "hotlap.bringup.cli_accept_release",
                "hotlap cluster accept release n07 --reason 'spare for the lab'",
            ),
            "cluster accept pack": Verb(
                "evidence about a node for its vendor: a zip and a page", "hotlap.bringup.cli_accept_pack",
                "hotlap cluster accept pack n07 --for rma",
            ),
        },
        sections={"isolation": "hotlap.bringup.show:SECTION", "gate": "hotlap.bringup.show_gate:SECTION"},
        beside={"isolation.json": "hotlap.bringup.show:BESIDE", "gate.json": "hotlap.bringup.show_gate:BESIDE"},
    ),
}

TABLE = {
    what: {name: line for feature in FEATURES.values() for name, line in getattr(feature, what).items()}
    for what in ("kinds", "sections", "implementers", "schemas", "tool_files", "beside")
}
"""What `core.extend` takes."""

"""Plans of networks: what a step really runs, backward passes as cases, weights, and what is left out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core import plan as plans
from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model.networks import predict as predicting
from hotlap.core.model.networks.price import prices
from hotlap.core.plan.read import read
from hotlap.core.record import Case, Plan
from hotlap.core.work.networks import calls, compose, replicas, shape, steps, walk
from hotlap.core.work.networks.backward import backward
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.compose import Choices
from hotlap.core.work.networks.steps import Choice


def step(name: str, phase: str, **how: int | str) -> list[Call]:
    return steps.step(steps.find(name), Choice(phase, **how))  # type: ignore[arg-type]


def priced(cases: Sequence[Case]) -> dict[str, float]:
    return prices(cases, "h200-sxm").seconds


def planned(*names: str, **how: tuple[object, ...]) -> Plan:
    found, _ = compose.every_step([steps.find(name) for name in names], Choices(**how))  # type: ignore[arg-type]
    return compose.plan(found, priced, "net", "", "h200-sxm")


# ---------------------------------------------------------------- what is run


@pytest.mark.parametrize(
    ("name", "phase", "how"),
    [
        ("llama-3-70b", "prefill", {}),
        ("llama-3-70b", "decode", {"tp": 8}),
        ("mixtral-8x7b", "prefill", {"tp": 2, "ep": 4, "dp": 2}),
        ("deepseek-v3", "decode", {"tp": 8, "ep": 8, "dtype": "fp8_block"}),
        ("mixtral-8x7b", "train", {"tp": 8}),
        ("qwen3-30b-a3b", "train", {"micro_batch": 2}),
        ("llama-3-8b", "train", {"dtype": "fp8", "micro_batch": 1}),
        ("bert-base", "train", {"micro_batch": 4, "context": 512}),
    ],
)
def test_a_step_takes_what_predict_net_says(name: str, phase: str, how: dict[str, int | str]) -> None:
    asked = {"batch": 4, "context": 1024, **how}
    said = predicting.predict(name, "h200-sxm", phase=phase, **asked)
    assert seconds_of(step(name, phase, **asked)) == pytest.approx(said.seconds, rel=1e-6)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_a_step_of_replicas_takes_what_predict_net_says_beside_what_it_hides(name: str) -> None:
    """A plan has whole exchanges of gradients; a step hides them under its backward pass as far as it can."""
    asked = {"batch": 1, "context": 2048, "dp": 8, "ep": 8}
    said = predicting.predict(name, "h100-sxm", phase="train", **asked)
    found = step(name, "train", **asked)
    assert said.low_s < seconds_of(found, "h100-sxm") < said.high_s
    shown = sum(part.total_s for part in said.parts if "not hidden" in part.name)
    rest = [call for call in found if call.name != "gradients between replicas"]
    assert seconds_of(rest, "h100-sxm") == pytest.approx(said.seconds - shown, rel=1e-6)


def seconds_of(found: Sequence[Call], machine: str = "h200-sxm") -> float:
    cases = [Case(workload=call.workload, params=work.find(call.workload).parse(call.params)) for call in found]
    seconds = prices(cases, machine).seconds
    return sum(call.times * seconds[case.id] for call, case in zip(found, cases, strict=True))


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "bert-base"])
def test_training_multiplies_three_times(name: str) -> None:
    """Each product once for its result, once for each operand's gradient; attention's backward pass has five products for two."""
    found = step(name, "train", batch=2, context=512, micro_batch=2)
    forward = [call for call in found if call.group not in ("backward", "optimizer")]
    back = [call for call in found if call.group == "backward"]
    without = ("attention",)
    assert walk.multiply_adds(back, without) == pytest.approx(2 * walk.multiply_adds(forward, without), rel=1e-9)
    both = [walk.multiply_adds([call for call in half if call.workload == "attention"]) for half in (forward, back)]
    assert both[1] == pytest.approx(2.5 * both[0])


def test_gradients_of_convolutions_are_cases_of_their_own() -> None:
    found = step("resnet-50", "train", batch=8)
    ops = Counter()
    for call in found:
        if call.workload == "conv":
            ops[call.params.get("op", "forward")] += int(call.times)
    assert ops == {"forward": 53, "input_gradient": 52, "weight_gradient": 53}
    assert walk.multiply_adds([call for call in found if call.params.get("op") == "weight_gradient"]) == pytest.approx(
        walk.multiply_adds([call for call in found if call.workload == "conv" and "op" not in call.params])
    )


def test_products_have_the_layouts_of_linear_layers() -> None:
    """y = x·Wᵀ with W as (out, in); its data gradient reads W by rows, its weight gradient reads dyᵀ."""
    found = {call.name: call.params for call in step("llama-3-8b", "train", batch=2, context=128)}
    assert found["down"] == {"m": 128, "n": 4096, "k": 14336, "dtype": "bf16", "layout": "nt"}
    assert found["down, data gradient"] == {"m": 128, "n": 14336, "k": 4096, "dtype": "bf16"}
    assert found["down, weight gradient"] == {"m": 4096, "n": 14336, "k": 128, "dtype": "bf16", "layout": "tn"}


def test_matrices_that_lie_the_other_way_have_other_layouts() -> None:
    """GPT-2's are (in, out), all but the head's: y = x·W, dx = dy·Wᵀ, dW = xᵀ·dy."""
    found = {call.name: call.params for call in step("gpt-2", "train", batch=1, context=128)}
    bare = {what: {key: value for key, value in found[f"down{what}"].items() if key != "epilogue"} for what in ("", ", data gradient", ", weight gradient")}
    assert bare == {
        "": {"m": 128, "n": 768, "k": 3072, "dtype": "bf16"},
        ", data gradient": {"m": 128, "n": 3072, "k": 768, "dtype": "bf16", "layout": "nt"},
        ", weight gradient": {"m": 3072, "n": 768, "k": 128, "dtype": "bf16", "layout": "tn"},
    }
    assert found["head"]["layout"] == "nt"


def test_eight_bits_are_quantised_before_products() -> None:
    served = {call.name: call.params for call in step("llama-3-8b", "decode", batch=8, dtype="fp8")}
    assert served["down, input in 8 bits"] == {"op": "quantise", "rows": 8, "columns": 14336}
    trained = {call.name: call for call in step("llama-3-8b", "train", batch=4, context=64, dtype="fp8")}
    assert {trained[f"down{what}"].params["layout"] for what in ("", ", data gradient", ", weight gradient")} == {"nt"}
    assert trained["down, weights in 8 bits"].times == 32  # once a step, however many micro-batches
    assert trained["down"].times == 4 * 32


def test_trained_experts_are_grouped_products() -> None:
    found = {call.name: call.params for call in step("mixtral-8x7b", "train", context=1024)}
    assert found["experts' gate and up"] == {"groups": 8, "m": 2048, "n": 2 * 14336, "k": 4096, "dtype": "bf16"}
    assert found["experts' down, weight gradient"] == {"m": 4096, "n": 14336, "k": 256, "batch": 8, "dtype": "bf16", "layout": "tn"}
    assert "experts" not in found


def test_replicas_exchange_gradients_and_one_gpu_updates_its_share() -> None:
    found = {call.name: call for call in step("llama-3-8b", "train", context=128, dp=4)}
    parameters = sum(replicas.parameters(shape.load("llama-3-8b"), calls.Setting("train")))
    assert found["gradients between replicas"].params == {"op": "all_reduce", "gpus": 4, "size": 2 * int(parameters), "nodes": 1}
    assert found["optimizer"].params == {"op": "adamw", "elements": int(parameters / 4)}
    assert found["weights in 16 bits"].params["elements"] == int(parameters / 4)
    sparse = {call.name: call.params for call in step("dlrm", "train", batch=64)}
    widths = [(13, 512), (512, 256), (256, 128), (479, 1024), (1024, 1024), (1024, 512), (512, 256), (256, 1)]
    dense = sum((inner + 1) * out for inner, out in widths)  # the tables' rows are updated where they were met
    assert sparse["optimizer"]["elements"] == dense


@pytest.mark.parametrize(
    ("how", "experts", "rest"),
    [({"dp": 8, "ep": 8}, 1, 8), ({"dp": 8, "ep": 2}, 4, 8), ({"tp": 2, "dp": 8, "ep": 4}, 4, 8)],
)
def test_experts_are_exchanged_and_shared_by_those_who_hold_the_same(how: dict[str, int], experts: int, rest: int) -> None:
    """Mixtral's model card and configuration: 32 layers of 8 experts of 3 × 4096 × 14336, 46.7 G parameters in all."""
    found = {call.name: call.params for call in step("mixtral-8x7b", "train", **how)}
    of_experts = 32 * 8 * 3 * 4096 * 14336 / how["ep"]
    of_rest = (shape.load("mixtral-8x7b").counted - 32 * 8 * 3 * 4096 * 14336) / how.get("tp", 1)
    assert found["gradients between replicas"] == {"op": "all_reduce", "gpus": rest, "size": 2 * of_rest, "nodes": rest * how.get("tp", 1) // 8}
    exchanged = found.get("experts' gradients between replicas")
    assert exchanged is None if experts == 1 else exchanged is not None and (exchanged["gpus"], exchanged["size"]) == (experts, 2 * of_experts)
    assert found["optimizer"]["elements"] == pytest.approx(of_experts / experts + of_rest / rest)


@pytest.mark.parametrize("how", [{"ep": 4, "dp": 4}, {"tp": 2, "dp": 2, "ep": 4}, {"tp": 4, "ep": 4}, {"tp": 4, "ep": 2}])
def test_as_many_rows_are_exchanged_as_experts_take(how: dict[str, int]) -> None:
    found = {call.name: call.params for call in step("mixtral-8x7b", "train", **how)}
    moved, taken = found["tokens to experts and back"], found["tokens to experts' order"]
    assert moved["size"] == taken["tokens"] * taken["topk"] * taken["columns"] * 2  # bf16
    assert taken["tokens"] * taken["topk"] == found["experts' down"]["m"]


def test_every_backward_kernel_is_a_case() -> None:
    made = [Call("x", "g", "pointwise", {"op": op, "elements": 8}) for op in ("mul", "tanh", "gelu_mul", "dropout")]
    made += [Call("p", "g", "pool", {"op": op, "images": 1, "channels": 2, "height": 8, "width": 8, "filter": 2, "stride": 2}) for op in ("max", "average", "upsample")]
    made += [Call("s", "g", "rowwise", {"op": "sum", "rows": 2, "columns": 4}), Call("q", "g", "rowwise", {"op": "quantise", "rows": 2, "columns": 4})]
    found = backward(made)
    assert [call.params["op"] for call in found] == ["copy", "average", "upsample", "upsample", "dropout", "silu_mul_backward", "relu_backward", "mul"]
    assert found[-1].times == 2
    for call in found:
        work.find(call.workload).parse(call.params)


def test_an_encoder_has_no_head_but_while_training() -> None:
    assert "head" not in {call.name for call in step("bert-base", "forward", batch=4)}
    assert {"pooler", "up"} <= {call.name for call in step("bert-base", "forward", batch=4)}
    trained = {call.name: call.params for call in step("bert-base", "train", batch=4, context=128)}
    assert (trained["head"]["m"], trained["head"]["n"], trained["head transform"]["n"]) == (512, 30522, 768)


# ---------------------------------------------------------------- plans


def test_equal_kernels_are_one_case_with_several_uses() -> None:
    plan = planned("llama-3-8b", phases=("decode",), batch=(1, 8), tp=(1, 2))
    ids = Counter(use.case for use in plan.uses)
    assert len(plan.cases) == len(ids) < len(plan.uses)
    assert len({case.id for case in plan.cases}) == len(plan.cases)
    assert {use.step for use in plan.uses} == {
        f"llama-3-8b decode batch={batch} context=2048 tp={tp}" for batch in (1, 8) for tp in (1, 2)
    }  # fmt: skip


def test_a_plan_is_read_back_as_it_was() -> None:
    plan = planned("mixtral-8x7b", "vit-b-16", batch=(2,))
    again = read(plans.text(plan, ["a comment"]), "net.toml", "net", "net.toml")
    assert again.cases == plan.cases
    assert [(use.case, use.step, use.kernel) for use in again.uses] == sorted(
        [(use.case, use.step, use.kernel) for use in plan.uses], key=lambda key: [case.id for case in plan.cases].index(key[0])
    )
    assert again.weighed_on == "h200-sxm"


def test_many_cases_at_once_cost_what_each_costs() -> None:
    plan = planned("llama-3-8b", "resnet-50", phases=("prefill", "decode", "forward"), batch=(1, 8), dtype=("bf16",))
    together = priced(plan.cases)
    for case in plan.cases[::3]:
        alone = priced([case])
        assert alone.get(case.id) == pytest.approx(together[case.id]) if case.id in together else not alone


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_top_keeps_that_share_of_every_step(share: float) -> None:
    whole = planned("llama-3-8b", "efficientnet-b0", batch=(4,))
    kept = compose.top(whole, share)
    before, after = compose.totals(whole.uses), compose.totals(kept.uses)
    assert len(kept.cases) < len(whole.cases)
    assert all(after[name] >= share * before[name] * (1 - 1e-12) for name in before)
    assert {use.case for use in kept.uses} == {case.id for case in kept.cases}


def test_settings_that_cannot_be_are_left_out_and_said() -> None:
    found, left_out = compose.every_step([steps.find("bert-base"), steps.find("resnet-50")], Choices(phases=("forward",), tp=(1, 8), context=(512, 1024)))
    assert [one.name for one in found] == ["bert-base forward batch=1 context=512 tp=1", "resnet-50 forward batch=1"]
    assert left_out == {
        "12 heads cannot be cut into 8": ["bert-base forward batch=1 context=512 tp=8"],
        "takes a context of at most 512, not 1024": [f"bert-base forward batch=1 context=1024 tp={tp}" for tp in (1, 8)],
        "is not cut over GPUs: tp, pp and ep are 1": ["resnet-50 forward batch=1 tp=8"],
    }


def test_where_no_setting_can_be_it_is_an_error() -> None:
    with pytest.raises(InputError, match="none of these steps can be: llama-3-8b: 32 heads cannot be cut into 3"):
        compose.every_step([steps.find("llama-3-8b")], Choices(tp=(3,)))


# ---------------------------------------------------------------- the verb


def test_the_verb_prints_a_plan_and_says_what_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["plan", "from", "llama-3-8b", "--phase", "prefill,decode", "--batch", "1,8", "--context", "1k", "--tp", "1,8,3", "--top", "95%"]) == 0
    printed = capsys.readouterr()
    file = tmp_path / "llama.toml"
    file.write_text(printed.out, encoding="utf-8")
    plan = plans.load(str(file))
    assert len({use.step for use in plan.uses}) == 8
    assert {case.workload for case in plan.cases} >= {"gemm", "attention", "collective"}
    assert "# hotlap plan from llama-3-8b --phase prefill,decode --batch 1,8 --context 1k --tp 1,8,3 --top 95% --machine h200-sxm" in printed.out
    for part in (f"{len(plan.cases)} cases of 8 steps of 1 network, weighted by predicted time on h200-sxm", "gate and up", "left out: 32 heads cannot be cut into 3", "--top 95 %"):
        assert part in printed.err
        assert part in printed.out or "cases of" in part or part == "gate and up"


def test_a_file_is_written_and_json_has_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    assert main(["plan", "from", "rnn-t", "--batch", "8", "--phase", "decode", "-o", str(file), "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err.endswith(f"\nplan    {file}\nnext    hotlap run {file}\n")
    assert len(found["plan"]["cases"]) == len(plans.load(str(file)).cases)
    assert list(found["notes"]["steps"]) == ["rnn-t decode batch=8"]
    assert math.isfinite(found["notes"]["steps"]["rnn-t decode batch=8"])


@pytest.mark.slow("whole networks")
def test_the_table_of_networks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["plan", "from", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in steps.names())
    assert main(["plan", "from", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["networks"]
    assert all(one["source"] and abs(one["counted"] / one["parameters"] - 1) < 0.02 for one in listed)


def test_a_module_and_a_configuration_are_networks_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "mine.py").write_text("import torch\ndef make(): return torch.nn.Linear(64, 32), (torch.randn(8, 64),)\n", encoding="utf-8")
    keys = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(keys), encoding="utf-8")
    assert main(["plan", "from", f"{tmp_path}/mine.py:make", str(tmp_path), "--phase", "forward,decode", "--context", "16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["notes"]["steps"]) == ["mine.py:make forward", f"{tmp_path.name} decode batch=1 context=16 tp=1"]


def test_a_recorded_trace_is_a_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shapes = {"Input Dims": [[8, 64], [64, 32]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10 + 20 * i, "dur": 15, "args": shapes} for i in range(3)]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    trace = str(tmp_path / "trace.json")
    assert main(["plan", "from", trace, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert [(use["step"], use["kernel"], use["calls"]) for use in plan["uses"]] == [("trace.json recorded", "aten::mm", 3)]
    assert {name: plan["cases"][0]["params"][name] for name in ("m", "n", "k", "dtype")} == {"m": 8, "n": 32, "k": 64, "dtype": "fp32"}
    assert main(["plan", "from", trace, "--phase", "decode", "--tp", "4"]) == 2
    assert "--phase, --tp: only networks are run as asked; a trace is taken as it was recorded" in capsys.readouterr().err
    assert main(["plan", "from", trace, "gpt-2", "--phase", "decode", "--batch", "4"]) == 0


def test_a_module_takes_a_phase_and_no_other_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "from", "mine.py:make", "--phase", "forward", "--batch", "64", "--dtype", "fp8"]) == 2
    assert "--batch, --dtype: only networks are run as asked; a module runs as its factory makes it and its inputs" in capsys.readouterr().err


LAYERS = 'about = "mine"\nsource = "me"\ndomain = "images"\nparameters = 2080\n'
OWN = 'about = "mine"\nsource = "me"\nparameters = 143872\nlayers = 2\nhidden = 64\nheads = 4\nkv_heads = 4\nhead_dim = 16\ninter = 256\nvocabulary = 100\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("143872", "99999"), "its layers have 143,872 parameters, and 'parameters' is 99,999; mend the one that is wrong"),
        (f"{LAYERS}layers = [{{ set = 8 }}, {{ linear = 8 }}]", "its layers have 72 parameters, and 'parameters' is 2,080"),
        (f'{LAYERS}layers = [{{ set = 8 }}, {{ pool = "averge" }}]', "layer 2: no pool 'averge'; did you mean 'average'?"),
        ("layers = [{ set = 1 }]", "the key 'about' is missing"), ('layers = [3]\nabout = "a"\nsource = "s"\ndomain = "d"\nparameters = 1', "layers and blocks are lists of tables"),
        ("hidden = 8", "'about', 'source', 'parameters', 'layers', 'heads'"), ('hidden = "8"', "'hidden' is a whole number, not '8'"), ("hiden = 8", "no key 'hiden'; did you mean 'hidden'?"),
        ("[[case]]\nworkload = 'gemm'", "is a plan already"), ("a = [", "is not valid TOML"), ("hidden = true", "'hidden' is a whole number, not True"), ("heads = -1", "'heads' is a whole number from 0, not -1"),
        (f"{OWN}window = 8\nwindowed_layers = 3", "'windowed_layers' is 3, more than its 2 layers"), (f"{OWN}window = 8", "'window' and 'windowed_layers' go together"),
    ],
)  # fmt: skip
def test_a_network_of_ones_own_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert main(["plan", "from", str(tmp_path / "mine.toml")]) == 2
    assert message in capsys.readouterr().err


def test_a_network_of_ones_own_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    head = 'about = "mine"\nsource = "me"\n'
    (tmp_path / "mine.toml").write_text(f'{head}parameters = 2080\ndomain = "images"\nlayers = [{{ set = 64 }}, {{ linear = 32 }}]', encoding="utf-8")
    (tmp_path / "ours.toml").write_text(OWN, encoding="utf-8")
    assert main(["plan", "from", str(tmp_path / "mine.toml"), str(tmp_path / "ours.toml"), "--phase", "forward,decode", "--context", "64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["notes"]["steps"]) == ["mine forward batch=1", "ours decode batch=1 context=64 tp=1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which network?"), (["lama-3-8b"], "there is no network 'lama-3-8b'; did you mean 'llama-3-8b'?"), (["gpt-2", "--batch", "0"], "--batch is a whole number from 1"),
        (["gpt-2", "--phase", "serve"], "--phase cannot be 'serve'; valid: decode, forward, prefill, train"), (["gpt-2", "--dtype", "bf17"], "--dtype cannot be 'bf17'"),
        (["gpt-2", "--top", "200%"], "--top is a share above 0"), (["gpt-2", "--machine", "h2000"], "there is no machine 'h2000'; did you mean 'h200-sxm'"), (["missing.json"], "there is no file 'missing.json'"),
        (["gpt-2", "-o", "no/such/folder/x.toml"], "cannot be written"), (["gpt-2", "--context", "1m"], "1k for 1024, not '1m'"), (["gpt-2", "--micro-batch", "1,2"], "--micro-batch is one number"),
    ],
)  # fmt: skip
def test_a_usage_error_is_named(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["plan", "from", *words]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


def test_a_step_that_no_memory_holds_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "from", "llama-3-8b", "--phase", "decode", "--batch", "1,64", "--context", "32k"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "does not fit: one GPU has 151 GB; each kernel alone may fit" in said
    assert "llama-3-8b decode batch=64 context=32768 tp=1 needs 292 GB (--tp 2 fits)" in said
    assert said.count("tp=1") == 1
    assert main(["plan", "from", "llama-3-8b", "--phase", "decode", "--batch", "64", "--context", "32k", "--tp", "2"]) == 0
    assert "does not fit" not in capsys.readouterr().err


def test_weights_that_are_stored_otherwise_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    said = "the weights of gpt-oss-20b are stored in mxfp4; taken as bf16"
    assert main(["plan", "from", "gpt-oss-20b", "--phase", "decode"]) == 0
    printed = capsys.readouterr()
    assert f"not as stored: {said}" in printed.err
    assert f"# not as stored: {said}" in printed.out
    assert main(["plan", "from", "gpt-oss-20b", "--phase", "train"]) == 0
    assert "not as stored" not in capsys.readouterr().err  # nothing is trained as it is stored
    assert main(["predict", "net", "gpt-oss-20b", "--machine", "h200-sxm"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_step_of_layers_that_does_not_fit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "from", "jamba-v0.1", "--phase", "forward,train", "--context", "1k"]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "jamba-v0.1 train batch=1 context=1024 needs 930 GB" in printed
    assert "--tp" not in printed


def test_a_context_is_written_alike_in_plan_from_and_predict_net(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "net", "llama-3-8b", "--machine", "h200-sxm", "--context"]
    assert main([*words, "8k"]) == 0
    assert "context 8192" in capsys.readouterr().out
    assert main([*words, "8q"]) == 2
    assert "--context is a whole number from 1, 1k for 1024, not '8q'" in capsys.readouterr().err


def test_a_stage_is_the_longest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "from", "llama-3-8b", "--phase", "decode", "--pp", "33"]) == 2
    assert "32 layers cannot be cut into 33 stages; take fewer" in capsys.readouterr().err
    for stages, layers in ((4, 8), (3, 11)):
        assert main(["plan", "from", "llama-3-8b", "--phase", "decode", "--pp", str(stages)]) == 0
        printed = capsys.readouterr()
        assert f'kernel = "attention", calls = {layers}, ' in printed.out
        assert "pipelines: with pp, calls are those of the longest stage" in printed.err


@pytest.mark.parametrize(("text", "message"), [('{"model_type": ', "is no JSON"), ('{"hidden_size": 8}', "which has a 'model_type'")])
def test_json_that_is_neither_trace_nor_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.json").write_text(text, encoding="utf-8")
    assert main(["plan", "from", str(tmp_path / "mine.json")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("step", ["llama-3-8b decode batch=8 context=1024 tp=2 dp=2 dtype=fp8", "resnet-50 train batch=4", "gpt-2 train batch=8 context=1024 tp=1 micro_batch=2"])
def test_a_label_says_how_its_step_is_run(step: str) -> None:
    choice = steps.choice_of(step)
    assert choice is not None
    assert steps.label(steps.find(step.partition(" ")[0]), choice) == step


@pytest.mark.parametrize("step", ["t.json recorded", "mine.py:net forward", "mine.py:net", "net decode batch=x", "net decode batch=1 odd=2", "net decode batch=1 more"])
def test_the_name_of_another_step_says_nothing(step: str) -> None:
    assert steps.choice_of(step) is None

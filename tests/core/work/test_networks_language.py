"""The language of layers: what it computes, and what it says of a file that is wrong."""

from __future__ import annotations

import pytest

from hotlap.core.errors import InputError
from hotlap.core.work.networks import arithmetic, layered
from hotlap.core.work.networks.walk import Walked, walk

HEAD = 'about = "a"\nsource = "s"\ndomain = "images"\nparameters = 1\n'


def walked(layers: str, more: str = "", batch: int = 2, train: bool = False) -> Walked:
    return walk(layered.read(f"{HEAD}{more}\nlayers = [{layers}]", "net"), "layers", batch, train=train)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 * (a + 1)", 8), ("7 // 2", 3), ("ceil(a / 2)", 2), ("max(a, 5) - min(a, 1)", 4), ("-a + 4", 1), ("a / 2 * 2", 3)],
)
def test_arithmetic(text: str, value: int) -> None:
    assert arithmetic.whole(text, {"a": 3}, "net") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b + 1", "the name 'b', which nothing sets; valid: a"), ("a / 2", "is 1.5, and a whole number"), ("a ** 2", "is not arithmetic"),
        ("__import__('os')", "is not arithmetic"), ("a.real", "is not arithmetic"), ("open(a)", "is not arithmetic"), ("a +", "is not arithmetic"),
        ("'x' * 9", "is not arithmetic"), ("a // 0", "cannot be computed"), ("1e999 * a", "cannot be computed"), (True, "is no number"),
        ("a" * 300, "is no number"), ("[a for a in (1,)]", "is not arithmetic"), ("max()", "is not arithmetic"),
    ],
)  # fmt: skip
def test_what_is_no_arithmetic_is_named(text: object, message: str) -> None:
    with pytest.raises(InputError, match="net: ") as error:
        arithmetic.whole(text, {"a": 3}, "net")
    assert message in str(error.value)


def test_sizes_go_from_layer_to_layer() -> None:
    found = walked(
        '{ set = 3, height = 32, width = 24 }, { conv = 8, filter = 3, stride = 2, bias = true }, { pool = "max", filter = 2 }, '
        '{ linear = "2 * channels + tokens" }'
    )
    assert [(call.workload, call.params.get("height"), call.params.get("width")) for call in found.calls] == [
        ("conv", 32, 24), ("pool", 16, 12), ("gemm", None, None),
    ]  # fmt: skip
    assert {name: found.calls[2].params[name] for name in "mnk"} == {"m": 2 * 8 * 6, "n": 16 + 48, "k": 8}
    assert found.parameters == 8 * 3 * 9 + 8 + 8 * 64 + 64


def test_blocks_repeat_with_their_own_numbers() -> None:
    found = walked(
        '{ set = 4 }, { block = "wide", to = 8, name = "one" }, { block = "wide", to = "channels", repeat = 3, name = "more" }',
        '[block]\nwide = [{ linear = "to" }, { act = "relu" }]\n'.replace("[block]\n", "block.")
    )
    assert [(call.name, call.params.get("k"), call.times) for call in found.calls if call.workload == "gemm"] == [
        ("one linear", 4, 1), ("more linear", 8, 3),
    ]  # fmt: skip


def test_weights_that_are_shared_count_once() -> None:
    block = 'block.head = [{ linear = 4 }]'
    assert walked('{ set = 4 }, { block = "head" }, { block = "head" }', block).parameters == 40
    assert walked('{ set = 4 }, { block = "head" }, { block = "head", shared = true }', block).parameters == 20


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ('{ set = 4 }, { save = "a" }, { linear = 8 }, { add = "a" }', "layer 4: (8, 1, 1) and (4, 1, 1) (channels, height, width) cannot be added"),
        ('{ set = 4 }, { back = "b" }', "layer 2: nothing was saved as 'b'"),
        ("{ set = 4 }, { liner = 8 }", "layer 2: no kind of layer 'liner'; did you mean 'linear'?"),
        ("{ set = 4 }, { linear = 8, biased = true }", "layer 2: 'linear' has no 'biased'; did you mean 'bias'?"),
        ("{ set = 4 }, { linear = 8, repeat = -1 }", "layer 2: repeat is 0 to 10000, not -1"),
        ("{ set = 4 }, { conv = 6, groups = 4 }", "layer 2: 4 channels and 6 filters cannot be cut into 4 groups"),
        ("{ set = 4, height = 2, width = 2 }, { conv = 4, filter = 5, pad = 0 }", "layer 2: a filter of 5 × 5 does not fit into 2 × 2"),
        ('{ set = 4 }, { block = "me" }', "blocks stand in each other more than 8 deep"),
        ('{ set = 4 }, { block = "you" }', "layer 2: there is no block 'you'; valid: me"),
        ('{ set = 4 }, { norm = "instance" }', "layer 2: no norm 'instance'"),
        ("{ set = 4 }, { experts = 2, topk = 3, inner = 8 }", "layer 2: a token cannot choose 3 of 2 experts"),
        ("{ set = 4 }, { attention = 2 }", "layer 2: 'attention' needs 'head_dim'"),
        ('{ set = 4 }, { rnn = "rnn", hidden = 4 }', "layer 2: no cell 'rnn'; valid: gru, lstm"),
        ('{ set = "wid" }', "layer 1, set: 'wid' has the name 'wid', which nothing sets"),
    ],
)  # fmt: skip
def test_a_layer_that_is_wrong_is_named(layers: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        walked(layers, 'block.me = [{ block = "me" }]')
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "the key 'layers' is missing"), (f"{HEAD}layer = []\nlayers = []", "no key 'layer'; did you mean 'layers'?"), ("a = ", "is not valid TOML"),
        (f"{HEAD}layers = [{{ set = 1 }}]\nwidths = {{ width = 3 }}", "'width' is a name that layers set"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        walk(layered.read(text, "net"), "layers", 1)
    assert message in str(error.value)

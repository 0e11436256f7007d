"""Answers of two models that are odd: few digits, rows without a number, classes that do not fit, margins that they do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.store import bundle as bundles
from hotlap.tuning import quality, quality_session, quality_show, quality_sides
from hotlap.tuning.quality_record import AnswersAsked, Quality, UnitAnswers

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(200, 5)).astype(np.float32) * 3
LABELS = LOGITS.argmax(1)


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compared(a: dict[str, Any], b: dict[str, Any], **asked: Any) -> Quality:
    np.savez("a.npz", **a)
    np.savez("b.npz", **b)
    done = quality_show.read(bundles.load(quality_session.compare(AnswersAsked(a="a.npz", b="b.npz", **asked), Path("home"), {})))
    assert done is not None
    return done


def test_probabilities_of_few_digits_have_no_kl_and_are_not_worse() -> None:
    p, q = softmax(LOGITS), softmax(LOGITS + RNG.normal(0, 0.05, LOGITS.shape))
    assert compared({"probabilities": p}, {"probabilities": q}).answer == "as good"
    done = compared({"probabilities": p.round(3)}, {"probabilities": q.round(3)})
    assert (done.answer, done.broken) == ("cannot tell", 0)
    assert "zero_probability" in {notice.code for notice in done.notices}
    assert "has no number" in quality_show.answer(done)
    assert compared({"probabilities": p.round(3), "labels": LABELS}, {"probabilities": q.round(3)}, margins={"accuracy": 0.05}).answer == "as good"


def test_one_row_without_a_number_says_nothing_of_others() -> None:
    p = softmax(LOGITS)
    done = compared({"probabilities": p}, {"probabilities": np.where(np.arange(200)[:, None] == 3, np.nan, p)})
    assert (done.answer, done.broken) == ("worse", 1)
    assert done.measures[0].value == pytest.approx(0.0, abs=1e-6)


def test_outputs_are_what_their_name_says() -> None:
    p = softmax(LOGITS)
    done = compared({"probabilities": p}, {"probabilities": p.round(2) + 1e-9})
    assert done.measures[0].value < 0.05
    assert np.allclose(quality_sides.logarithms(p, "x", "logits"), p - np.log(np.exp(p).sum(-1, keepdims=True)), atol=1e-6)
    with pytest.raises(InputError, match="do not sum to 1"):
        compared({"probabilities": p}, {"probabilities": LOGITS})
    Path("c.jsonl").write_text('{"probabilities": [0.25, 0.75]}\n{"logits": [0.25, 0.75]}\n')
    first, second = quality_sides.side("c.jsonl", None).answers(0)
    assert first.logs is not None
    assert second.logs is not None
    assert np.exp(first.logs).tolist() == [[0.25, 0.75]]
    assert np.exp(second.logs)[0, 1] == pytest.approx(1 / (1 + np.exp(-0.5)))


def test_a_function_is_taken_alike_in_every_batch() -> None:
    Path("net.py").write_text("import numpy as np\ndef half(x):\n    return np.where(x[:, :1] < 64, [[2.0, -1.0]], [[0.25, 0.75]])\n")
    np.savez("data.npz", x=np.arange(130.0)[:, None])
    units = list(quality_sides.side("net.py:half", quality_sides.questions("data.npz", 256)).answers(0))
    assert units[64].logs is not None
    assert np.exp(units[64].logs)[0, 1] == pytest.approx(1 / (1 + np.exp(-0.5)))


def test_the_same_items_in_another_order_are_refused() -> None:
    order = RNG.permutation(200)
    with pytest.raises(InputError, match="different right classes"):
        compared({"logits": LOGITS, "labels": LABELS}, {"logits": LOGITS[order], "labels": LABELS[order]})


def test_classes_that_do_not_fit_are_refused() -> None:
    windows, labels = RNG.normal(size=(4, 8, 5)), RNG.integers(0, 5, (4, 8))
    with pytest.raises(InputError, match="its label is 5; valid: 0 to 4"):
        compared({"logits": LOGITS, "labels": np.where(np.arange(200) == 0, 5, LABELS)}, {"logits": LOGITS})
    with pytest.raises(InputError, match="for 8 positions"):
        compared({"logits": windows, "labels": RNG.integers(0, 5, (4, 9))}, {"logits": windows})
    with pytest.raises(InputError, match="8 positions, and B at 7"):
        compared({"logits": windows, "labels": labels}, {"right": np.ones((4, 7))})
    excluded = windows.copy()
    excluded[0, 0, labels[0, 0]] = -np.inf
    done = compared({"logits": excluded, "labels": labels}, {"logits": windows + 0.01}, margins={"kl": 2.0})
    assert "perplexity" not in {row.name for row in done.measures}
    assert done.answer == "as good"


def test_a_margin_on_what_is_not_there_is_refused_at_the_first_unit() -> None:
    Path("counted.py").write_text("import numpy as np\ncalls = []\ndef a(x):\n    calls.append(1)\n    return np.ones((len(x), 7)) * x[:, :1]\n")
    np.savez("data.npz", x=np.zeros((500, 2)))
    with pytest.raises(InputError, match="--margin accuracy: these answers do not have it"):
        quality_session.compare(AnswersAsked(a="counted.py:a", b="counted.py:a", data="data.npz", margins={"accuracy": 0.01}), Path("home"), {})
    import sys

    (module,) = [module for name, module in sys.modules.items() if name.startswith("hotlap_quality_counted")]
    assert len(module.calls) == 2


def test_a_without_a_number_is_refused_beside_right_alone() -> None:
    nothing = UnitAnswers("u", np.full((1, 3), np.nan, np.float32), np.array([0]), None)
    with pytest.raises(InputError, match="A gives no number"):
        quality.difference(nothing, UnitAnswers("u", None, None, np.array([True])))

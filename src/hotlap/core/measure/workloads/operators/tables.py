"""Rows moved by index: embedding, its gradient, bags, the order of experts; and the transpose of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, sizes
from hotlap.core.measure.workloads.operators.values import draw, floating, near, same
from hotlap.core.record import Case

Inputs = Mapping[str, Any]


def operator(case: Case, library: Any) -> Operator:
    """Embedding, embedding_bag, scatter, permute or transpose."""
    return MAKERS[case.workload](case, library)


class _Table:
    """One table that all sets of inputs share: it may be far larger than what a call touches, so indices are what is rotated. Made once."""

    def __init__(self, case: Case) -> None:
        self.rows, self.columns = sizes(case.params, "vocabulary", "columns")
        self.dtype, self.table = str(case.params["dtype"]), None

    def of(self, make: Maker) -> Any:
        if self.table is None:
            self.table = draw(make, self.rows, self.columns, dtype=self.dtype)
        return self.table


def _embedding(case: Case, torch: Any) -> Operator:
    table, (tokens,) = _Table(case), sizes(case.params, "tokens")
    fetch = torch.nn.functional.embedding

    def inputs(make: Maker) -> Inputs:
        return {"table": table.of(make), "index": make.whole(table.rows, tokens)}

    def reference(i: Inputs) -> list[Exact]:
        return [same(i["table"].index_select(0, i["index"]))]

    def launch(i: Inputs) -> Any:
        return fetch(i["index"], i["table"])

    return Operator(inputs, launch, reference, variant=f"torch embedding {table.dtype}", dtype=table.dtype, shared=("table",))


def _embedding_bag(case: Case, torch: Any) -> Operator:
    table, (bags, lookups) = _Table(case), sizes(case.params, "bags", "lookups")
    floating(table.dtype, "embedding_bag")
    fetch = torch.nn.functional.embedding_bag

    def inputs(make: Maker) -> Inputs:
        return {"table": table.of(make), "index": make.whole(table.rows, bags, lookups)}

    def reference(i: Inputs) -> list[Exact]:
        value, size = (torch.zeros(bags, table.columns, dtype=torch.float64, device=i["table"].device) for _ in range(2))
        for lookup in range(lookups):  # one at a time: all rows of all bags would be `lookups` times the output
            rows = i["table"].index_select(0, i["index"][:, lookup])
            value += rows
            size += rows.abs()
        return [near(value, table.dtype, 2, lookups, scale=size)]

    def launch(i: Inputs) -> Any:
        return fetch(i["index"], i["table"], mode="sum")

    return Operator(
        inputs, launch, reference, variant=f"torch embedding_bag {table.dtype} sum", dtype=table.dtype, shared=("table",)
    )  # fmt: skip


def _scatter(case: Case, torch: Any) -> Operator:
    """In place. Rows that meet in one row of the table are added one after the other, each sum rounded to the table's type."""
    table, (tokens,) = _Table(case), sizes(case.params, "tokens")

    def inputs(make: Maker) -> Inputs:
        rows = draw(make, tokens, table.columns, dtype=table.dtype)
        return {"table": table.of(make), "rows": rows, "index": make.whole(table.rows, tokens)}

    def reference(i: Inputs) -> list[Exact]:
        index, rows = i["index"], i["rows"]
        if not rows.is_floating_point():
            return [Exact(i["table"].long().index_add_(0, index, rows.long()).to(i["table"].dtype))]
        value = i["table"].clone().index_add_(0, index, rows)
        scale = i["table"].abs().index_add_(0, index, rows.abs())
        return [near(value, table.dtype, int(torch.bincount(index.long()).max()) + 1, scale=scale)]

    def launch(i: Inputs) -> Any:
        return i["table"].index_add_(0, i["index"], i["rows"])

    return Operator(
        inputs, launch, reference, ("table",), variant=f"torch index_add_ {table.dtype}", dtype=table.dtype, shared=("table",)
    )  # fmt: skip


def _permute(case: Case, _: Any) -> Operator:
    tokens, columns, topk = sizes(case.params, "tokens", "columns", "topk")
    dtype = str(case.params["dtype"])

    def inputs(make: Maker) -> Inputs:
        return {"x": draw(make, tokens, columns, dtype=dtype), "index": make.order(tokens * topk) // topk}

    def reference(i: Inputs) -> list[Exact]:
        return [same(i["x"][i["index"]])]

    def launch(i: Inputs) -> Any:
        return i["x"].index_select(0, i["index"])

    return Operator(inputs, launch, reference, variant=f"torch index_select {dtype}", dtype=dtype)


def _transpose(case: Case, torch: Any) -> Operator:
    rows, columns = sizes(case.params, "rows", "columns")
    dtype = str(case.params["dtype"])

    def inputs(make: Maker) -> Inputs:
        return {"x": draw(make, rows, columns, dtype=dtype)}

    def reference(i: Inputs) -> list[Exact]:
        return [same(i["x"].t())]

    laid = torch.contiguous_format  # .contiguous() gives a row or a column back as it is
    return Operator(inputs, lambda i: i["x"].t().clone(memory_format=laid), reference, variant=f"torch clone {dtype}", dtype=dtype)


MAKERS = {"embedding": _embedding, "embedding_bag": _embedding_bag, "scatter": _scatter, "permute": _permute, "transpose": _transpose}

"""Blocks measured now: each is a bench of its own, kept as one, with prompts that no block before had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from hotlap.core import units
from hotlap.core.store import bundle as bundles
from hotlap.serving import ab_blocks, ab_servers, session, show_kind, verdict
from hotlap.serving.ab_blocks import Block
from hotlap.serving.ab_config import AbSide, SideLoad
from hotlap.serving.address import Address
from hotlap.serving.record import ServingAsked


class LiveOptions(NamedTuple):
    """`seed`: drawn, of arrivals and prompts. `labels`: of every block, beside its side and pair."""

    home: Path
    seed: int
    labels: Mapping[str, str]
    metrics: Sequence[str]
    one_at_a_time: bool = False
    is_mine: bool = False


@contextmanager
def source(a: AbSide, b: AbSide, options: LiveOptions) -> Iterator[ab_blocks.BlockSource]:
    """Both servers, up as long as this unless they are to be one at a time; then each block starts its own, and warms it."""
    sides, warm = {"A": a, "B": b}, [0]
    with ExitStack() as stack:
        up = {} if options.one_at_a_time else {
            side: stack.enter_context(ab_servers.running(one.server, options.is_mine)) for side, one in sides.items()
        }  # fmt: skip

        def block(side: str, pair: int | None) -> Block:
            warm[0] += pair is None
            if up:
                return bench(sides[side], *up[side], pair)
            with ab_servers.running(sides[side].server, options.is_mine) as server:
                if pair is not None:
                    bench(sides[side], *server, None)
                return bench(sides[side], *server, pair)

        def bench(at: AbSide, address: Address, model: str, pair: int | None) -> Block:
            side = "A" if at is a else "B"
            asked = asked_of(at.load, address.shown, model, ab_blocks.seed(options.seed, pair, warm[0]))
            labels = {**options.labels, "side": side, "pair": "warm-up" if pair is None else str(pair)}
            key = at.server.api_key_env
            path = session.run(address, asked, session.ServingOptions(options.home, labels, key_env=key))
            return read(path, options.metrics)

        yield block


class BlockInterrupted(KeyboardInterrupt):
    """During a block, which is kept."""


def asked_of(load: SideLoad, url: str, model: str, seed: int) -> ServingAsked:
    """Of one block."""
    return ServingAsked(
        url=url, model=model, api=load.api, arrivals=load.arrivals, requests=load.requests, seed=seed, input_tokens=load.input,
        output_tokens=load.output, warm_up=load.warm_up, ignore_eos=load.ignore_eos, timeout_s=units.parse(load.timeout, "s"),
    )  # fmt: skip


def read(path: Path, metrics: Sequence[str]) -> Block:
    """A block that was kept. Raises BlockInterrupted where it was interrupted."""
    bundle = bundles.load(path)
    judged = show_kind.read(bundle)
    assert judged is not None  # the session wrote it
    if bundle.run.stopped_by("interrupted"):
        raise BlockInterrupted
    asked = judged.serving.served.asked
    requests = [request for request in judged.serving.requests if request.index >= asked.warm_up]
    client = verdict.client(judged.serving, judged.summary, ab_blocks.own(requests, metrics))
    return Block(requests, client.flaws, bundle.run.id)

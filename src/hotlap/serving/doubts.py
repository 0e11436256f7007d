"""What to know beside the figures of a server: where it counts otherwise than was asked, stands still, or contradicts itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hotlap.core import units
from hotlap.core.record import Notice
from hotlap.serving import arrivals
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import Request

CACHED = 0.01  # of the input, found in the server's cache although every prompt was new
LENGTH = 0.05  # by which tokens may differ from what was asked
STALL_S, STALL_TIMES = 1.0, 10.0  # a pause that is named: so long, and so many times the median gap
APART = 0.05  # of TTFT, by which the server's own times may exceed it


def of(
    serving: ServingRun, ok: Sequence[Request], cached_share: float | None, parts: Mapping[str, float], itl_known: bool
) -> list[Notice]:
    """`ok`: good answers after the warm-up; `parts`: of TTFT by the server's counters; `itl_known`: the time per token is."""
    notices = list(serving.served.notices)
    if cached_share is not None and cached_share > CACHED and serving.served.asked.arrivals != arrivals.TRACE:
        notices.append(Notice(
            "shared_cache", f"{cached_share:.0%} of the input was in the server's prefix cache although every prompt is new",
            "switch the server's prefix cache off, or compare with a trace that shares prefixes",
        ))  # fmt: skip
    if any(request.chunks > 1 for request in ok) and not itl_known:
        notices.append(Notice("itl_unknown", "the server does not say how many tokens a chunk has: ITL is not known, chunk gaps are"))
    if parts and parts["rest"] < -APART * parts["total"]:
        own = units.show(parts["server_queue"] + parts["prefill"], "s")
        seen = f"the server's counters say {own} of queue and prefill, more than the {units.show(parts['total'], 's')} that TTFT took"
        notices.append(Notice("metrics_disagree", seen, "its clock or its counters are wrong: trust TTFT"))
    return [*notices, *_lengths(ok), *_events(serving, ok)]


def _lengths(ok: Sequence[Request]) -> list[Notice]:
    notices = []
    wanted, given = _sums(ok, lambda r: (r.asked_input, r.input_tokens))
    if wanted and abs(given / wanted - 1) > LENGTH:
        seen = f"the server counts {given} tokens of input where {wanted} were asked, over all requests"
        notices.append(Notice("input_length", seen, "its template or tokenizer adds them: give another --input"))
    wanted, given = _sums(ok, lambda r: (r.asked_output, r.output_tokens))
    if wanted and given < wanted * (1 - LENGTH):
        seen = f"answers have {given} tokens where {wanted} were asked, over all requests: the server ended them"
        notices.append(Notice("early_end", seen, "give --ignore-eos where the server takes it"))
    return notices


def _events(serving: ServingRun, ok: Sequence[Request]) -> list[Notice]:
    notices = []
    twice = [request for request in ok if request.output_tokens is not None and request.chunks > request.output_tokens > 0]
    if twice:
        seen = f"{len(twice)} answers had more chunks with text than tokens, as where an event is sent twice"
        notices.append(Notice("more_chunks", seen, "its TPOT and ITL are in doubt: mend the server, or what stands before it"))
    chunks, tokens = sum(r.chunks for r in ok if r.output_tokens), sum(r.output_tokens or 0 for r in ok if r.chunks)
    if chunks and tokens > 1.5 * chunks:
        seen = f"a chunk has {tokens / chunks:.1f} tokens on average: the chunk gap is not the time per token"
        notices.append(Notice("several_tokens", seen, "look at ITL and TPOT"))
    gaps = [serving.gaps_s[request.index] for request in ok if request.index in serving.gaps_s]
    usual = float(np.median(np.concatenate(gaps))) if gaps else 0.0
    still = [r.stall_s for r in ok if r.stall_s is not None and r.stall_s > max(STALL_S, STALL_TIMES * usual)]
    if still:
        seen = f"{len(still)} answers paused for more than {units.show(max(STALL_S, STALL_TIMES * usual), 's')}"
        notices.append(Notice("stalled", f"{seen}, at most {units.show(max(still), 's')}", "look what the server did then"))
    return notices


def _sums(ok: Sequence[Request], of_request: Callable[[Request], tuple[int, int | None]]) -> tuple[int, int]:
    """Tokens asked and tokens counted, over requests whose tokens the server counts."""
    counted = [(asked, given) for request in ok for asked, given in [of_request(request)] if given is not None]
    return sum(asked for asked, _ in counted), sum(given for _, given in counted)

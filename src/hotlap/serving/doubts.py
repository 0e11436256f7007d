"""What to know beside the figures of a server: where it counts otherwise than was asked, stands still, or contradicts itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hotlap.core import units
from hotlap.core.record import Notice
from hotlap.serving import arrivals, scraped
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import Request

CACHED = 0.01  # of the input, found in the server's cache although every prompt was new
EMPTY = 0.05  # of the chunks of an answer, with text and without a new token
LENGTH = 0.05  # by which tokens may differ from what was asked
STALL_S, STALL_TIMES = 1.0, 10.0  # a pause that is named: so long, so many times the median gap, and twice any of the client's own
APART = 0.05  # of a time that the client saw, by which the server's own may differ from it …
DECODE_S = 0.02  # after the first token, at least, to compare it
OUTSIDE_S = 0.005  # … where it is shorter: so much at least
LEAD_S, LEAD = 0.002, 0.1  # by which an event without text comes before the first token: so much, and as a share of TTFT


def of(
    serving: ServingRun, requests: Sequence[Request], cached_share: float | None, parts: Mapping[str, float], itl_known: bool
) -> list[Notice]:
    """`requests`: those after the warm-up; `parts`: of TTFT by the server's counters; `itl_known`: the time per token is."""
    ok = [request for request in requests if request.outcome == "ok"]
    notices = list(serving.served.notices)
    if cached_share is not None and cached_share > CACHED and serving.served.asked.arrivals != arrivals.TRACE:
        notices.append(Notice(
            "shared_cache",
            f"{units.percent(cached_share)} of the input was in the server's prefix cache although this run sends no prompt twice",
            "if one --salt was not meant twice, switch the server's prefix cache off, or compare with a trace that shares prefixes",
        ))  # fmt: skip
    if any(request.chunks > 1 for request in ok) and not itl_known:
        notices.append(Notice("itl_unknown", "the server does not say how many tokens a chunk has: ITL is not known, chunk gaps are"))
    if whole := sum(request.one_chunk for request in ok):
        seen = f"{whole} of {len(ok)} answers came in one chunk: TPOT, ITL and stall of these are not known"
        notices.append(Notice("one_chunk", seen, "have the server stream each token, and nothing before it hold answers back"))
    return [*notices, *_failures(requests), *_server(serving, ok, parts), *_lengths(ok), *_events(serving, ok, itl_known), *_first(ok)]


def _failures(requests: Sequence[Request]) -> list[Notice]:
    notices = []
    refused, cut = sum(r.outcome == "refused" for r in requests), sum(r.cut_off for r in requests)
    if refused:
        seen = f"{refused} of {len(requests)} requests were refused, and count as missed"
        notices.append(Notice("refused", seen, "ask for a lower rate, or raise what the server takes"))
    if again := sum(r.resent for r in requests):
        seen = f"{again} of {len(requests)} requests were sent once more: the server closed their idle connection as they came"
        notices.append(Notice("resent", f"{seen}; that time counts as its own", "raise how long the server keeps idle connections"))
    if cut:
        seen = f"{cut} of {len(requests)} connections were closed in the middle of the answer, which counts as missed"
        notices.append(Notice("cut_off", seen, "look at the server's log, and at what stands before it"))
    return notices


def _server(serving: ServingRun, ok: Sequence[Request], parts: Mapping[str, float]) -> list[Notice]:
    """Where the server's own times and those seen here disagree, or do not take TTFT apart."""
    server, notices = serving.served.server, list[Notice]()
    for name, own_s, seen_s, sure_s in [*_decode(serving), *_both(serving)]:
        if own_s > max((1 + APART) * seen_s, seen_s + sure_s):
            more = f"more than the {units.show(seen_s, 's')} that it took"
            seen = f"the server's counters say {units.show(own_s, 's')} {name} on average, {more}"
            return [Notice("metrics_disagree", seen, "its clock or its counters are wrong: trust what was seen here")]
        if name == "of TTFT" and seen_s > max((1 + APART) * own_s, own_s + OUTSIDE_S):
            time = "E2E" if serving.served.asked.api == "embeddings" else "TTFT"
            seen = f"{units.show(seen_s - own_s, 's')} of the server's {time} of {units.show(seen_s, 's')} is in none of its counters"
            notices.append(Notice("outside_server", seen, "look at the network, and at what stands before the server"))
    if parts and parts["rest"] < -APART * parts["total"]:
        own = units.show(parts["server_queue"] + parts["prefill"], "s")
        seen = f"the server's counters say {own} of queue and prefill, more than the {units.show(parts['total'], 's')} that TTFT took"
        return [Notice("metrics_disagree", seen, "its clock or its counters are wrong: trust TTFT")]
    sent = sum((request.sent_s is not None) + request.resent for request in serving.requests)
    others = server.get("queue_count", 0.0) > sent or len(ok) == sent
    if not parts and ok and not scraped.missing(server) and others:  # some of what the end cut may be in its counters
        seen = f"its counters are of {server['queue_count']:.0f} requests, and {len(ok)} were answered here: TTFT is not taken apart"
        notices.append(Notice("other_requests", seen, "have it serve nobody else meanwhile"))
    return notices


Compared = list[tuple[str, float, float, float]]  # what, by the server, as seen here, and by how much it may be off by chance


def _decode(serving: ServingRun) -> Compared:
    """From the first token to the end: what delays requests on their way is in both ends alike, so that a wrong clock shows best in it."""
    server, ok = serving.served.server, [request for request in serving.requests if request.outcome == "ok"]
    first_s, end_s = scraped.mean_s(server, "ttft"), scraped.mean_s(server, "e2e")
    took = [r.last_s - r.first_s for r in ok if r.last_s is not None and r.first_s is not None]
    if first_s is None or end_s is None or len(took) < 2 or not all(alike(server[f"{key}_count"], len(ok)) for key in ("ttft", "e2e")):
        return []
    seen_s, sure_s = float(np.mean(took)), 3 * float(np.std(took, ddof=1)) / len(took) ** 0.5
    return [("of what follows the first token", end_s - first_s, seen_s, sure_s)] if seen_s > DECODE_S else []


def _both(serving: ServingRun) -> Compared:
    """Means by the server's counters, and as seen from when requests were sent, where they are of the same requests: the warm-up too."""
    ok, both = [request for request in serving.requests if request.outcome == "ok"], Compared()
    for name, key in (("TTFT", "ttft"), ("E2E", "e2e")):
        own_s, count = scraped.mean_s(serving.served.server, key), serving.served.server.get(f"{key}_count", 0.0)
        ends = [(r.first_s if key == "ttft" else r.ended_s, r.sent_s) for r in ok]
        took = [end_s - sent_s for end_s, sent_s in ends if end_s is not None and sent_s is not None]
        if took and own_s is not None and alike(count, len(ok)):
            both.append((f"of {name}", own_s, float(np.mean(took)), 0.0))
    return both


def alike(count: float, requests: int) -> bool:
    """Whether the server counted these requests alone."""
    return abs(count - requests) <= max(0.02 * requests, 1)


def _first(ok: Sequence[Request]) -> list[Notice]:
    """What came before the first token, or before the first of the answer proper."""
    notices = []
    leads = [(r.first_s - r.empty_s, r.first_s - (r.sent_s or r.due_s)) for r in ok if r.first_s is not None and r.empty_s is not None]
    early = [lead_s for lead_s, ttft_s in leads if lead_s > max(LEAD_S, LEAD * ttft_s)]
    if ok and len(early) > len(ok) / 2:
        seen = f"an event without text came {units.show(float(np.median(early)), 's')} before the first token (median)"
        notices.append(Notice("role_first", seen, "TTFT is to the token; clients that count the event print less"))
    thought = [r.answer_s - r.first_s for r in ok if r.answer_s is not None and r.first_s is not None]
    reasoned = sum(r.answer_s is not None or bool(r.reasoning_tokens) for r in ok)
    if reasoned:
        later = f", the answer's own first token came {units.show(float(np.median(thought)), 's')} later (median)" if thought else ""
        seen = f"{reasoned} answers began with reasoning, which is tokens as others are: TTFT is to its first{later}"
        notices.append(Notice("reasoning_first", seen, "compare with servers that send their reasoning too"))
    return notices


def _lengths(ok: Sequence[Request]) -> list[Notice]:
    notices = []
    wanted, given = _sums(ok, lambda r: (r.asked_input, r.input_tokens))
    if wanted and abs(given / wanted - 1) > LENGTH:
        seen = f"the server counts {given} tokens of input where {wanted} were asked, over all requests"
        notices.append(Notice("input_length", seen, "its template or tokenizer adds them: give another --input (a trace has its own)"))
    wanted, given = _sums([r for r in ok if not r.miscounted], lambda r: (r.asked_output, r.output_tokens))
    if wanted and given < wanted * (1 - LENGTH):
        seen = f"answers have {given} tokens where {wanted} were asked, over all requests: the server ended them"
        notices.append(Notice("early_end", seen, "give --ignore-eos where the server takes it"))
    wanted, given = _sums(ok, lambda r: (r.asked_output, r.output_tokens))
    if wanted and given > wanted * (1 + LENGTH):
        seen = f"answers have {given} tokens where at most {wanted} were asked, over all requests"
        longer = "the server does not keep to max_tokens: E2E is of longer answers"
        if any(r.miscounted for r in ok):
            seen += f", in {sum(r.chunks for r in ok)} chunks"
            longer = "the server counts tokens that it does not send, or does not keep to max_tokens: TPOT and ITL are in doubt"
        notices.append(Notice("long_answer", seen, longer))
    return notices


def _events(serving: ServingRun, ok: Sequence[Request], itl_known: bool) -> list[Notice]:
    notices = []
    twice = [request for request in ok if _twice(serving, request)]
    if twice:
        seen = f"{len(twice)} answers had more chunks with text than tokens, or chunks without a new one, as where an event is sent twice"
        notices.append(Notice("more_chunks", seen, "its TPOT and ITL are in doubt: mend the server, or what stands before it"))
    several = [r for r in ok if r.output_tokens and r.chunks > 1 and not r.miscounted]
    chunks, tokens = sum(r.chunks for r in several), sum(r.output_tokens or 0 for r in several)
    if chunks and tokens > 1.5 * chunks:
        seen = f"a chunk has {tokens / chunks:.1f} tokens on average: the chunk gap is not the time per token"
        notices.append(Notice("several_tokens", seen, "look at ITL and TPOT" if itl_known else "look at TPOT"))
    gaps = [serving.gaps_s[request.index] for request in ok if request.index in serving.gaps_s]
    usual = float(np.median(np.concatenate(gaps))) if gaps else 0.0
    client = serving.served.client
    own_s = 2 * client.tick_lags_s[-1] if client and client.tick_lags_s else 0.0  # the client paused itself
    least_s = max(STALL_S, STALL_TIMES * usual, own_s)
    still = [r.stall_s for r in ok if r.stall_s is not None and r.stall_s > least_s]
    if still:
        seen = f"{len(still)} answers paused for more than {units.show(least_s, 's')}"
        notices.append(Notice("stalled", f"{seen}, at most {units.show(max(still), 's')}", "look what the server did then"))
    return notices


def _twice(serving: ServingRun, request: Request) -> bool:
    """More chunks than tokens, or by the server's own count no token in several of them."""
    if request.output_tokens is not None and request.chunks > request.output_tokens > 0:
        return True
    counts = serving.tokens.get(request.index)
    return counts is not None and len(counts) > 0 and float((counts == 0).mean()) > EMPTY


def _sums(ok: Sequence[Request], of_request: Callable[[Request], tuple[int, int | None]]) -> tuple[int, int]:
    """Tokens asked and tokens counted, over requests whose tokens the server counts."""
    counted = [(asked, given) for request in ok for asked, given in [of_request(request)] if given is not None]
    return sum(asked for asked, _ in counted), sum(given for _, given in counted)

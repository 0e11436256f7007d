"""What is derived from a request's moments."""

from __future__ import annotations

import msgspec

from hotlap.serving.record import Request


def test_latencies_count_from_when_it_was_due() -> None:
    request = Request(index=3, due_s=1.0, sent_s=1.5, first_s=2.0, last_s=4.0, ended_s=4.1, output_tokens=5)
    assert (request.ttft_s, request.e2e_s, request.tpot_s, request.lag_s) == (1.0, 4.1 - 1.0, 0.5, 0.5)
    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request


def test_what_never_came_is_unknown() -> None:
    request = Request(index=0, due_s=1.0, ended_s=3.0, outcome="error", reason="reset", output_tokens=1, first_s=2.0, last_s=2.0)
    assert (request.e2e_s, request.tpot_s, request.lag_s) == (None, None, None)
    assert request.ttft_s == 1.0

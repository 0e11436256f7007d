"""Tokens of one request as its client gets them, with the faults that it meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from hotlap.serving.simulated import faults, openai
from hotlap.serving.simulated.engine import EngineJob
from hotlap.serving.simulated.facts import Ended
from hotlap.serving.simulated.openai import AnswerForm, Ask
from hotlap.serving.simulated.wire import Wire


class Delivery:
    """`over`: called once when the answer is written, reset or left, with what became of it."""

    def __init__(
        self, wire: Wire, form: AnswerForm, ask: Ask, job: EngineJob, wrong: frozenset[str], over: Callable[[Ended], None]
    ) -> None:
        self.wire, self.form, self.ask, self.job, self.wrong, self.over = wire, form, ask, job, wrong, over
        self.finish = "stop" if "early-end" in wrong else ask.finish
        self.ready = self.sent = self.events = 0  # tokens that came, and those that are written; events
        self.middle = max(job.output_tokens // 2, 1)
        self.reasoned = round(job.output_tokens * faults.REASONING_SHARE) if "reasoning" in wrong and form.chat else 0
        self.held = self.stalled = self.greeted = False
        wire.gone = lambda: self._over("aborted")

    def begin(self) -> None:
        """The request is read."""
        if self.ask.stream:
            self.wire.begin()
            if "role-first" in self.wrong:
                self._greet()

    def token(self, last: bool) -> None:
        """One more came of the engine."""
        self.ready += 1
        if "reset" in self.wrong and self.ready >= self.middle:
            self._flush(last=False)
            self.wire.reset()
            self._over("reset")
        elif not self.held:
            self._flush(last)
            if "stall" in self.wrong and not self.stalled and self.ready >= self.middle:
                self.held = self.stalled = True
                asyncio.get_running_loop().call_later(faults.STALL_S, self._resume)
            elif last:
                self._end()

    def _resume(self) -> None:
        self.held = False
        last = self.job.ended_s is not None
        self._flush(last)
        if last:
            self._end()

    def _flush(self, last: bool) -> None:
        """What is ready, as events."""
        if not self.ask.stream:
            return
        most = faults.BATCHED_TOKENS if "batched" in self.wrong and self.sent else 1
        while self.sent < self.ready and (last or self.ready - self.sent >= most):
            self._greet()
            until = min(self.sent + most, self.ready)
            if self.sent < self.reasoned:
                until = min(until, self.reasoned)
            name = "reasoning_content" if self.sent < self.reasoned else "content"
            text = "".join(map(openai.word, range(self.sent, until)))
            self.sent = until
            closes = not self.form.chat and last and self.sent == self.ready
            self._event({name: text} if self.form.chat else text, self.finish if closes else None)
            most = faults.BATCHED_TOKENS if "batched" in self.wrong else 1

    def _greet(self) -> None:
        """The event without text that chat begins with; of completions only a wrong one has it."""
        if not self.greeted and (self.form.chat or "role-first" in self.wrong):
            self._event({"role": "assistant", "content": ""} if self.form.chat else "", None)
        self.greeted = True

    def _event(self, piece: Mapping[str, str] | str, finish: str | None) -> None:
        event = self.form.event(piece, finish, self._usage())
        self.wire.send(event)
        self.events += 1
        if "duplicate" in self.wrong and self.events % faults.DUPLICATED == 0:
            self.wire.send(event)

    def _usage(self) -> dict[str, Any] | None:
        if "no-usage" in self.wrong:
            return None
        tokens = self.sent if self.ask.stream else self.ready
        return openai.usage(self.job.input_tokens, tokens, self.job.cached_tokens, min(tokens, self.reasoned))

    def _end(self) -> None:
        counted = self._usage()
        if not self.ask.stream:
            text, reasoning = ("".join(map(openai.word, range(*places))) for places in ((self.reasoned, self.ready), (0, self.reasoned)))
            self.wire.respond(200, self.form.whole(text, reasoning, self.finish, counted))
        else:
            if self.form.chat:
                self._event({}, self.finish)
            if self.ask.usage and counted:
                self.wire.send(self.form.usage_event(counted))
            self.wire.send(openai.DONE)
            self.wire.end()
        self._over("ok")

    def _over(self, what: Ended) -> None:
        self.wire.gone = None
        self.over(what)

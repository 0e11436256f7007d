"""Before any load: is there a server, is it this API, has it the model, does it stream, and how many tokens are a word."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import InputError, Unavailable, nearest
from hotlap.core.record import Notice
from hotlap.core.show.table import harmless
from hotlap.serving import prompts
from hotlap.serving.address import Address
from hotlap.serving.answers import ServerAnswer
from hotlap.serving.generator import Pool, why
from hotlap.serving.prompts import Words
from hotlap.serving.record import ServingAsked
from hotlap.serving.wire import Response

SHORT, LONG = 1, 2  # times all words, in the two prompts
PATIENCE_S = 60.0  # a cold engine takes long over its first answer


class HttpDocument(Response):
    """A whole answer, to a GET."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        super().__init__()
        self.content, self._over, self.reason = b"", over, ""

    def body(self, data: bytes, now_s: float) -> None:
        self.content += data

    def over(self, now_s: float) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def lost(self, reason: str, now_s: float) -> None:
        self.reason = reason
        self.over(now_s)


class Probed(msgspec.Struct, frozen=True):
    """What is known of a server before it is loaded."""

    asked: ServingAsked
    dialect: int
    words: Words
    tokens_per_word: float | None
    notices: list[Notice]


def look(address: Address, asked: ServingAsked, headers: dict[str, str]) -> Probed:
    """Raises Unavailable where no server answers, InputError where it is not what was asked for."""
    return asyncio.run(_look(address, asked, headers))


def get(address: Address, path: str, headers: dict[str, str]) -> bytes | None:
    """A document of the same server; None where it has none. Redirects are not followed."""
    return asyncio.run(_get(address, path, headers))


async def _look(address: Address, asked: ServingAsked, headers: dict[str, str]) -> Probed:
    if not asked.model:
        asked = replace(asked, model=await _only_model(address, headers))
    for dialect in (0, 1, 2):
        short = await _ask(address, asked, headers, SHORT, dialect)
        if short.status not in (400, 422) or asked.api == "embeddings":
            break
    if short.outcome != "ok":
        raise await _refusal(address, asked, headers, short)
    long = await _ask(address, asked, headers, LONG, dialect)
    names = await _models(address, headers)
    counts = short.usage.prompt_tokens, long.usage.prompt_tokens
    notices = [] if short.usage.completion_tokens is not None or asked.api == "embeddings" else [Notice(
        "no_usage", "the server does not say how many tokens it made: TPOT, ITL and tokens a second are not known",
        "where it can, have it send usage with stream_options.include_usage",
    )]  # fmt: skip
    if names and asked.model not in names:
        seen = f"the server answers for the model '{asked.model}', which is none that it lists: {harmless(', '.join(names[:3]))}"
        notices.append(Notice("model_not_listed", seen, "look which model answered; --model takes a name that is listed"))
    if counts[0] is None or counts[1] is None or counts[1] <= counts[0]:
        notices.append(Notice("no_usage", "the server does not count the prompt's tokens: its length is in words, one counted as a token"))
        return Probed(asked, dialect, Words(), None, notices)
    each = (counts[1] - counts[0]) / (LONG - SHORT) / len(prompts.WORDS)
    return Probed(asked, dialect, Words(counts[0] - each * SHORT * len(prompts.WORDS), each), each, notices)


async def _ask(address: Address, asked: ServingAsked, headers: dict[str, str], times: int, dialect: int) -> ServerAnswer:
    body = prompts.payload(asked, prompts.every_word(asked, times), 2, dialect)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer = ServerAnswer(asked.api, lambda _: None if over.done() else over.set_result(None))
    await _send(address, prompts.request(address, asked, body, headers, f"hotlap-{asked.salt}-probe"), answer, over)
    if answer.ended_s is None:
        answer.end("timeout", f"no end within {PATIENCE_S:g} s", time.monotonic())
    return answer


async def _get(address: Address, path: str, headers: dict[str, str]) -> bytes | None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    document = HttpDocument(over)
    lines = "".join(f"{key}: {value}\r\n" for key, value in {"Host": address.authority, "Connection": "close", **headers}.items())
    await _send(address, f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"), document, over)
    return document.content if document.status == 200 and document.complete else None


async def _send(address: Address, data: bytes, response: Response, over: asyncio.Future[None]) -> None:
    try:
        connection = await Pool(address).take()
    except OSError as error:
        raise Unavailable(f"no server answers at {address.shown}: {why(error)}", _remedy(error)) from None
    try:
        connection.send(data, response)
        await asyncio.wait([over], timeout=PATIENCE_S)
    finally:
        connection.response = None
        connection.close()


def _remedy(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "name a file of its authority, as in SSL_CERT_FILE=ca.pem, or give the host that the certificate is of"
    if isinstance(error, ssl.SSLError):
        return "write http:// where it speaks HTTP without TLS"
    return "start it, or mend the address, then bench again"


async def _models(address: Address, headers: dict[str, str]) -> list[str]:
    """Names that the server lists; [] where it lists none."""
    try:
        listed: Any = msgspec.json.decode(await _get(address, f"{address.base}/models", headers) or b"{}")
        return [str(model["id"]) for model in listed.get("data", [])]
    except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
        return []


async def _only_model(address: Address, headers: dict[str, str]) -> str:
    names = await _models(address, headers)
    page = (await _get(address, f"{address.base}/models", headers) or b"") if not names else b""
    if b"<html" in page[:2000].lower():
        raise InputError(
            f"{address.shown} answers with an HTML page, so it is no server of this API: give the address of one, as in http://127.0.0.1:8000"
        )
    if len(names) != 1:
        listed = f"the server has {', '.join(names)}" if names else "the server lists none"
        raise InputError(f"which model is to answer? {listed}; give --model NAME")
    return names[0]


async def _refusal(address: Address, asked: ServingAsked, headers: dict[str, str], answer: ServerAnswer) -> InputError:
    """Why the first request had no good answer."""
    names = await _models(address, headers)
    if names and asked.model not in names:
        return InputError(f"the server at {address.shown} has no model '{asked.model}': {nearest(asked.model, names)}")
    if answer.status in (401, 403):
        return InputError(f"{address.shown}: {answer.reason}; put the key into an environment variable and name it with --api-key-env")
    return InputError(f"{address.shown} does not answer as the API '{asked.api}' does: {answer.reason}; nothing was measured")

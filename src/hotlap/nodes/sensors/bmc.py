"""Hundreds of BMCs polled by Redfish from one process: a task each, so that a dead one delays nobody.

aiohttp is imported when a poll begins: it is the extra `bmc`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hotlap.core.errors import MachineError, Unavailable
from hotlap.core.record import Reading
from hotlap.nodes.sensors import redfish, redfish_resources, redfish_tree
from hotlap.nodes.sensors.bmc_file import Endpoint, context
from hotlap.nodes.sensors.redfish_tree import Answered, Failed, SlowResource

SESSIONS = "/redfish/v1/SessionService/Sessions"
TIMEOUT_S, BACKOFF_S, BACKOFF_MAX_S = 10.0, 1.0, 60.0
AGAIN_S = 300.0  # a BMC that could not say all that it has is asked again after this
Listener = Callable[[list[Reading]], None]


class Client:
    """One BMC over one kept-alive connection. Each request has `timeout_s`."""

    def __init__(self, endpoint: Endpoint, session: Any, tls: ssl.SSLContext, timeout_s: float = TIMEOUT_S) -> None:
        self.endpoint, self.session, self.tls, self.timeout_s = endpoint, session, tls, timeout_s
        self.headers: dict[str, str] = {}
        self.place = ""  # of our session, to end it by
        self.plan: _Plan | None = None
        self.moved: dict[str, tuple[float, float]] = {}  # report: its newest time, and ours when that came
        self.lock = asyncio.Lock()

    async def poll(self, time_s: float) -> list[Reading]:
        """All of its readings; a resource that fails costs its own. Raises MachineError with the reason, never with what was sent."""
        if self.plan is None or time_s > self.plan.until_s:
            self.plan = await self._planned(time_s)
        plan, readings, failed = self.plan, list[Reading](), list[Failed]()
        taken, names = set(plan.covered), set(plan.names)
        worth = []  # resources that add something to those before them
        for path in plan.paths:
            try:
                data = await self.get(path)
                if redfish_tree.is_report(path):
                    new = self._report(path, data, time_s)
                    taken, names = (taken | plan.covered, names | plan.names) if plan.fresh else (taken, names)
                else:
                    read = redfish_resources.read(redfish_tree.document(data, path), self.endpoint.name, time_s)
                    new = [kept for source, one in read if (kept := _first(source, one, taken, names))]
            except Failed as error:
                failed.append(error)
                worth.append(path)
                if sum(isinstance(one, SlowResource) for one in failed) > 1:
                    raise
                continue
            readings += new
            worth += [path] if new or redfish_tree.is_report(path) else []
        if failed and not readings:
            self.plan = None
            raise failed[0]
        if failed:
            plan.until_s = min(plan.until_s, time_s + AGAIN_S)
        if plan.fresh:
            plan.paths, plan.fresh = worth, False
        return readings + [_failed(one, self.endpoint.name, time_s) for one in failed]

    async def _planned(self, time_s: float) -> _Plan:
        if self.endpoint.reports:
            return _Plan([f"{redfish_tree.REPORTS}/{name}" for name in self.endpoint.reports], float("inf"))
        offer = await redfish_tree.find(self.get)
        return _Plan(offer.paths, float("inf") if offer.complete else time_s + AGAIN_S, offer.units)

    def _report(self, path: str, data: bytes, time_s: float) -> list[Reading]:
        assert self.plan
        try:
            rows = redfish.report(data, self.endpoint.name, time_s, time.time(), self.plan.units)
        except MachineError as error:
            raise Failed(path, str(error)) from None
        if self.plan.fresh:
            self.plan.cover(redfish.sources(data), rows)
        return self._moving(path, rows, time_s)

    def _moving(self, path: str, readings: list[Reading], time_s: float) -> list[Reading]:
        """The readings, as stale where no time in the report has moved since long before this poll."""
        newest = max((one.sensor_s for one in readings if one.sensor_s is not None), default=None)
        if newest is None:
            return readings
        before = self.moved.get(path)
        if before is None or newest != before[0]:
            self.moved[path] = (newest, time_s)
            return readings
        return redfish.stood(readings, time_s - before[1]) if time_s - before[1] > redfish.STALE_S else readings

    async def close(self) -> None:
        """Ends our session: a BMC has few."""
        if self.place:
            place, self.place = self.place, ""
            try:
                async with asyncio.timeout(2.0):
                    await self._once("DELETE", place)
            except (MachineError, TimeoutError):
                return

    async def get(self, path: str) -> bytes:
        """A resource; logs in, and again when the session has ended."""
        if self.endpoint.credentials and not self.headers:
            await self._login()
        status, data, _ = await self._once("GET", path)
        if status == 401 and "X-Auth-Token" in self.headers:
            await self._login()
            status, data, _ = await self._once("GET", path)
        if status == 401:
            self.headers = {}
            raise MachineError(REFUSED if self.endpoint.credentials else UNASKED)
        if status != 200:
            raise Answered(path, status)
        return data

    async def _login(self) -> None:
        async with self.lock:
            self.headers = {}
            given = self.endpoint.credentials
            assert given is not None
            status, _, headers = await self._once("POST", SESSIONS, {"UserName": given.user, "Password": given.password})
            token = headers.get("X-Auth-Token", "")
            if status in (200, 201) and token:
                self.headers = {"X-Auth-Token": token}
                place = headers.get("Location", "")
                self.place = redfish_tree.place({"@odata.id": place.removeprefix(self.endpoint.url)})
            elif status not in (400, 401, 403, 404, 405, 501):
                raise MachineError(f"the BMC answers the login with {status}")
            elif status in (400, 401, 403) and await self._has_sessions():  # asked without a password: a wrong one counts towards a lock
                raise MachineError(REFUSED)
            else:
                self.headers = {"Authorization": "Basic " + base64.b64encode(f"{given.user}:{given.password}".encode()).decode()}

    async def _has_sessions(self) -> bool:
        """Whether the BMC says so to anybody, as the standard asks; one that does not is given the password with each request."""
        status, data, _ = await self._once("GET", redfish_tree.ROOT)
        return status == 200 and bool(redfish_tree.link(redfish_tree.document(data, redfish_tree.ROOT), "Links", "Sessions"))

    async def _once(self, verb: str, path: str, body: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
        import aiohttp

        try:
            async with asyncio.timeout(self.timeout_s):
                asked = self.session.request(
                    verb, self.endpoint.url + path, json=body, headers=self.headers, ssl=self.tls, allow_redirects=False
                )
                async with asked as answer:
                    return answer.status, await answer.read(), answer.headers
        except TimeoutError:
            raise SlowResource(path, f"no answer within {self.timeout_s:g} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise MachineError("its certificate is not trusted; give the authority's by cafile, or insecure = true") from None
        except aiohttp.ClientConnectorError as error:
            raise MachineError(f"no connection to {error.host}:{error.port}: {_refused(error.os_error)}") from None
        except aiohttp.ClientError as error:
            raise MachineError(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}") from None


def _refused(error: OSError) -> str:
    """Why there is no connection, in the system's words and no object's."""
    known = os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else ""
    return (known or error.strerror or type(error).__name__).lower()


REFUSED = "the BMC refuses the user or the password"
UNASKED = "the BMC asks for a user and a password; name a file by credentials = \"…\", or set HOTLAP_BMC_USER and HOTLAP_BMC_PASSWORD"


class _Plan:
    """What to read at each poll. While `fresh`, what a resource repeats is still to be found out."""

    def __init__(self, paths: list[str], until_s: float, units: dict[str, str] | None = None) -> None:
        self.paths, self.until_s, self.units, self.fresh = paths, until_s, units or {}, True
        self.covered, self.names = set[str](), set[tuple[str, str]]()  # properties that reports have, and what they are called

    def cover(self, sources: set[str], rows: list[Reading]) -> None:
        self.covered |= sources
        self.names |= {(one.device, one.sensor) for one in rows}


def _first(source: str, reading: Reading, taken: set[str], names: set[tuple[str, str]]) -> Reading | None:
    """The reading, unless its sensor was there before; another Sensor of the same name gets its own id added."""
    if source and source in taken:
        return None
    if (reading.device, reading.sensor) in names:
        if "/Sensors/" not in source:
            return None
        reading = msgspec.structs.replace(reading, sensor=f"{reading.sensor}.{source.rpartition('/')[2].lower()}")
    taken.add(source)
    names.add((reading.device, reading.sensor))
    return reading


def _failed(error: Failed, name: str, time_s: float) -> Reading:
    sensor = f"resource.{error.path.removeprefix('/redfish/v1/')}"
    return Reading(sensor=sensor, device=name, time_s=time_s, status="error", reason=str(error))


@asynccontextmanager
async def opened(endpoints: Sequence[Endpoint], keep_s: float = 15.0, timeout_s: float = TIMEOUT_S) -> AsyncIterator[list[Client]]:
    """A client for each, over connections kept for `keep_s`; their sessions end with it. Raises Unavailable without aiohttp."""
    try:
        import aiohttp
    except ImportError as error:
        raise Unavailable(f"aiohttp cannot be imported ({error})", "pip install aiohttp") from error
    contexts = {key: context(one) for one in endpoints for key in [(one.cafile, one.insecure)]}
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=keep_s, ttl_dns_cache=300)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar()) as session:
        clients = [Client(one, session, contexts[one.cafile, one.insecure], timeout_s) for one in endpoints]
        try:
            yield clients
        finally:
            await asyncio.gather(*(client.close() for client in clients))


async def watch(endpoints: Sequence[Endpoint], period_s: float, listen: Listener, rounds: int = 0, timeout_s: float = TIMEOUT_S) -> None:
    """Polls each BMC every `period_s` until cancelled, or `rounds` times; what one fails at is a Reading `reachable` with its reason.

    Polls begin spread over the period, and after failures wait twice as long each time, up to a minute. Raises Unavailable
    without aiohttp.
    """
    async with opened(endpoints, period_s * 2 + 5, timeout_s) as clients, asyncio.TaskGroup() as group:
        for i, client in enumerate(clients):
            group.create_task(_poll(client, period_s, period_s * i / len(clients), rounds, listen))


async def _poll(client: Client, period_s: float, delay_s: float, rounds: int, listen: Listener) -> None:
    loop = asyncio.get_running_loop()
    due_s, failed, done = loop.time() + delay_s, 0, 0
    while not rounds or done < rounds:
        await asyncio.sleep(max(due_s - loop.time(), 0.0))
        began_s, now_s = loop.time(), time.perf_counter()  # what SystemClock shows
        name = client.endpoint.name
        try:
            found = await client.poll(now_s)
            listen([*found, Reading(sensor="reachable", device=name, time_s=now_s, value=1.0)])
            failed = 0
        except MachineError as error:
            listen([Reading(sensor="reachable", device=name, time_s=now_s, status="error", reason=str(error))])
            failed += 1
        done += 1
        wait_s = max(period_s, min(BACKOFF_S * 2**failed, BACKOFF_MAX_S)) if failed else period_s
        due_s = max(began_s + wait_s, due_s + wait_s if not failed else 0.0) if loop.time() < due_s + 2 * period_s else loop.time()

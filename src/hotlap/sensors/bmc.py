"""Hundreds of BMCs polled by Redfish from one process: a task each, so that a dead one delays nobody.

aiohttp is imported when a poll begins: it is the extra `bmc`. Certificates are verified unless a BMC says `insecure = true`.
User and password come from a file that others cannot read, or from HOTLAP_BMC_USER and HOTLAP_BMC_PASSWORD; they are in no
representation and in no message.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.errors import InputError, MachineError, Unavailable, nearest
from hotlap.record import Reading
from hotlap.sensors import redfish

SESSIONS = "/redfish/v1/SessionService/Sessions"
REPORTS = "/redfish/v1/TelemetryService/MetricReports"
CHASSIS = "/redfish/v1/Chassis"
TIMEOUT_S, BACKOFF_S, BACKOFF_MAX_S = 10.0, 1.0, 60.0
MEMBERS_MAX = 512  # resources of one BMC that has no metric reports
KEYS = ("url", "name", "credentials", "cafile", "insecure", "reports")
Listener = Callable[[list[Reading]], None]


@dataclass(frozen=True)
class Credentials:
    """Never shown."""

    user: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True)
class Endpoint:
    """One BMC. `reports` are ids of metric reports; empty: all it has, or its sensors where it has none."""

    url: str
    name: str
    credentials: Credentials | None = None
    cafile: str = ""
    insecure: bool = False
    reports: tuple[str, ...] = ()


def load(path: Path) -> list[Endpoint]:
    """The `[[bmc]]` tables of a TOML file. Raises InputError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f'{path} is no list of BMCs: {error}; write [[bmc]] with url = "https://…" for each') from None
    tables = table.get("bmc")
    if not isinstance(tables, list) or not tables or not all(isinstance(one, dict) for one in tables):
        raise InputError(f'{path} names no BMC; write [[bmc]] with url = "https://…" for each')
    found = [_endpoint(one, f"{path}: bmc {i + 1}", path.parent) for i, one in enumerate(tables)]
    twice = {one.name for one in found if sum(other.name == one.name for other in found) > 1}
    if twice:
        raise InputError(f"{path}: the name {sorted(twice)[0]} stands twice; give each BMC its own")
    return found


def _endpoint(table: dict[str, Any], where: str, folder: Path) -> Endpoint:
    for key in table:
        if key in ("password", "user", "username", "token"):
            raise InputError(
                f'{where}: no {key} here, this file may be shared; name a file by credentials = "…", or set HOTLAP_BMC_PASSWORD'
            )
        if key not in KEYS:
            raise InputError(f"{where}: there is no key '{key}'; {nearest(key, KEYS)}")
    url = table.get("url")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")) or "@" in url:
        raise InputError(f"{where}: url must be https://HOST[:PORT], without user or password in it")
    reports = table.get("reports", [])
    texts = {key: table.get(key, "") for key in ("name", "credentials", "cafile")}
    if (
        not isinstance(reports, list)
        or not all(isinstance(v, str) for v in (*reports, *texts.values()))
        or not isinstance(table.get("insecure", False), bool)
    ):
        raise InputError(f"{where}: name, credentials and cafile are text, reports a list of text, insecure true or false")
    given = credentials(folder / texts["credentials"] if texts["credentials"] else None)
    if given and url.startswith("http://"):
        raise InputError(f"{where}: credentials are not sent without TLS; write https://")
    cafile = str(folder / texts["cafile"]) if texts["cafile"] else ""
    name = texts["name"] or url.partition("//")[2].strip("/")
    return Endpoint(url.rstrip("/"), name, given, cafile, table.get("insecure", False), tuple(reports))


def credentials(path: Path | None) -> Credentials | None:
    """From a TOML file of `user` and `password`, else from the environment; None where there are none. Raises InputError."""
    if path is None:
        user, password = os.environ.get("HOTLAP_BMC_USER", ""), os.environ.get("HOTLAP_BMC_PASSWORD", "")
        return Credentials(user, password) if user and password else None
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InputError(f"{path} can be read by others; chmod 600 {path}")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):  # its message would show a line of the file
        raise InputError(f'{path} is not TOML; write user = "…" and password = "…"') from None
    given = [table.get(key) for key in ("user", "password")]
    if not all(isinstance(one, str) and one for one in given):
        raise InputError(f"{path} lacks user or password, each as text")
    return Credentials(str(given[0]), str(given[1]))


def context(endpoint: Endpoint) -> ssl.SSLContext:
    """Verifying, unless the endpoint says otherwise. Raises InputError for a `cafile` that is none."""
    try:
        made = ssl.create_default_context(cafile=endpoint.cafile or None)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{endpoint.name}: cafile {endpoint.cafile} holds no certificates: {error}") from None
    if endpoint.insecure:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


class Client:
    """One BMC over one kept-alive connection."""

    def __init__(self, endpoint: Endpoint, session: Any, tls: ssl.SSLContext, timeout_s: float = TIMEOUT_S) -> None:
        self.endpoint, self.session, self.tls, self.timeout_s = endpoint, session, tls, timeout_s
        self.headers: dict[str, str] = {}
        self.place = ""  # of our session, to end it by
        self.paths: list[str] | None = [f"{REPORTS}/{name}" for name in endpoint.reports] or None
        self.lock = asyncio.Lock()

    async def poll(self, time_s: float) -> list[Reading]:
        """All of its readings. Raises MachineError with the reason, never with what was sent."""
        try:
            async with asyncio.timeout(self.timeout_s):
                if self.paths is None:
                    self.paths = await self._discover()
                return [reading for path in self.paths for reading in await self._read(path, time_s)]
        except TimeoutError:
            raise MachineError(f"no answer within {self.timeout_s:g} s") from None

    async def close(self) -> None:
        """Ends our session: a BMC has few."""
        if self.place:
            place, self.place = self.place, ""
            try:
                async with asyncio.timeout(2.0):
                    await self._once("DELETE", place)
            except (MachineError, TimeoutError):
                return

    async def _read(self, path: str, time_s: float) -> list[Reading]:
        data = await self.get(path)
        if path.startswith(REPORTS):
            return redfish.report(data, self.endpoint.name, time_s, time.time())
        return redfish.resource(_document(data), self.endpoint.name, time_s)

    async def get(self, path: str) -> bytes:
        """A resource; logs in, and again when the session has ended."""
        if self.endpoint.credentials and not self.headers:
            await self._login()
        status, data, _ = await self._once("GET", path)
        if status == 401 and self.endpoint.credentials:
            await self._login()
            status, data, _ = await self._once("GET", path)
        if status != 200:
            raise _Answered(path, status)
        return data

    async def _login(self) -> None:
        async with self.lock:
            self.headers = {}
            given = self.endpoint.credentials
            assert given is not None
            status, _, headers = await self._once("POST", SESSIONS, {"UserName": given.user, "Password": given.password})
            token = headers.get("X-Auth-Token", "")
            if status not in (200, 201) or not token:
                what = (
                    "the BMC refuses the user or the password" if status in (400, 401, 403) else f"the BMC answers the login with {status}"
                )
                raise MachineError(what)
            self.headers = {"X-Auth-Token": token}
            place = headers.get("Location", "")
            self.place = place.removeprefix(self.endpoint.url) if place else ""

    async def _once(self, verb: str, path: str, body: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
        import aiohttp

        try:
            asked = self.session.request(
                verb, self.endpoint.url + path, json=body, headers=self.headers, ssl=self.tls, allow_redirects=False
            )
            async with asked as answer:
                return answer.status, await answer.read(), answer.headers
        except aiohttp.ClientConnectorCertificateError:
            raise MachineError("its certificate is not trusted; give the authority's by cafile, or insecure = true") from None
        except aiohttp.ClientError as error:
            raise MachineError(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}") from None

    async def _discover(self) -> list[str]:
        """Its metric reports, else the sensors of each chassis, else the older Thermal and Power."""
        try:
            reports = _members(_document(await self.get(REPORTS)))
            if reports:
                return reports
        except _Answered as error:
            if error.status not in (404, 405, 501):
                raise
        found: list[str] = []
        for chassis in _members(_document(await self.get(CHASSIS))):
            found += await self._of_chassis(chassis)
        if not found:
            raise MachineError("the BMC has neither metric reports nor Sensors, Thermal or Power of a chassis")
        return found[:MEMBERS_MAX]

    async def _of_chassis(self, chassis: str) -> list[str]:
        document = _document(await self.get(chassis))
        links = {
            key: str(document[key].get("@odata.id", "")) for key in ("Sensors", "Thermal", "Power") if isinstance(document.get(key), dict)
        }
        if links.get("Sensors"):
            try:
                sensors = _members(_document(await self.get(links["Sensors"])))
                if sensors:
                    return sensors
            except _Answered:
                pass
        return [links[key] for key in ("Thermal", "Power") if links.get(key)]


class _Answered(MachineError):
    """An HTTP status other than 200."""

    def __init__(self, path: str, status: int) -> None:
        super().__init__(f"the BMC answers {path} with {status}")
        self.status = status


def _document(data: bytes) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MachineError("the BMC answers with no JSON") from None


def _members(document: dict[str, Any]) -> list[str]:
    members = document.get("Members")
    return [str(one["@odata.id"]) for one in members if isinstance(one, dict) and "@odata.id" in one] if isinstance(members, list) else []


async def watch(endpoints: Sequence[Endpoint], period_s: float, listen: Listener, rounds: int = 0, timeout_s: float = TIMEOUT_S) -> None:
    """Polls each BMC every `period_s` until cancelled, or `rounds` times; what one fails at is a Reading `reachable` with its reason.

    Polls begin spread over the period, and after failures wait twice as long each time, up to a minute. Raises Unavailable
    without aiohttp.
    """
    try:
        import aiohttp
    except ImportError as error:
        raise Unavailable(f"aiohttp cannot be imported ({error})", "pip install 'hotlap[bmc]'") from error
    contexts = {key: context(one) for one in endpoints for key in [(one.cafile, one.insecure)]}
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=period_s * 2 + 5, ttl_dns_cache=300)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=True) as session:
        clients = [Client(one, session, contexts[one.cafile, one.insecure], timeout_s) for one in endpoints]
        try:
            async with asyncio.TaskGroup() as group:
                for i, client in enumerate(clients):
                    group.create_task(_poll(client, period_s, period_s * i / len(clients), rounds, listen))
        finally:
            await asyncio.gather(*(client.close() for client in clients))


async def _poll(client: Client, period_s: float, delay_s: float, rounds: int, listen: Listener) -> None:
    loop = asyncio.get_running_loop()
    due_s, failed, done = loop.time() + delay_s, 0, 0
    while not rounds or done < rounds:
        await asyncio.sleep(max(due_s - loop.time(), 0.0))
        began_s, now_s = loop.time(), time.monotonic()
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

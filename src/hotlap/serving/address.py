"""Where requests may go: resolved once, loopback unless the user says that the server is theirs."""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from hotlap.core.errors import InputError, MachineError

PATHS = {"chat": "/chat/completions", "completions": "/completions", "embeddings": "/embeddings"}


class Address(NamedTuple):
    """A server. `ip` is what is connected to, and nothing else; `host` stands in headers and certificates."""

    scheme: str
    host: str
    port: int
    ip: str
    base: str  # path before /chat/completions and its like

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.ip).is_loopback

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        return f"{self.scheme}://{self.authority}{self.base}"


def resolve(url: str, is_mine: bool) -> Address:
    """Raises InputError for what is no URL of a server, and for one beyond loopback that the user does not call theirs; MachineError
    where its name is not known."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise InputError(f"'{url}' is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"'{url}' is no URL of a server; write as in http://127.0.0.1:8000")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError("a URL has neither user, password, query nor fragment here; a key comes by --api-key-env")
    addresses = _addresses(parts.hostname, port)
    outside = [ip for ip in addresses if not ipaddress.ip_address(ip).is_loopback]
    if outside and not is_mine:
        raise InputError(
            f"{_named(parts.hostname, outside[0])} is not this machine: load goes to loopback alone; "
            "where that server is yours to load, say --this-server-is-mine"
        )
    return Address(parts.scheme, parts.hostname, port, addresses[0], _base(parts.path))


def _addresses(host: str, port: int) -> list[str]:
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise MachineError(f"the host '{host}' is not known: {getattr(error, 'strerror', None) or error}") from None
    return [str(line[4][0]).partition("%")[0] for line in known]


def _named(host: str, ip: str) -> str:
    return f"'{host}'" if host == ip else f"'{host}' ({ip})"


def _base(path: str) -> str:
    """Without the end of an API, with /v1 where the user gave no path."""
    path = path.rstrip("/")
    for end in sorted(PATHS.values(), key=len, reverse=True):
        path = path.removesuffix(end)
    return path or "/v1"

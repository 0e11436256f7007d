"""Which BMCs there are and how they are reached: a TOML file of [[bmc]] tables.

User and password come from a file that others cannot read, or from HOTLAP_BMC_USER and HOTLAP_BMC_PASSWORD; they are in no
representation and in no message. Certificates are verified unless a BMC says `insecure = true`.
"""

from __future__ import annotations

import os
import ssl
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core.errors import InputError, nearest

KEYS = ("url", "name", "credentials", "cafile", "insecure", "reports")


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
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InputError(f"{path} cannot be read as a list of BMCs: {why}; name a TOML file of [[bmc]] tables") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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

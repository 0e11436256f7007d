"""A configuration of a server as TOML, for `hotlap serving ab`: which server, and what is sent to it.

    [server]
    url = "http://127.0.0.1:8000"      # of one that runs, or of the one that `command` starts; or simulated = "h200-sxm?model=llama-3-8b"
    command = ["vllm", "serve", "…"]
    [load]
    arrivals = "poisson:8"
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.serving import arrivals
from hotlap.serving.record import API
from hotlap.serving.simulated import options as simulated

FEWEST, MOST = 10, 10_000  # requests of a block: the median of fewer is one of them


class ServerSide(msgspec.Struct, frozen=True, kw_only=True):
    """`[server]`: exactly one of `url` and `simulated`."""

    url: str = ""
    simulated: str = ""
    command: list[str] = []  # starts it; it is ended, with all that it started
    environment: dict[str, str] = {}  # beside what there is
    ready: str = ""  # a path that answers 200 once it is; "": /health or the list of models
    ready_within: str = "10 min"
    model: str = ""  # "": the only one that it lists
    api_key_env: str = ""

    @property
    def simulator(self) -> str:
        """Its address, with or without the scheme in the file."""
        return simulated.SCHEME + self.simulated.removeprefix(simulated.SCHEME)

    @property
    def configuration(self) -> str:
        """Of which server numbers are, in a label's letters: those of another one are another series."""
        if self.simulated:
            return _label(self.simulated.removeprefix(simulated.SCHEME))
        how = json.dumps([self.command, sorted(self.environment.items())]) if self.command or self.environment else ""
        started = f" by command {hashlib.sha256(how.encode()).hexdigest()[:6]}" if how else ""
        return _label(f"{self.model} at {self.url}{started}" if self.model else f"{self.url}{started}")

    @property
    def ready_s(self) -> float:
        return float(units.parse(self.ready_within, "s"))


class SideLoad(msgspec.Struct, frozen=True, kw_only=True):
    """`[load]`: the same on both sides. `requests`: of a block, after `warm_up` that do not count."""

    api: API = "chat"
    input: int = 512
    output: int = 128
    arrivals: str = "constant:1"
    requests: int = 20
    warm_up: int = 2
    ignore_eos: bool = False
    timeout: str = "10 min"

    @property
    def pairs(self) -> list[str]:
        """As parameters of a case: what decides how long a request takes."""
        eos = ["ignore_eos=true"] if self.ignore_eos else []
        answer = [] if self.api == "embeddings" else [f"output={self.output}"]
        return [f"api={self.api}", f"input={self.input}", *answer, f"arrivals={self.arrivals}", f"requests={self.requests}", *eos]


class AbSide(NamedTuple):
    """One side. `name`: its file, as the user wrote it."""

    name: str
    server: ServerSide
    load: SideLoad


def read(name: str) -> AbSide:
    """Raises InputError with the file, what is wrong there and what is valid."""
    try:
        table = tomllib.loads(Path(name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}; a configuration is a TOML file") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name} is no TOML: {error}") from None
    for key in table:
        if key not in ("server", "load"):
            raise InputError(f"{name}: no table or key '{key}'; {nearest(key, ('server', 'load'))}")
    server = _table(table, "server", ServerSide, name)
    if server.url.startswith(simulated.SCHEME) and not server.simulated:  # as other verbs take it
        server = msgspec.structs.replace(server, url="", simulated=server.url)
    side = AbSide(name, server, _table(table, "load", SideLoad, name))
    _server(side.server, f"{name} [server]")
    _load(side.load, f"{name} [load]")
    return side


def pair(a: str, b: str, one_at_a_time: bool) -> tuple[AbSide, AbSide]:
    """Both sides. Raises InputError where they do not get the same load, or cannot run beside each other."""
    first, second = read(a), read(b)
    if first.load != second.load:
        differs = ", ".join(_differs(first.load, second.load))
        raise InputError(f"{a} and {b} send different loads ({differs}); make [load] the same: only then the servers are compared")
    urls = [side.server.url.rstrip("/") for side in (first, second)]
    if urls[0] and urls[0] == urls[1]:
        started = [bool(side.server.command) for side in (first, second)]
        if started[0] != started[1]:
            raise InputError(f"{a} and {b} both say {urls[0]}, and only one has a command: give the servers different ports")
        if all(started) and not one_at_a_time:
            raise InputError(f"{a} and {b} both start a server at {urls[0]}: give them different ports, or say --one-at-a-time")
    return first, second


def changed(load: SideLoad, changes: Mapping[str, str], name: str) -> SideLoad:
    """A load with other values, given as text. Raises InputError."""
    if not changes:
        return load
    new: SideLoad = _table({"load": {**msgspec.to_builtins(load), **changes}}, "load", SideLoad, name, strict=False)
    _load(new, f"{name} [load]")
    return new


def _differs(a: SideLoad, b: SideLoad) -> list[str]:
    ours, theirs = msgspec.to_builtins(a), msgspec.to_builtins(b)
    return [f"{name}: {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]]


def _table(table: Mapping[str, Any], name: str, kind: type[Any], file: str, strict: bool = True) -> Any:
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise InputError(f"{file}: {name} is a table, as in [{name}]")
    for key in given:
        if key not in kind.__struct_fields__:
            raise InputError(f"{file} [{name}]: no key '{key}'; {nearest(key, kind.__struct_fields__)}")
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise InputError(f"{file} [{name}]: {str(error)[:1].lower()}{str(error)[1:]}") from None


def _server(server: ServerSide, where: str) -> None:
    if bool(server.url) == bool(server.simulated):
        what = "both url and simulated: leave one out" if server.url else "neither url nor simulated"
        raise InputError(f"{where} has {what}; as in url = \"http://127.0.0.1:8000\", or simulated = \"h200-sxm?model=llama-3-8b&tp=1\"")
    if server.simulated and server.command:
        raise InputError(f"{where}: a simulated server needs no command; leave it out")
    if server.simulated:
        with _named(where):
            simulated.parse(server.simulator)
    if server.command and not server.command[0].strip():
        raise InputError(f"{where}: command is empty; as in command = [\"vllm\", \"serve\", \"NAME\", \"--port\", \"8000\"]")
    if not server.command and (server.environment or server.ready):
        raise InputError(f"{where}: environment and ready are of a server that command starts")
    if server.ready and not server.ready.startswith("/"):
        raise InputError(f"{where}: ready is a path, as in /health, not '{server.ready}'")
    for key, value in server.environment.items():
        if not key or "=" in key or "\0" in key + value:
            raise InputError(f"{where}: '{key}' is no name of the environment")
    _time(server.ready_within, f"{where}: ready_within")
    if server.api_key_env and not os.environ.get(server.api_key_env):
        raise InputError(f"{where}: api_key_env: there is no variable {server.api_key_env} in the environment, or it is empty")


def _load(load: SideLoad, where: str) -> None:
    with _named(where):
        process = arrivals.parse(load.arrivals)
    if process.kind == "ramp":
        raise InputError(f"{where}: a ramp changes the rate within a block; take constant, poisson, gamma or closed arrivals")
    for name, least, most in (("input", 1, 10**7), ("output", 1, 10**7), ("requests", FEWEST, MOST), ("warm_up", 0, MOST)):
        if not least <= getattr(load, name) <= most:
            raise InputError(f"{where}: {name} is a whole number from {least} to {most}, not {getattr(load, name)}")
    _time(load.timeout, f"{where}: timeout")


def _label(text: str) -> str:
    return " ".join(text.replace(",", ";").split())


def _time(text: str, where: str) -> None:
    with _named(where):
        value = units.parse(text, "s")
    if not 0 < value <= arrivals.MOST_S:
        raise InputError(f"{where} is a time above 0 and at most 24 h, not '{text}'")


@contextmanager
def _named(where: str) -> Iterator[None]:
    """What is refused inside is refused with its place."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None

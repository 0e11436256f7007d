"""A program that stands where `ssh -T HOST COMMAND` would: it reaches a host by asyncssh, which is Python, where there is no OpenSSH.

    python -m hotlap.cluster.launch.ssh_bridge HOST CONFIG COMMAND      CONFIG as for ssh's -F, or "" for the user's and the system's

Standard streams are pipes, and lead to the command's; its exit status is this program's. It reads the same configuration and the same
known_hosts as OpenSSH does, asks nobody for anything, and checks the host key of every host on the way: `StrictHostKeyChecking no` changes
nothing. Where the way fails, the last line of standard error is a JSON object that says how: `bridge` is one of FAILURES.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LOST = 255  # the exit status that ssh has where the way fails
FAILURES = ("changed key", "unknown key", "no key taken", "no name", "refused connection", "no answer", "no way")
SYSTEM = (Path("/etc/ssh/ssh_config"), Path("/etc/ssh/ssh_known_hosts"))
MOST_HOPS = 8


class KeyFailure(Exception):
    """`kind`: one of FAILURES."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def known_hosts(ssh: Any, options: Any) -> Any:
    """The keys of the files that are there; never asyncssh's None, which checks nothing. Raises ValueError for a file that is none."""
    user = options.config.get("UserKnownHostsFile", ["~/.ssh/known_hosts"])
    known = ssh.SSHKnownHosts()
    for path in (Path(name).expanduser() for name in [*user, *options.config.get("GlobalKnownHostsFile", [SYSTEM[1]])]):
        if path.is_file():
            known.load(path.read_text(encoding="utf-8", errors="replace"))
    return known


def keys(options: Any) -> dict[str, Any]:
    """Of the user: where files of the configuration are missing, those that are there; asyncssh would end."""
    named = options.config.get("IdentityFile", ())
    there = [name for name in named if Path(name).expanduser().is_file()]
    return {} if len(there) == len(named) else {"client_keys": there or None, "ignore_encrypted": True}


async def connected(ssh: Any, address: str, config: str, over: Any = None, port: Any = (), hops: int = 0) -> Any:
    """A connection whose host key is known, through the jump hosts of the configuration. Raises what asyncssh raises, and KeyFailure."""
    user, _, host = address.rpartition("@")
    files = [config] if config else [path for path in (Path("~/.ssh/config").expanduser(), SYSTEM[0]) if path.is_file()]
    chosen = {"config": files, "username": user or (), "port": port}
    options = ssh.SSHClientConnectionOptions(host=host, client_keys=None, agent_identities=None, **chosen)
    if hops > MOST_HOPS:
        raise ValueError(f"its jump hosts are more than {MOST_HOPS}, or lead in a circle")
    for hop in (options.tunnel or "").split(",") if over is None else ():
        at, _, number = hop.partition(":")
        if at and at.rpartition("@")[2] != host:
            over = await connected(ssh, at, config, over, int(number) if number else (), hops + 1)
    known = known_hosts(ssh, options)
    try:
        return await ssh.connect(
            host, tunnel=over, known_hosts=lambda name, _, port: known.match(name, "", port)[:3], x509_trusted_certs=None,  # by name alone
            password_auth=False, kbdint_auth=False, agent_forwarding=False, x11_forwarding=False, connect_timeout=20, login_timeout=60,
            keepalive_interval=5, keepalive_count_max=3, **keys(options), **chosen,
        )  # fmt: skip
    except (ssh.HostKeyNotVerifiable, ssh.KeyExchangeFailed) as error:
        if isinstance(error, ssh.KeyExchangeFailed) and "host key" not in str(error):
            raise
        name = options.host_key_alias or options.host
        standing = known.match(name, "", None if options.port == 22 else options.port)[:2]
        raise KeyFailure("changed key" if any(standing) else "unknown key") from None


async def bridged(ssh: Any, address: str, config: str, command: str) -> int:
    """The command's exit status, once its output has been passed on."""
    async with await connected(ssh, address, config) as connection:
        streams = {name: os.dup(number) for number, name in enumerate(("stdin", "stdout", "stderr"))}  # asyncssh closes what it is given
        process = await connection.create_process(command, encoding=None, request_pty=False, bufsize=1 << 16, **streams)
        await process.wait()
        if process.exit_status is None:
            raise ConnectionError(f"killed by SIG{process.exit_signal[0]}" if process.exit_signal else "the connection was lost")
        return int(process.exit_status)


def failed(ssh: Any, error: BaseException) -> str:
    """Which of FAILURES it is."""
    if isinstance(error, KeyFailure):
        return error.kind
    kinds: Iterable[tuple[type[BaseException], str]] = (
        (ssh.PermissionDenied, "no key taken"), (socket.gaierror, "no name"), (ConnectionRefusedError, "refused connection"),
        (TimeoutError, "no answer"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(error, kind)), "no way")


def main(argv: list[str]) -> int:
    import asyncssh

    address, config, command = argv
    try:
        return asyncio.run(bridged(asyncssh, address, config, command))
    except Exception as error:  # whatever it is, the controller has to be told
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        sys.stderr.flush()
        print(f"\n{json.dumps({'bridge': failed(asyncssh, error), 'detail': detail})}", file=sys.stderr, flush=True)
        return LOST


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

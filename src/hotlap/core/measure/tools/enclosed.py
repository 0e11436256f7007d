"""Starts a program of others behind a wall: a network namespace of its own, limits on memory, output into files, a server beside it.

Run as a script by `running`, with one JSON argument, so that nothing of it is in the tool's process but what the kernel keeps:
network (host, loopback, none), memory_bytes, argv, server, port, stdout, stderr. Its exit status is the program's; NOT_CLOSED where the
namespace is refused, NOT_STARTED where the program or its server cannot be started, with the reason on standard error.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

NOT_CLOSED, NOT_STARTED = 77, 78
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # linux/sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1  # linux/sockios.h, linux/if.h
LISTENS = "0A"  # of /proc/net/tcp: TCP_LISTEN
SERVER_S = 5.0  # to begin to listen


def main(job: dict[str, Any]) -> int:
    """Does not return where there is no server: the program takes this process."""
    if job["network"] != "host" and not _close_network(up=job["network"] == "loopback"):
        return NOT_CLOSED
    if job.get("memory_bytes"):
        resource.setrlimit(resource.RLIMIT_AS, (job["memory_bytes"], job["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    words = os.dup(2)
    try:
        server = _serve(job) if job.get("server") else None
        for name, stream in (("stdout", 1), ("stderr", 2)):
            if job.get(name):
                file = os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(file, stream)
                os.close(file)
        if server is None:
            os.set_inheritable(words, False)
            os.execvp(job["argv"][0], job["argv"])
        with server:
            try:
                return _status(subprocess.Popen(job["argv"], stdin=subprocess.DEVNULL).wait())
            finally:
                server.kill()
    except (OSError, ValueError) as error:
        os.write(words, f"{error}\n".encode())
        return NOT_STARTED


def _status(code: int) -> int:
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _close_network(up: bool) -> bool:
    """A network namespace of its own, by a user namespace where that takes one; with its loopback up or not."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            return False
        try:
            for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        except OSError:
            return False
    return _loopback_up() if up else True


def _loopback_up() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            asked = struct.pack("16sh14x", b"lo", 0)
            flags = struct.unpack("16sh14x", fcntl.ioctl(channel, SIOCGIFFLAGS, asked))[1]
            fcntl.ioctl(channel, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
    except OSError:
        return False
    return True


def _serve(job: dict[str, Any]) -> subprocess.Popen[bytes]:
    """The server, once it listens. It is looked for in the kernel's table: a connection would be a client to it."""
    server = subprocess.Popen(job["server"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + SERVER_S
    while not _listening(job["port"]):
        if server.poll() not in (None, 0):  # 0: it went into the background
            raise ValueError(f"the server {job['server'][0]} ended with status {server.returncode}")
        if time.monotonic() > until:
            server.kill()
            raise ValueError(f"the server {job['server'][0]} did not listen on port {job['port']} within {SERVER_S:g} s")
        time.sleep(0.01)
    return server


def _listening(port: int) -> bool:
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/self/net/{name}") as file:
                lines = [line.split() for line in file][1:]
        except OSError:
            continue
        if any(words[3] == LISTENS and int(words[1].rpartition(":")[2], 16) == port for words in lines):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

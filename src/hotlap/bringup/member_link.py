"""Which network interface of a member has an address, and what its link can carry. It is sent to members: standard library only, Python 3.9
or later."""

from __future__ import annotations

import fcntl
import glob
import os
import socket
import struct
from typing import Any

SIOCGIFADDR = 0x8915
ADAPTERS = "/sys/class/infiniband/*"  # of RDMA


def facts(address: str, root: str = "/sys/class/net") -> dict[str, Any]:
    """`interface` "" where none has the address; `mbps` 0 where the kernel says none; `virtual`: it has no device, and the
    speed it says means nothing; `rdma`: adapters."""
    name = interface(address)
    folder = os.path.join(root, name)
    known = {"interface": name, "rdma": len(glob.glob(ADAPTERS))}
    if not name:
        return dict(known, mbps=0, mtu=0, virtual=True)
    virtual = not os.path.exists(os.path.join(folder, "device"))
    return dict(known, mbps=max(_number(folder, "speed"), 0), mtu=_number(folder, "mtu"), virtual=virtual)


def interface(address: str) -> str:
    for _, name in socket.if_nameindex():
        if ":" in address:
            if name in _six(address):
                return name
        elif address == _four(name):
            return name
    return ""


def _four(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def _six(address: str) -> list[str]:
    try:
        wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
        with open("/proc/net/if_inet6") as file:
            return [line.split()[-1] for line in file if line.split()[0] == wanted]
    except OSError:
        return []


def _number(folder: str, name: str) -> int:
    try:
        with open(os.path.join(folder, name)) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0

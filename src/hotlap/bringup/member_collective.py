"""Collective operations between the members of a gang: what each of them runs in a round. By TCP it needs the standard library only, of
Python 3.9 or later; by gloo PyTorch.

By TCP: a ring, in which parts are combined by exclusive or; all-to-all by pairs. Results are checked, as nccl-tests does it.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

PATIENCE_S = 60.0


class Mesh:
    """A connection to every other rank. The first message of each says who it is."""

    def __init__(self) -> None:
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.peers: dict[int, socket.socket] = {}
        places = self._places()
        for other in range(self.rank):
            stream = _dial(places[other])
            stream.sendall(struct.pack("!I", self.rank))
            self.peers[other] = stream
        while len(self.peers) < self.world - 1:
            stream = self.listening.accept()[0]
            self.peers[struct.unpack("!I", _take(stream, 4))[0]] = stream
        for stream in self.peers.values():
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.settimeout(PATIENCE_S)

    def _places(self) -> list[tuple[str, int]]:
        """Addresses and ports of all; rank 0 gathers them."""
        addresses = os.environ["HOTLAP_GANG"].split(",")
        self.listening = _listening(0, self.world)
        self.listening.settimeout(PATIENCE_S)
        port, master = self.listening.getsockname()[1], (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        ports = {0: port}
        if self.rank == 0:
            with _listening(master[1], self.world) as server:
                server.settimeout(PATIENCE_S)
                callers = [server.accept()[0] for _ in range(self.world - 1)]
                for caller in callers:
                    rank, theirs = struct.unpack("!II", _take(caller, 8))
                    ports[rank] = theirs
                for caller in callers:
                    caller.sendall(struct.pack(f"!{self.world}I", *(ports[rank] for rank in range(self.world))))
                    caller.close()
            return [(addresses[rank], ports[rank]) for rank in range(self.world)]
        with _dial(master) as caller:
            caller.sendall(struct.pack("!II", self.rank, port))
            taken = struct.unpack(f"!{self.world}I", _take(caller, 4 * self.world))
        return [(addresses[rank], taken[rank]) for rank in range(self.world)]

    def exchange(self, to: int, data: Any, source: int, size: int) -> bytes:
        """Sends to one rank while it takes from another."""
        sending = threading.Thread(target=self.peers[to].sendall, args=(data,))
        sending.start()
        taken = _take(self.peers[source], size)
        sending.join()
        return taken

    def barrier(self) -> None:
        """Twice around the ring."""
        for _ in range(2):
            if self.rank == 0:
                self.peers[1 % self.world].sendall(b"b")
                _take(self.peers[self.world - 1], 1)
            else:
                _take(self.peers[self.rank - 1], 1)
                self.peers[(self.rank + 1) % self.world].sendall(b"b")

    # ------------------------------------------------------------ operations: the buffer's parts before → after

    def reduce_scatter(self, parts: list[bytes]) -> list[bytes]:
        """Part `rank + 1` is whole afterwards."""
        ahead, behind = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        for step in range(self.world - 1):
            mine, theirs = (self.rank - step) % self.world, (self.rank - step - 1) % self.world
            taken = self.exchange(ahead, parts[mine], behind, len(parts[theirs]))
            both = int.from_bytes(taken, "big") ^ int.from_bytes(parts[theirs], "big")
            parts[theirs] = both.to_bytes(len(taken), "big")
        return parts

    def all_gather(self, parts: list[bytes], first: int = 0) -> list[bytes]:
        """`first`: 0 where each rank has its own part, 1 after a reduce-scatter."""
        ahead, behind = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        for step in range(self.world - 1):
            mine, theirs = (self.rank + first - step) % self.world, (self.rank + first - step - 1) % self.world
            parts[theirs] = self.exchange(ahead, parts[mine], behind, len(parts[theirs]))
        return parts

    def all_reduce(self, parts: list[bytes]) -> list[bytes]:
        return self.all_gather(self.reduce_scatter(parts), 1)

    def alltoall(self, parts: list[bytes]) -> list[bytes]:
        """Part i goes to rank i."""
        after = list(parts)
        for step in range(1, self.world):
            to, source = (self.rank + step) % self.world, (self.rank - step) % self.world
            after[source] = self.exchange(to, parts[to], source, len(parts[self.rank]))
        return after

    def broadcast(self, parts: list[bytes]) -> list[bytes]:
        """Of rank 0, down the ring, a part after the other."""
        for place, part in enumerate(parts):
            if self.rank:
                parts[place] = _take(self.peers[self.rank - 1], len(part))
            if self.rank < self.world - 1:
                self.peers[self.rank + 1].sendall(parts[place])
        return parts


def _listening(port: int, backlog: int) -> socket.socket:
    """By IPv4 and IPv6, where there is that."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=backlog)


def _dial(place: tuple[str, int]) -> socket.socket:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            stream = socket.create_connection(place, timeout=PATIENCE_S)
            stream.settimeout(PATIENCE_S)
            return stream
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)


def _take(stream: socket.socket, size: int) -> bytes:
    data, at = bytearray(size), 0
    view = memoryview(data)
    while at < size:
        count = stream.recv_into(view[at:])
        if not count:
            raise ConnectionError("another rank went away")
        at += count
    return bytes(data)


def _parts(op: str, rank: int, world: int, size: int) -> list[bytes]:
    """Each part of a rank's buffer before: a byte that says whose it is and which. `size`: of the whole buffer, a multiple of the ranks."""
    return [bytes([(rank * 31 + place * 7) % 256]) * (size // world) for place in range(world)]


def wanted(op: str, rank: int, world: int, place: int) -> int | None:
    """The byte that fills a part afterwards; None: nothing is asked of that part."""
    if op == "broadcast":
        return place * 7 % 256
    if op == "all_gather":
        return (place * 31 + place * 7) % 256
    if op == "alltoall":
        return (place * 31 + rank * 7) % 256
    whole = 0
    for each in range(world):
        whole ^= (each * 31 + place * 7) % 256
    return whole if op == "all_reduce" or place == (rank + 1) % world else None


def by_tcp(op: str, sizes: list[int], iterations: int) -> None:
    mesh = Mesh()
    _tell_link(mesh.rank)
    act = getattr(mesh, op)
    for size in sizes:
        before = _parts(op, mesh.rank, mesh.world, size)
        after = act(list(before))  # warms up, and is checked
        wrong = sum(
            expected is not None and part != bytes([expected]) * len(part)
            for part, expected in ((part, wanted(op, mesh.rank, mesh.world, place)) for place, part in enumerate(after))
        )
        mesh.barrier()
        began_s = time.perf_counter()
        for _ in range(iterations):
            act(list(before))
        _tell(op, size, (time.perf_counter() - began_s) / iterations, wrong)


def by_gloo(op: str, sizes: list[int], iterations: int) -> None:
    by_torch("gloo", op, sizes, iterations)


def by_nccl(op: str, sizes: list[int], iterations: int) -> None:
    """A GPU for each rank, by its place on its machine. Ends where there is none, before it joins the others."""
    import torch

    place, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if place >= count or not torch.distributed.is_nccl_available():
        what = f"{count} CUDA GPUs for rank {place + 1} of this machine" if place >= count else "no NCCL in this PyTorch"
        sys.exit(f"nccl needs a GPU for each rank, and there is {what}; --by gloo needs none")
    torch.cuda.set_device(place)
    by_torch("nccl", op, sizes, iterations, f"cuda:{place}")


def by_torch(backend: str, op: str, sizes: list[int], iterations: int, device: str = "cpu") -> None:
    """On tensors of float32; `device`: where they are. A GPU's time ends when it is idle."""
    import torch
    import torch.distributed as dist

    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    _tell_link(rank)

    def settle() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    def act(whole: Any, parts: list[Any]) -> None:
        if op == "all_reduce":
            dist.all_reduce(whole)
        elif op == "broadcast":
            dist.broadcast(whole, 0)
        elif op == "all_gather":
            dist.all_gather(parts, whole[: len(parts[0])])
        elif op == "reduce_scatter":
            dist.reduce_scatter(parts[rank], list(whole.chunk(world)))
        else:
            dist.all_to_all(parts, list(whole.chunk(world)))

    for size in sizes:
        whole = torch.full((size // 4,), rank + 1.0, device=device)
        parts = [torch.empty(size // 4 // world, device=device) for _ in range(world)]
        act(whole, parts)  # warms up, and is checked
        settle()
        summed = world * (world + 1) / 2
        right = {"all_reduce": summed, "reduce_scatter": summed, "broadcast": 1.0}
        results = [whole] if op in ("all_reduce", "broadcast") else [parts[rank]] if op == "reduce_scatter" else parts
        wrong = sum(bool((part != right.get(op, place + 1.0)).any()) for place, part in enumerate(results))
        whole.zero_()  # sums of sums overflow, and infinities may be slow
        dist.barrier()
        settle()
        began_s = time.perf_counter()
        for _ in range(iterations):
            act(whole, parts)
        settle()
        _tell(op, size, (time.perf_counter() - began_s) / iterations, wrong)
    dist.destroy_process_group()


def _tell_link(rank: int) -> None:
    """What `member_link`, beside this file, says of this rank's address."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        known = importlib.import_module("member_link").facts(os.environ["HOTLAP_GANG"].split(",")[rank])
    except (ImportError, OSError, KeyError):
        return
    print(json.dumps({"link": known}), flush=True)


def _tell(op: str, size: int, time_s: float, wrong: int) -> None:
    print(json.dumps({"op": op, "size": size, "time_s": time_s, "wrong": wrong}), flush=True)


def main() -> None:
    """Arguments: the operation, sizes with commas, iterations, tcp, gloo or nccl."""
    op, sizes, iterations, way = sys.argv[1:5]
    {"tcp": by_tcp, "gloo": by_gloo, "nccl": by_nccl}[way](op, [int(size) for size in sizes.split(",")], int(iterations))


if __name__ == "__main__":
    main()

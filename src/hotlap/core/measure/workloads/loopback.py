"""One TCP connection on 127.0.0.1 to a process of its own: bytes one way, or messages there and back."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import zlib

import numpy as np

from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.workloads import receiver
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.record import Case, Check
from hotlap.core.work.base import integer
from hotlap.core.work.host import ROUNDTRIP

PATIENCE_S = 30  # that the other side may be silent
END_S = 5.0  # that it may take to end
ACKNOWLEDGED = 2**25  # bytes of a batch at least, whose end is acknowledged once, but for batches of MOST messages
MOST = 1024
ECHOES = 64  # that are checked


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Starts the other process. Raises NotSupported where there is no loopback."""
    message = integer(case.params, "message")
    peer = LoopbackPeer(message)
    return (_echoed if case.workload == ROUNDTRIP.name else _streamed)(peer, message, rng)


def _streamed(peer: LoopbackPeer, message: int, rng: np.random.Generator) -> Prepared:
    data, most = rng.bytes(message), max(min(ACKNOWLEDGED // message, MOST), 1)

    def enqueue(calls: int) -> None:
        peer.take(data, calls)

    def check() -> Check:
        fresh = [rng.bytes(message) for _ in range(min(most, 8))]
        return _checked(peer, peer.sum(fresh))

    return Prepared(enqueue, check, timer="wall", multiple=most, variant="tcp", close=peer.close, helpers=(peer.pid,))


def _echoed(peer: LoopbackPeer, message: int, rng: np.random.Generator) -> Prepared:
    data = rng.bytes(message)

    def enqueue(calls: int) -> None:
        peer.echo(data, calls)

    def check() -> Check:
        fresh = [rng.bytes(message) for _ in range(min(max(ACKNOWLEDGED // message, 1), ECHOES))]
        return _checked(peer, all(peer.echo(one, 1) == one for one in fresh) and peer.sum(fresh[:1]))

    return Prepared(enqueue, check, timer="wall", variant="tcp", close=peer.close, helpers=(peer.pid,))


def _checked(peer: LoopbackPeer, same: bool) -> Check:
    lost = peer.sent - peer.received
    what = f"{peer.sent} bytes sent and as many received; CRC-32 of fresh ones"
    return Check(passed=same and lost == 0, what=what, error=float(abs(lost) or not same), tolerance=0.0)


class LoopbackPeer:
    """The other process and the connection to it. `sent`, `received`: bytes of messages, by this side and by the other's count."""

    def __init__(self, message: int) -> None:
        self.sent = self.received = 0
        self.room = memoryview(bytearray(message))
        self.connection, there = _connected()
        with there:
            argv = [sys.executable, "-I", "-S", receiver.__file__, str(there.fileno()), str(max(message, receiver.AT_ONCE))]
            try:
                self.process = subprocess.Popen(
                    argv, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            except BaseException:
                self.connection.close()
                raise
        self.pid = self.process.pid

    def take(self, data: bytes, messages: int) -> None:
        """Sends and waits until all has arrived."""
        send = self.connection.sendall
        try:
            send(receiver.HEAD.pack(receiver.TAKE, messages, len(data)))
            for _ in range(messages):
                send(data)
        except OSError as error:
            raise _gone(error) from None
        self.sent += messages * len(data)
        self._replied()

    def sum(self, messages: list[bytes]) -> bool:
        """Sends messages of one length; whether the other side has the same checksum of them."""
        crc = 0
        try:
            self.connection.sendall(receiver.HEAD.pack(receiver.SUM, len(messages), len(messages[0])))
            for one in messages:
                self.connection.sendall(one)
                crc = zlib.crc32(one, crc)
        except OSError as error:
            raise _gone(error) from None
        self.sent += sum(map(len, messages))
        return self._replied() == crc

    def echo(self, data: bytes, messages: int) -> memoryview:
        """Sends a message and takes it back, one after another; the last one that came back."""
        send, take, room, size = self.connection.sendall, self.connection.recv_into, self.room, len(data)
        try:
            send(receiver.HEAD.pack(receiver.ECHO, messages, size))
            for _ in range(messages):
                send(data)
                if take(room, size, socket.MSG_WAITALL) != size:
                    raise _gone()
        except OSError as error:
            raise _gone(error) from None
        self.sent += messages * size
        return room

    def _replied(self) -> int:
        try:
            reply = self.connection.recv(receiver.REPLY.size, socket.MSG_WAITALL)
        except OSError as error:
            raise _gone(error) from None
        if len(reply) != receiver.REPLY.size:
            raise _gone()
        self.received, crc = receiver.REPLY.unpack(reply)
        return int(crc)

    def close(self) -> None:
        """The process ends with the connection, and is waited for."""
        self.connection.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection that nobody else can be at."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            here = socket.create_connection(server.getsockname(), PATIENCE_S)
            there, address = server.accept()
            while address != here.getsockname():
                there.close()
                there, address = server.accept()
    except OSError as error:
        raise NotSupported(f"no TCP connection on 127.0.0.1: {error.strerror or error}") from None
    here.settimeout(None)
    for end in (here, there):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # by the system: a timeout of Python's would ask it before each call
        here.setsockopt(socket.SOL_SOCKET, way, struct.pack("@ll", PATIENCE_S, 0))
    return here, there


def _gone(error: OSError | None = None) -> HotlapError:
    why = f" ({error.strerror})" if error and error.strerror else ""
    return HotlapError(f"the process at the other end of the connection does not answer{why}")

"""The other end of a TCP connection: a process of its own that receives, counts and answers. It ends when the connection does.

It is run as a file, without Hotlap: `receiver.py FILE_DESCRIPTOR BYTES_AT_ONCE`. The protocol: a head (`HEAD`: what to do, how many
messages, of how many bytes), then the messages. `TAKE` and `SUM` are answered once (`REPLY`: bytes received in all, CRC-32 of these
messages, 0 for `TAKE`), `ECHO` with each message itself.
"""

from __future__ import annotations

import socket
import struct
import sys
import zlib

HEAD, REPLY = struct.Struct("<cQQ"), struct.Struct("<QI")
TAKE, SUM, ECHO = b"t", b"s", b"e"
AT_ONCE = 2**17  # bytes of a receive, at least


def serve(connection: socket.socket, at_once: int) -> None:
    """Until the other side closes."""
    room, total = memoryview(bytearray(at_once)), 0
    while len(head := connection.recv(HEAD.size, socket.MSG_WAITALL)) == HEAD.size:
        what, messages, size = HEAD.unpack(head)
        if what == ECHO:
            total += _echo(connection, messages, room[:size])
            continue
        left, crc = messages * size, 0
        while left:
            got = connection.recv_into(room, min(left, at_once))
            if not got:
                return
            left, total = left - got, total + got
            if what == SUM:
                crc = zlib.crc32(room[:got], crc)
        connection.sendall(REPLY.pack(total, crc))


def _echo(connection: socket.socket, messages: int, room: memoryview) -> int:
    """Bytes received."""
    size = len(room)
    for number in range(messages):
        if connection.recv_into(room, size, socket.MSG_WAITALL) != size:
            return number * size
        connection.sendall(room)
    return messages * size


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _connection:
        try:
            serve(_connection, int(sys.argv[2]))
        except (ConnectionError, BlockingIOError):
            sys.exit(1)  # the other side is gone

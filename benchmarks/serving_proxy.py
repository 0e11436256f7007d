"""A proxy before a server of models that makes every answer take longer, byte by byte, by a factor: a change of a known size.

    python benchmarks/serving_proxy.py http://127.0.0.1:8000 --port 8001 --factor 1.1

What the server sends `t` seconds after a request had come is passed on `factor · t` seconds after it. Requests are passed on at once.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import suppress
from urllib.parse import urlsplit


async def passed(client: tuple[asyncio.StreamReader, asyncio.StreamWriter], server: tuple[str, int], factor: float) -> None:
    """One connection of a client, with one of its own to the server."""
    reader, writer = client
    began_s = [time.monotonic()]
    upstream: asyncio.StreamWriter | None = None
    try:
        back, upstream = await asyncio.open_connection(*server)

        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()  # when each piece is due, by when it came

        async def answers() -> None:
            while data := await back.read(65536):
                waiting.put_nowait((began_s[0] + factor * (time.monotonic() - began_s[0]), data))
            await waiting.join()

        async def pass_on() -> None:
            while True:
                due_s, data = await waiting.get()
                await asyncio.sleep(max(due_s - time.monotonic(), 0))
                writer.write(data)
                await writer.drain()
                waiting.task_done()

        async def requests(out: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                began_s[0] = time.monotonic()
                out.write(data)
                await out.drain()

        tasks = [asyncio.create_task(one) for one in (answers(), requests(upstream), pass_on())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    except OSError:
        pass  # the client sees that its connection ends
    finally:
        for end in (writer, upstream):
            if end is not None:
                with suppress(OSError):
                    end.close()


async def serve(url: str, port: int, factor: float) -> None:
    parts = urlsplit(url)
    server = (parts.hostname or "127.0.0.1", parts.port or 80)
    listening = await asyncio.start_server(lambda *client: passed(client, server, factor), "127.0.0.1", port)
    print(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", flush=True)
    async with listening:
        await listening.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--factor", type=float, default=1.1)
    args = parser.parse_args()
    asyncio.run(serve(args.url, args.port, args.factor))


if __name__ == "__main__":
    main()

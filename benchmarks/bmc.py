"""What polling many BMCs costs: simulated ones over kept-alive TLS, one process asking, another answering.

    python benchmarks/bmc.py FOLDER [--bmcs 500] [--every 10] [--seconds 60] [--reports environment|all] [--dead 5] [--json]
    python benchmarks/bmc.py FOLDER --clients [--rounds 7] [--gets 2000] [--connections 1] [--reports environment|all] [--json]

FOLDER holds a recorded BMC as JSON files, one resource each, its path with _ for /. `share` is the client process's CPU time
÷ wall time once all connections stand; `late_s` is the worst delay of a poll of a living BMC after its time.

--clients holds aiohttp against httpx (pip install httpx; nothing else needs it): CPU time per report of a process that does nothing but
fetch over kept-alive TLS, each client a process of its own, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import random
import re
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hotlap.nodes.sensors import bmc, redfish_tree
from hotlap.nodes.sensors.bmc_file import Endpoint

PROMISED_SHARE = {"environment": 0.5, "all": 1.0}
ENVIRONMENT = ("HGX_PlatformEnvironmentMetrics_0", "PlatformEnvironmentMetrics_0")


def address(i: int) -> str:
    """A loopback address of its own, so that every BMC has its own connection."""
    return f"127.0.{1 + i // 250}.{1 + i % 250}"


def serve(folder: str, tls: tuple[str, str], ready: Any) -> None:
    """Answers GET of the folder's metric reports until killed, with HTTP/1.1 by hand: as little cost beside the client's as may be."""
    answers, now = dict[str, bytes](), dict[str, bytes]()
    for file in Path(folder).glob("*_MetricReports_*.json"):
        body = file.read_bytes()
        path = f"{redfish_tree.REPORTS}/{file.stem.partition('_MetricReports_')[2]}"
        answers[path] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                writer.write(now.get(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def move() -> None:  # a BMC whose times stand still is stale
        while True:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()).encode()
            now.update({path: TIME.sub(stamp, answer) for path, answer in answers.items()})
            await asyncio.sleep(5)

    async def main() -> None:
        moving = asyncio.create_task(move())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server = await asyncio.start_server(answer, "0.0.0.0", 0, ssl=context, backlog=1024)
        ready.put(server.sockets[0].getsockname()[1])
        await asyncio.gather(server.serve_forever(), moving)

    asyncio.run(main())


TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
WARM = 200


async def with_aiohttp(urls: list[str], cafile: str, count: int) -> int:
    """Bytes of all answers."""
    import aiohttp

    tls = ssl.create_default_context(cafile=cafile)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=count)) as session:

        async def size(url: str) -> int:
            async with session.get(url, ssl=tls) as answer:
                return len(await answer.read())

        return await spread(urls, size, count)


async def with_httpx(urls: list[str], cafile: str, count: int) -> int:
    """Bytes of all answers."""
    import httpx

    tls = ssl.create_default_context(cafile=cafile)
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx.AsyncClient(verify=tls, limits=limits, trust_env=False) as session:

        async def size(url: str) -> int:
            return len((await session.get(url)).content)

        return await spread(urls, size, count)


async def spread(urls: list[str], get: Callable[[str], Coroutine[Any, Any, int]], count: int) -> int:
    """All urls by so many workers; CPU_S gets the CPU time of those after the first WARM."""
    waiting = iter(urls)
    total = 0

    async def worker(left: Any) -> None:
        nonlocal total
        for url in left:
            size = await get(url)
            total += size

    for share in (itertools.islice(waiting, WARM), waiting):
        began_s, total = time.process_time(), 0
        await asyncio.gather(*(worker(share) for _ in range(count)))
        CPU_S[0] = time.process_time() - began_s
    return total


CPU_S = [0.0]
CLIENTS = {"aiohttp": with_aiohttp, "httpx": with_httpx}


def fetch(name: str, urls: list[str], where: tuple[str, int], done: Any) -> None:
    """In a process of its own: CPU seconds per report, and bytes."""
    size = asyncio.run(CLIENTS[name](urls, *where))
    done.put((CPU_S[0] / (len(urls) - WARM), size))


def clients(port: int, where: tuple[str, int], reports: tuple[str, ...], rounds: int, gets: int) -> dict[str, Any]:
    """CPU time per report by client, median and all rounds; the ratio, median and extremes over rounds."""
    place = f"https://{address(0)}:{port}{redfish_tree.REPORTS}"
    urls = [f"{place}/{name}" for name in itertools.islice(itertools.cycle(reports), gets + WARM)]
    spawn = multiprocessing.get_context("spawn")
    times: dict[str, list[float]] = {name: [] for name in CLIENTS}
    sizes = set()
    for _ in range(rounds):
        for name in random.sample(list(CLIENTS), len(CLIENTS)):
            done: Any = spawn.Queue()
            process = spawn.Process(target=fetch, args=(name, urls, where, done))
            process.start()
            cpu_s, size = done.get(timeout=300)
            process.join()
            times[name].append(cpu_s)
            sizes.add(size)
    if len(sizes) != 1:
        raise SystemExit(f"the clients read different sizes: {sorted(sizes)}")
    ratios = [b / a for a, b in zip(times["aiohttp"], times["httpx"], strict=True)]
    return {"cpu_s": times, "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios), "bytes": sizes.pop() / gets}


def show(figures: dict[str, Any]) -> None:
    import importlib.metadata

    for name, cpu_s in figures["cpu_s"].items():
        label = f"{name} {importlib.metadata.version(name)}"
        spread_us = f"{min(cpu_s) * 1e6:.0f} to {max(cpu_s) * 1e6:.0f}"
        print(f"{label:<16} {statistics.median(cpu_s) * 1e6:8.0f} us of CPU a report   ({spread_us} over {len(cpu_s)} rounds)")
    ratios = f"{figures['least']:.2f} to {figures['most']:.2f}"
    print(f"httpx / aiohttp  {figures['ratio']:8.2f}   ({ratios}); {figures['bytes'] / 1e3:.1f} kB a report")


def certificates(folder: Path, count: int) -> tuple[str, tuple[str, str]]:
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    made = authority.issue_cert(*(address(i) for i in range(count)))
    made.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    made.private_key_pem.write_to_path(str(folder / "key.pem"))
    return str(folder / "ca.pem"), (str(folder / "cert.pem"), str(folder / "key.pem"))


async def measure(ends: list[Endpoint], every_s: float, seconds: float) -> dict[str, Any]:
    polls: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    values = [0]

    def listen(readings: list[Any]) -> None:
        last = readings[-1]
        values[0] += len(readings) - 1
        polls.setdefault(last.device, []).append(last.time_s)
        if last.status != "ok":
            failed[last.device] = failed.get(last.device, 0) + 1

    task = asyncio.create_task(bmc.watch(ends, every_s, listen))
    await asyncio.sleep(every_s + 1)  # the first round makes the connections
    values[0], cpu_s, wall_s = 0, time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
    counted = values[0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    alive = {name: times for name, times in polls.items() if name not in failed}
    late_s = max((b - a - every_s for times in alive.values() for a, b in itertools.pairwise(times)), default=float("nan"))
    return {"share": cpu_s / wall_s, "values_per_s": counted / wall_s, "late_s": late_s, "alive": len(alive), "failed": len(failed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--bmcs", type=int, default=500)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--reports", choices=tuple(PROMISED_SHARE), default="environment")
    parser.add_argument("--dead", type=int, default=5, help="so many more that refuse or never answer")
    parser.add_argument("--clients", action="store_true", help="aiohttp against httpx")
    parser.add_argument("--rounds", type=int, default=7, help="of --clients")
    parser.add_argument("--gets", type=int, default=2000, help="of a process of --clients")
    parser.add_argument("--connections", type=int, default=1, help="of a process of --clients")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.clients:
        import importlib.util

        missing = [name for name in CLIENTS if importlib.util.find_spec(name) is None]
        if missing:
            parser.error(f"--clients needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    every = sorted(file.stem.partition("_MetricReports_")[2] for file in Path(options.folder).glob("*_MetricReports_*.json"))
    if not every:
        parser.error(f"{options.folder} holds no *_MetricReports_*.json")
    reports = tuple(ENVIRONMENT if options.reports == "environment" else every)
    with tempfile.TemporaryDirectory() as made:
        cafile, tls = certificates(Path(made), options.bmcs)
        ready: Any = multiprocessing.get_context("spawn").Queue()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(options.folder, tls, ready), daemon=True)
        server.start()
        port = ready.get(timeout=30)
        if options.clients:
            figures = clients(port, (cafile, options.connections), reports, options.rounds, options.gets)
        else:
            ends = [Endpoint(f"https://{address(i)}:{port}", f"bmc{i}", None, cafile, False, reports) for i in range(options.bmcs)]
            ends += [Endpoint(f"https://127.0.9.{i + 1}:1", f"dead{i}", None, cafile, False, reports) for i in range(options.dead)]
            figures = asyncio.run(measure(ends, options.every, options.seconds))
        server.kill()
    if options.clients:
        print(json.dumps(figures, indent=1)) if options.json else show(figures)
        return
    figures |= {"bmcs": options.bmcs, "reports": len(reports), "every_s": options.every, "promised_share": PROMISED_SHARE[options.reports]}
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    print(f"{options.bmcs} BMCs, {len(reports)} reports each, every {options.every:g} s over TLS; {options.dead} dead ones among them")
    print(f"share of one core     {figures['share']:8.1%}     promised < {figures['promised_share']:.0%}")
    print(f"values                {figures['values_per_s']:8.0f} a second")
    print(f"worst delay of a poll {figures['late_s'] * 1e3:8.1f} ms, over {figures['alive']} living BMCs; {figures['failed']} failed")


if __name__ == "__main__":
    main()

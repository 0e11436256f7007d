"""What polling many BMCs costs: simulated ones over kept-alive TLS, one process asking, another answering.

    python benchmarks/bmc.py FOLDER [--bmcs 500] [--every 10] [--seconds 60] [--reports environment|all] [--dead 5] [--json]

FOLDER holds a recorded BMC as JSON files, one resource each, its path with _ for /. `share` is the client process's CPU time
÷ wall time once all connections stand; `late_s` is the worst delay of a poll of a living BMC after its time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any

from hotlap.sensors import bmc, redfish_tree
from hotlap.sensors.bmc_file import Endpoint

PROMISED_SHARE = {"environment": 0.5, "all": 1.0}
ENVIRONMENT = ("HGX_PlatformEnvironmentMetrics_0", "PlatformEnvironmentMetrics_0")


def address(i: int) -> str:
    """A loopback address of its own, so that every BMC has its own connection."""
    return f"127.0.{1 + i // 250}.{1 + i % 250}"


def serve(folder: str, tls: tuple[str, str], ready: Any) -> None:
    """Answers GET of the folder's metric reports until killed, with HTTP/1.1 by hand: as little cost beside the client's as may be."""
    answers = {}
    for file in Path(folder).glob("*_MetricReports_*.json"):
        body = file.read_bytes()
        path = f"{redfish_tree.REPORTS}/{file.stem.partition('_MetricReports_')[2]}"
        answers[path] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                writer.write(answers.get(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server = await asyncio.start_server(answer, "0.0.0.0", 0, ssl=context, backlog=1024)
        ready.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
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
        ends = [Endpoint(f"https://{address(i)}:{port}", f"bmc{i}", None, cafile, False, reports) for i in range(options.bmcs)]
        ends += [Endpoint(f"https://127.0.9.{i + 1}:1", f"dead{i}", None, cafile, False, reports) for i in range(options.dead)]
        figures = asyncio.run(measure(ends, options.every, options.seconds))
        server.kill()
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

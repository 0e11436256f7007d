"""BMCs polled from a thread while other sensors are read: a source like any other."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence

from hotlap.core.errors import HotlapError
from hotlap.core.record import Reading
from hotlap.nodes.sensors import bmc
from hotlap.nodes.sensors.bmc_file import Endpoint

NAME = "redfish"


class Background:
    """Polls until `close`. What has come since the last `read` is handed over by it, with the times of the polls."""

    def __init__(self, ends: Sequence[Endpoint], period_s: float) -> None:
        self.ends, self.period_s = ends, period_s
        self.waiting: queue.SimpleQueue[list[Reading]] = queue.SimpleQueue()
        self.failed: HotlapError | None = None
        self.loop = asyncio.new_event_loop()
        self.task: asyncio.Task[None] | None = None
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.ready.wait()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self._poll())
            except asyncio.CancelledError:
                pass
            except HotlapError as error:
                self.failed = error
            finally:
                self.ready.set()

    async def _poll(self) -> None:
        self.task = asyncio.current_task()
        self.ready.set()
        await bmc.watch(self.ends, self.period_s, self.waiting.put)

    def read(self, _time_s: float) -> list[Reading]:
        """Raises what ended the polls: aiohttp or a certificate's file that is not there."""
        if self.failed:
            raise self.failed
        found: list[Reading] = []
        while not self.waiting.empty():
            found += self.waiting.get()
        return found

    def close(self) -> None:
        """Ends the sessions, too: a BMC has few."""
        if self.task and self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.task.cancel)
        self.thread.join(5.0)

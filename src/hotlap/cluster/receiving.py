"""What an agent sends of one attempt, into the attempt's folder and nowhere else: no name of a file comes from a member."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.cluster import agent, folder
from hotlap.cluster.launch.base import last_line
from hotlap.cluster.record import AttemptDone

KEPT = "kept as "  # of the line that says where a run is, which is none of the verdict


@dataclass
class Attempt:
    """One that is going on. `lost`: frames that were sent and did not come."""

    step: int
    number: int
    path: Path
    began_s: float = field(default_factory=time.monotonic)
    started: bool = False
    offered: bool = False  # wheels
    lost: int = 0
    size: int = 0
    beaten_s: float = 0.0
    by: str = "pipe"
    _digest: Any = field(default_factory=hashlib.sha256)
    _outputs: dict[str, int] = field(default_factory=dict)

    def start(self, time_s: float) -> None:
        self.started = True
        folder.written(self.path / folder.STARTED, {"member_time_s": time_s, "time_s": time.time()})

    def beat(self) -> None:
        """At most once a second: the file's time is what it says."""
        now = time.time()
        if now - self.beaten_s >= 1.0:
            self.beaten_s = now
            with suppress(OSError):
                os.utime(self.path / folder.BEAT, (now, now))

    def output(self, stream: str, data: bytes) -> None:
        """Raises FrameError for a stream that there is not, or one that is longer than an agent sends."""
        size = self._outputs.get(stream, 0) + len(data)
        if stream not in folder.OUTPUTS or size > agent.MOST_OUTPUT_BYTES:
            raise agent.FrameError("output that no agent sends")
        self._outputs[stream] = size
        with open(self.path / stream, "ab") as file:
            file.write(data)

    def part(self, place: int, data: bytes) -> None:
        """Raises FrameError for a bundle beyond the limit; a gap is noticed by the digest."""
        if self.size + len(data) > agent.MOST_BUNDLE_BYTES:
            raise agent.FrameError(f"a bundle of more than {agent.MOST_BUNDLE_BYTES / 2**30:.0f} GiB")
        if place != self.size:
            self.lost += 1
        self.size += len(data)
        self._digest.update(data)
        with open(self.path / folder.BUNDLE, "ab") as file:
            file.write(data)

    def shared(self) -> None:
        """Takes the bundle that the member itself wrote into this folder, if it is there. Raises FrameError for what is no file of its."""
        path = self.path / folder.SHARED
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            raise agent.FrameError(f"its bundle in the shared folder is no file: {error.strerror}") from None
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > agent.MOST_BUNDLE_BYTES:
                raise agent.FrameError("its bundle in the shared folder is no file of a size that an agent writes")
            self._digest, self.size, self.by = hashlib.file_digest(file, "sha256"), about.st_size, "folder"
        os.replace(path, self.path / folder.BUNDLE)

    def ending(self, code: int) -> str:
        """How the program ended, with the last it said."""
        ended, ending = f"signal {-code}" if code < 0 else f"exit status {code}", ""
        with suppress(OSError):
            ending = last_line((self.path / folder.OUTPUTS[1]).read_bytes()[-4096:].decode(errors="replace"))
        return f"{ended}: {ending}" if ending else ended

    def verdict(self) -> str:
        """The last that a program of Hotlap printed, which is its verdict; "" where it printed nothing."""
        with suppress(OSError):
            text = (self.path / folder.OUTPUTS[0]).read_bytes()[-8192:].decode(errors="replace")
            last = text.rstrip().rpartition("\n\n")[2].splitlines()
            return " ".join(" ".join(line for line in last if not line.startswith(KEPT)).split())[:300]
        return ""

    @property
    def digest(self) -> str:
        return str(self._digest.hexdigest())

    def whole(self, digest: str, size: int) -> bool:
        """Whether all of the bundle came."""
        return not self.lost and size == self.size and digest == self.digest

    def done(self, code: int, seconds: float) -> AttemptDone:
        """The result exists from here on. Raises OSError."""
        done = AttemptDone(digest=self.digest, size=self.size, code=code, seconds=seconds, by=self.by)
        folder.written(self.path / folder.DONE, done)
        return done

"""What every test process has in common."""

from __future__ import annotations

import os
import tempfile

# As in the processes of rounds: threads that spin after a parallel region look like a kernel that goes on computing.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Locks of devices are the machine's: a measurement that goes on meanwhile, and another worker's tests, are none of ours.
_locks = tempfile.TemporaryDirectory(prefix="hotlap-locks-")
os.environ.setdefault("HOTLAP_LOCKS", _locks.name)

"""What every test process has in common."""

from __future__ import annotations

import os

# As in the processes of rounds: threads that spin after a parallel region look like a kernel that goes on computing.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

"""What a bed of nodes is: how many, on how many leaf switches, how fast its links are. Names and addresses follow from it. Standard library only."""

from __future__ import annotations

import dataclasses

CONTROLLER = "controller"
SPINE = "spine"
MOST = 32
FRAME = 1448 / 1514  # the part of an Ethernet frame that TCP hands over (MTU 1500, timestamps): what a sender sees of a shaped rate


@dataclasses.dataclass(frozen=True)
class Spec:
    """Rates in Mbit/s of frames, as `tc` counts them. A queue holds `queue_ms` of its rate, a bucket `burst_kb`: both change what is measured.

    A transfer shows the rate of a link only where it is many times the bucket: the first `burst_kb` of each pass at once.
    """

    nodes: int = 4
    leaves: int = 2
    node_mbps: float = 200.0
    uplink_mbps: float = 400.0  # of each leaf, to the spine and back
    controller_mbps: float = 1000.0
    queue_ms: float = 100.0
    burst_kb: int = 64
    tmp_mb: int = 160  # /tmp of a node; so large are its home and /dev/shm too

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= MOST:
            raise ValueError(f"a bed has 2 to {MOST} nodes, not {self.nodes}")
        if not 1 <= self.leaves <= self.nodes:
            raise ValueError(f"{self.nodes} nodes stand on 1 to {self.nodes} leaf switches, not on {self.leaves}")
        for name in ("node_mbps", "uplink_mbps", "controller_mbps", "queue_ms", "burst_kb", "tmp_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is above 0, not {getattr(self, name)}")

    @property
    def names(self) -> list[str]:
        """Of the nodes, without the controller."""
        return [f"n{number:02d}" for number in range(1, self.nodes + 1)]

    @property
    def everyone(self) -> list[str]:
        return [CONTROLLER, *self.names]

    def leaf(self, node: str) -> int:
        """1 and up: neighbours by number share a leaf, as evenly as it goes."""
        return (self.names.index(node) * self.leaves) // self.nodes + 1

    def switch(self, node: str) -> str:
        """The bridge that it hangs on; the controller stands on the spine."""
        return SPINE if node == CONTROLLER else f"leaf{self.leaf(node)}"

    def address(self, node: str) -> str:
        return "10.77.0.1" if node == CONTROLLER else f"10.77.{self.leaf(node)}.{self.names.index(node) + 1}"

    def mbps(self, node: str) -> float:
        return self.controller_mbps if node == CONTROLLER else self.node_mbps

"""Network cards and InfiniBand ports: state, rate, firmware, place on the bus, and the counters that a bad cable moves."""

from __future__ import annotations

from hotlap.nodes.inspect import cards, pci
from hotlap.nodes.inspect.noting import FactNotes, scaled

SPEED_UNIT = 1_000_000  # of sys/class/net/*/speed: Mbit/s
COUNTERS = {
    "symbol_errors": "symbol_error",
    "link_downed": "link_downed",
    "link_recoveries": "link_error_recovery",
    "receive_errors": "port_rcv_errors",
    "discards": "port_xmit_discards",
    "integrity_errors": "local_link_integrity_errors",
    "overruns": "excessive_buffer_overrun_errors",
}
STATISTICS = {"errors_rx": "rx_errors", "errors_tx": "tx_errors", "dropped_rx": "rx_dropped", "missed_rx": "rx_missed_errors"}
HARDWARE = {"out_of_sequence": "out_of_sequence", "ack_timeouts": "local_ack_timeout_err", "congestion_notices": "np_cnp_sent"}


def collect(notes: FactNotes) -> None:
    """``net[eth0]…`` for cards with a driver behind them, ``ib[mlx5_0:1]…`` for ports, ``nic[0000:17:00.0]…`` for firmware."""
    for folder in notes.place.glob("sys/class/net/*"):
        key = folder.rpartition("/")[2]
        if notes.place.exists(f"{folder}/device/uevent"):
            _card(notes, f"net[{key}]", folder)
            cards.driver(notes, f"net[{key}]", key)
    for port in notes.place.glob("sys/class/infiniband/*/ports/*"):
        folder, _, number = port.partition("/ports/")
        _port(notes, f"ib[{folder.rpartition('/')[2]}:{number}]", folder, port)
    cards.firmware(notes)


def _card(notes: FactNotes, name: str, folder: str) -> None:
    notes.file(f"{name}.state", f"{folder}/operstate")
    notes.file(f"{name}.mtu_bytes", f"{folder}/mtu", int, "B")
    notes.file(f"{name}.speed_bits_per_s", f"{folder}/speed", _speed, "b/s")
    notes.file(f"{name}.duplex", f"{folder}/duplex")
    notes.note(f"{name}.driver", pci.driver(notes.place, f"{folder}/device") or None, f"{folder}/device/driver")
    notes.file(f"{name}.numa_node", f"{folder}/device/numa_node", int)
    for fact, leaf in STATISTICS.items():
        notes.file(f"{name}.{fact}", f"{folder}/statistics/{leaf}", int)
    notes.file(f"{name}.link_downs", f"{folder}/carrier_down_count", int)
    pci.link(notes, name, f"{folder}/device")


def _speed(text: str) -> int | None:
    """-1 is unknown, which is not a speed."""
    return int(text) * SPEED_UNIT if int(text) > 0 else None


def _subnet(text: str) -> str:
    """Of a GID its first 64 bits: which fabric the port is on."""
    return ":".join(f"{int(group, 16):x}" for group in text.split(":")[:4])


def _port(notes: FactNotes, name: str, folder: str, port: str) -> None:
    notes.file(f"{name}.firmware", f"{folder}/fw_ver")
    notes.file(f"{name}.board", f"{folder}/board_id")
    notes.file(f"{name}.link_layer", f"{port}/link_layer")
    for fact, leaf in (("state", "state"), ("physical_state", "phys_state")):
        notes.file(f"{name}.{fact}", f"{port}/{leaf}", lambda text: text.partition(":")[2].strip() or text)
    notes.file(f"{name}.rate_bits_per_s", f"{port}/rate", lambda text: scaled(1e9)(text.split()[0].partition(".")[0]), "b/s")
    notes.file(f"{name}.rate", f"{port}/rate")
    notes.file(f"{name}.subnet", f"{port}/gids/0", _subnet)
    for fact, leaf in COUNTERS.items():
        notes.file(f"{name}.{fact}", f"{port}/counters/{leaf}", int)
    for fact, leaf in HARDWARE.items():
        notes.file(f"{name}.{fact}", f"{port}/hw_counters/{leaf}", int)
    notes.file(f"{name}.numa_node", f"{folder}/device/numa_node", int)
    pci.link(notes, name, f"{folder}/device")

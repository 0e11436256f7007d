"""A campaign by Kubernetes from this side: its manifest is written, and records are taken, from a volume or by PUT."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hotlap.cli import terminal
from hotlap.cluster import asked, folder, taking
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import kubernetes
from hotlap.cluster.launch.kubernetes import PodOptions
from hotlap.cluster.record import Campaign
from hotlap.core.errors import InputError, MachineError
from hotlap.core.store import paths

RECORDS = "pods"  # in the campaign's folder: records that came by PUT


def write(args: argparse.Namespace, campaign: Campaign, labels: Mapping[str, str]) -> int:
    """The manifest, and with results by PUT a new token beside it; then the campaign is begun, and nothing waited for."""
    options, out = PodOptions(**campaign.options), Path(args.kubernetes)
    text = kubernetes.yaml(kubernetes.manifest(campaign, options))
    token = out.with_suffix(".token") if options.by_put else None
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write(text)
        if token:
            with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(32))
    except OSError as error:
        raise InputError(f"--kubernetes: '{error.filename}' cannot be written: {error.strerror}; name a new file") from None
    kept = folder.create(paths.home(), campaign, kubernetes.members(options.count), labels, args.target or campaign.launcher)
    name = f"hotlap-{campaign.id.lower()}"
    steps = [f"kubectl create secret generic {name} --from-file=token={token}"] if token else []
    steps += [f"kubectl apply -f {out}"]
    way = f"--serve 0.0.0.0:PORT --token-file {token}" if token else "--from FOLDER"
    steps += [f"hotlap cluster collect {campaign.id} {way}"]
    if args.json:
        terminal.answer(args.json, {"run": campaign.id, "manifest": str(out), "token_file": str(token) if token else None, "next": steps})
        return 0
    print(f"run     {kept.path}")
    print("\n".join(f"next    {step}" for step in steps))
    return 0


def served(args: argparse.Namespace, kept: CampaignFolder) -> Path:
    """Takes records until each member has one, the time is up, or Ctrl-C; the folder with them. Raises InputError, MachineError."""
    host, _, port = args.serve.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--serve is HOST:PORT, as in 127.0.0.1:8080, not '{args.serve}'")
    try:
        token = Path(args.token_file).read_bytes().strip()
    except OSError as error:
        raise InputError(f"--token-file '{args.token_file}' cannot be read: {error.strerror}; cluster run --kubernetes wrote it") from None
    if len(token) < 16:
        raise InputError(f"--token-file '{args.token_file}' holds no token of 16 characters or more")
    place, count = kept.path / RECORDS, len(kept.members())
    place.mkdir(exist_ok=True)
    came = {int(match[1]): 1 for path in place.iterdir() if (match := kubernetes.RECORD.fullmatch(path.name))}
    taker = taking.RecordTaker(place, token, count, lambda name: print(f"hotlap: {name} came", file=sys.stderr), came)
    try:
        server = taking.server(host, int(port), taker)
    except OSError as error:
        raise MachineError(f"nothing can listen at {args.serve}: {error.strerror}") from None
    span_s = asked.seconds(args.span, "--for")
    deadline = time.monotonic() + span_s if span_s else float("inf")
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    print(f"hotlap: takes records at http://{host}:{server.server_address[1]}; Ctrl-C ends that", file=sys.stderr)
    with suppress(KeyboardInterrupt):
        while _there(place) < count and time.monotonic() < deadline:
            time.sleep(0.1)
    server.shutdown()
    server.server_close()
    return place


def _there(place: Path) -> int:
    """Members of which a whole record is there."""
    return len({match[1] for path in place.iterdir() if (match := kubernetes.RECORD.fullmatch(path.name))})

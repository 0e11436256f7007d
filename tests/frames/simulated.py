"""Frames as no tool saw them: of a process that is known, written in the layouts of tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def frames(seed: int, count: int, mean_ms: float = 10.0, spread: float = 0.08, correlation: float = 0.9) -> Floats:
    """Log-normal around an AR(1), without a hitch; whole 0.1 µs, in ms."""
    random = np.random.default_rng(seed)
    level = np.zeros(count)
    steps = random.normal(0.0, spread * np.sqrt(1 - correlation**2), count)
    for place in range(1, count):
        level[place] = correlation * level[place - 1] + steps[place]
    return np.asarray(np.round(mean_ms * np.exp(level), 4))


def presentmon(path: Path, times: Floats, **columns: Floats) -> Path:
    """Today's columns, one chain. `columns`: in ms by their names in the file, in place of what follows from the times."""
    starts = np.concatenate([[0.0], np.cumsum(times)[:-1]])
    whole = {
        "MsBetweenPresents": times, "MsBetweenDisplayChange": times, "MsInPresentAPI": times * 0.02, "MsUntilDisplayed": times * 1.5,
        "CPUStartQPC": np.rint(starts * 1e4), "MsBetweenAppStart": times, "MsCPUBusy": times * 0.6, "MsCPUWait": times * 0.4,
        "MsGPULatency": times * 0.1, "MsGPUTime": times, "MsGPUBusy": times * 0.97, "MsGPUWait": times * 0.03,
        "AnimationTime": starts, **columns,
    }  # fmt: skip
    names = list(whole)
    fixed = "game.exe,4242,0x1F00,DXGI,0,0,1,Hardware: Independent Flip,Application"
    head = "Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags,AllowsTearing,PresentMode,FrameType"
    lines = ["\ufeff" + ",".join([head, *names])]
    for row in zip(*whole.values(), strict=True):
        cells = [f"{value:.0f}" if name == "CPUStartQPC" else "NA" if np.isnan(value) else f"{value:.4f}" for name, value in zip(names, row, strict=True)]
        lines.append(",".join([fixed, *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


MANGOHUD = {
    12: "fps,frametime,cpu_load,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,elapsed",
    14: "fps,frametime,cpu_load,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,swap_used,process_rss,elapsed",
    15: "fps,frametime,cpu_load,cpu_power,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,swap_used,"
    "process_rss,elapsed",
    16: "fps,frametime,cpu_load,cpu_power,cpu_mhz,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,"
    "swap_used,process_rss,elapsed",
}  # fmt: skip


def mangohud(path: Path, times: Floats, layout: int = 12, unit: str = "us", **columns: Sequence[float]) -> Path:
    """A log of MangoHud. `columns`: others than 0, by their names there."""
    names = MANGOHUD[layout].split(",")
    shown = np.rint(times * 1000) if unit == "us" else times
    elapsed = np.rint(np.cumsum(times) * 1e6)
    lines = ["os,cpu,gpu,ram,kernel,driver,cpuscheduler", "Debian,EPYC,RTX,64,6.1,550,", ",".join(names)]
    for place, time in enumerate(times):
        row = dict.fromkeys(names, "0") | {name: f"{values[place]:g}" for name, values in columns.items()}
        row |= {"fps": f"{1000 / time:.6g}", "frametime": f"{shown[place]:.6g}", "elapsed": f"{elapsed[place]:.0f}"}
        lines.append(",".join(row[name] for name in names))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def capframex(path: Path, runs: Sequence[Floats], **columns: Sequence[object]) -> Path:
    """A record with a run for each sequence."""
    captures = [
        {"Hash": str(number), "PresentMonRuntime": "DXGI", "CaptureData": {
            "TimeInSeconds": (np.cumsum(times) / 1000).tolist(), "MsBetweenPresents": times.tolist(), "Dropped": [False] * len(times),
            **columns,
        }} for number, times in enumerate(runs)
    ]  # fmt: skip
    info = {"ProcessName": "game.exe", "GPU": "RTX 5090", "CreationDate": "2026-10-03T00:35:26Z"}
    path.write_text(json.dumps({"Info": info, "Runs": captures}), encoding="utf-8")
    return path


def presentmon1(path: Path, times: Floats, dropped: Sequence[bool] = (), extra: str = "", capital: bool = False) -> Path:
    """The first set of columns; with `extra` and `capital` as FrameView and OCAT write it."""
    ms = "Ms" if capital else "ms"
    head = f"Application,ProcessID,SwapChainAddress,Runtime,SyncInterval,PresentFlags,Dropped,TimeInSeconds,{ms}InPresentAPI,{ms}BetweenPresents"
    lines = [head + (f",{extra}" if extra else "")]
    starts = np.cumsum(times) / 1000
    for place, time in enumerate(times):
        lost = int(bool(dropped) and dropped[place])
        cells = ["game.exe", "1", "0x0", "DXGI", "0", "0", str(lost), f"{starts[place]:.7f}", "0.1", f"{time:.4f}"]
        lines.append(",".join([*cells, *("1" for _ in extra.split(",") if extra)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path

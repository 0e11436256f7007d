"""PresentMon's three sets of columns, and the tools that write the first one with columns of their own: FrameView and OCAT."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.frames import building, sheet
from hotlap.frames.building import Wanted
from hotlap.frames.record import Floats, FrameCapture, StreamName
from hotlap.frames.sheet import Sheet, SheetHead

NAME = "PresentMon"
ORIGIN = {
    "PresentMon 1": "GameTechDev/PresentMon@02c5675 PresentMon/CsvOutput.cpp, README of 1.10; gold files test_case_*_v1.csv",
    "PresentMon 2": "GameTechDev/PresentMon@18f60475 README, --v2_metrics; gold files test_case_*_v2.csv",
    "PresentMon": "GameTechDev/PresentMon@18f60475 (2.5) README; gold files test_case_*.csv; compiling by its metrics' names, unseen",
    "FrameView": "NVIDIA FrameView, the list 'Output Files' of its ReadMe.txt; no file was seen",
    "OCAT": "GPUOpen-Tools/OCAT, its headings as CXWorld/CapFrameX lists them in RecordManager; no file was seen",
}
KEY = ("application", "processid", "swapchainaddress")
OWN_FRAMES = ("Application", "NotSet", "Unspecified", "NA", "")  # FrameType of what the application presented
WANTED: Mapping[str, Wanted] = {
    "frame": Wanted("ms", "msbetweenpresents", "frametime", "msbetweenappstart"),
    "app_start": Wanted("ms", "msbetweenappstart"),
    "start": Wanted("ticks", "timeinseconds", "cpustartqpc", "cpustartqpctime", "cpustarttime", "timeinqpc", "qpctime"),
    "display": Wanted("ms", "msbetweendisplaychange"),
    "displayed": Wanted("ms", "displayedtime"),
    "until_displayed": Wanted("ms", "msuntildisplayed", "displaylatency"),
    "in_present": Wanted("ms", "msinpresentapi"),
    "render_start": Wanted("ms", "msuntilrenderstart"),
    "render_complete": Wanted("ms", "msuntilrendercomplete", "msrenderpresentlatency"),
    "cpu_busy": Wanted("ms", "mscpubusy", "cpubusy"),
    "cpu_wait": Wanted("ms", "mscpuwait", "cpuwait"),
    "gpu_latency": Wanted("ms", "msgpulatency", "gpulatency"),
    "gpu_time": Wanted("ms", "msgputime", "gputime"),
    "gpu_busy": Wanted("ms", "msgpubusy", "gpubusy", "msgpuactive"),
    "gpu_wait": Wanted("ms", "msgpuwait", "gpuwait"),
    "video_busy": Wanted("ms", "msvideobusy", "videobusy", "msgpuvideoactive"),
    "animation_error": Wanted("ms", "msanimationerror", "animationerror"),
    "animation_time": Wanted("ms", "animationtime"),
    "flip_delay": Wanted("ms", "msflipdelay"),
    "pc_latency": Wanted("ms", "mspclatency"),
    "click": Wanted("ms", "msclicktophotonlatency", "clicktophotonlatency"),
    "dropped": Wanted("", "dropped"),
    "queue_depth": Wanted("", "renderqueuedepth"),
    "compile_count": Wanted("", "psocompilecount"),
    "compile_time": Wanted("ms", "mspsocompiletime", "psocompiletime"),
    "compile_busy": Wanted("%", "psocompilebusypercent", "psocompilebusy%"),
    "gpu_clock": Wanted("MHz", "gpu0clk(mhz)", "gpucoreclock(mhz)"),
    "gpu_mem_clock": Wanted("MHz", "gpu0memclk(mhz)", "gpumemoryclock(mhz)"),
    "gpu_load": Wanted("%", "gpu0util(%)"),
    "gpu_temp": Wanted("°C", "gpu0temp(c)"),
    "gpu_power": Wanted("W", "pcatpowertotal(w)", "nvpwr(w)(api)", "amdpwr(w)(api)"),
    "cpu_clock": Wanted("MHz", "cpuclk(mhz)"),
    "cpu_load": Wanted("%", "cpuutil(%)"),
    "cpu_power": Wanted("W", "cpupackagepower(w)"),
}
FACTS = {"gpu": "gpu", "cpu": "cpu", "resolution": "resolution", "processor": "cpu", "os": "os", "basedriverversion": "driver"}


def detect(head: SheetHead) -> SheetHead | None:
    return building.heading(head, lambda names: all(name in names for name in KEY))


def read(head: SheetHead) -> list[FrameCapture]:
    """One capture; its rows are of every process that presented meanwhile. Raises InputError."""
    places = building.places(head.names)
    wanted = building.wanted(head, WANTED)
    if "frame" not in wanted:
        raise InputError(f"{head.path}: no column of frame times; valid: MsBetweenPresents, FrameTime, MsBetweenAppStart")
    if "start" in wanted and not _is_number(head, wanted["start"][0]):
        del wanted["start"]  # a date, as --date_time writes it
    grouped = {"stream": tuple(places[name] for name in KEY)}
    extra = {"type": "frametype", **{fact: name for name, fact in FACTS.items()}}
    grouped |= {what: (places[name],) for what, name in extra.items() if name in places}
    table = sheet.read(head, {name: place for name, (place, _) in wanted.items()}, grouped)
    numbers, notices = dict(table.numbers), list[Notice]()
    if "type" in table.codes:
        own = np.array([text in OWN_FRAMES for (text,) in table.texts["type"]], dtype=bool)
        numbers["generated"] = (~own[table.codes["type"]]).astype(np.float64)
    if head.names[wanted["frame"][0]].casefold() == "frametime" and (numbers["frame"] == 0).any():
        notices.append(_no_type(numbers))
    facts = {fact: table.texts[fact][0][0] for fact in FACTS.values() if table.texts.get(fact)}
    kept = building.kept(head, tool(places), layout(places), wanted, numbers, facts)
    streams = [StreamName(process=process, pid=pid, chain=chain) for process, pid, chain in table.texts["stream"]]
    kept = replace(kept, streams=streams, notices=[*notices, *_doubts(table)])
    return [building.capture(table, kept, numbers, table.codes["stream"])]


def _is_number(head: SheetHead, place: int) -> bool:
    """Whether a column's first cell is one; without any it may be."""
    rows = head.lines[head.place + 1 : head.place + 2]
    cells = sheet.fields(rows[0], head.delimiter) if rows else []
    return len(cells) <= place or cells[place].count(":") < 2


def _no_type(numbers: dict[str, Floats]) -> Notice:
    """PresentMon#381, #388: rows of generated frames have the start of the application's frame, and no time."""
    none = numbers["frame"] == 0
    numbers["generated"] = np.maximum(numbers.get("generated", np.zeros(len(none))), none)
    seen = f"{int(none.sum())} rows have the frame time 0: they count as generated frames"
    return Notice("generated_unlabelled", seen, "record with --track_frame_type to have them labelled")


def _doubts(table: Sheet) -> list[Notice]:
    return [building.torn(table)] if table.torn else []


def tool(places: Mapping[str, int]) -> str:
    if "renderqueuedepth" in places or "gpu0clk(mhz)" in places:
        return "FrameView"
    if "dropped" in places:
        return "OCAT" if "motherboard" in places else "PresentMon 1"
    return "PresentMon 2" if "frametime" in places else "PresentMon"


def layout(places: Mapping[str, int]) -> str:
    return f"{len(places)} columns"

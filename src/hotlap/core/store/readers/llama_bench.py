"""llama-bench -o json, or -o jsonl: an object per test with the time of each repetition, all of one process."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, has, moment, number, numbers, texts

NAME = "llama-bench"
BRINGS = (
    "tokens each second of each repetition, prefill (pp) and decode (tg) apart: of the engine alone, without tokenizer, sampling or HTTP, "
    "so above what llama-server gives a user; build, model, settings"
)
ORIGIN = "ggml-org/llama.cpp at 08d0baaca6745ecaec3a75cccf63b533646ead22: tools/llama-bench/README.md (-o json, -o jsonl)"
KEYS = ("build_commit", "model_type", "n_prompt", "n_gen", "samples_ns")
SETTINGS = (
    "n_prompt", "n_gen", "n_depth", "n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_gpu_layers", "split_mode", "flash_attn",
    "no_kv_offload",
)  # fmt: skip
TYPED = 2e-3  # samples_ts is printed with six digits, and less in early builds


def detect(source: Source) -> bool:
    rows = _rows(source)
    return bool(rows) and all(has(row, *KEYS) for row in rows)


def read(source: Source) -> list[ReadRun]:
    runs: dict[tuple[str, ...], list[tuple[float, ReadCase, Fields]]] = {}
    for place_in, row in enumerate(_rows(source), 1):
        place = f"{source.path}: test {place_in}"
        time_s = moment(row["test_time"], f"{place}, test_time") if row.get("test_time") else source.modified_s
        key = (str(row.get("gpu_info") or row.get("cpu_info") or ""), str(row["build_commit"]), str(row["model_type"]))
        runs.setdefault(key, []).append((time_s, _case(row, place), row))
    return [_run(device, members) for (device, *_), members in runs.items()]


def _rows(source: Source) -> list[Fields]:
    if isinstance(source.json, list):
        return [row for row in source.json if isinstance(row, dict)] if all(isinstance(row, dict) for row in source.json) else []
    return [source.json] if isinstance(source.json, dict) else source.lines


def _run(device: str, members: list[tuple[float, ReadCase, Fields]]) -> ReadRun:
    first = members[0][2]
    marks = {"model": first["model_type"], "commit": first["build_commit"], "backend": first.get("backends")}
    software = {"llama.cpp": f"build {first['build_number']}"} if first.get("build_number") else {}
    cases, time_s = [case for _, case, _ in members], max(time for time, _, _ in members)
    return ReadRun(cases, time_s, device=device, software=software, labels=texts(marks))


def _case(row: Fields, place: str) -> ReadCase:
    prefill, decode = (number(row[name], f"{place}, {name}") for name in ("n_prompt", "n_gen"))
    times = numbers(row["samples_ns"], f"{place}, samples_ns")
    if prefill < 0 or decode < 0 or prefill + decode <= 0:
        raise InputError(f"{place}: {prefill:g} tokens of prompt and {decode:g} generated; one of them is above zero")
    if not times or min(times) <= 0:
        raise InputError(f"{place}, samples_ns: {'no repetition' if not times else f'{min(times):g} ns is no duration'}")
    values = [(prefill + decode) * 1e9 / time for time in times]
    shown = numbers(row["samples_ts"], f"{place}, samples_ts") if row.get("samples_ts") is not None else values
    if len(shown) != len(values) or any(abs(a - b) > TYPED * b for a, b in zip(shown, values, strict=True)):
        raise InputError(f"{place}: samples_ts and samples_ns do not say the same of {prefill + decode:g} tokens")
    what = "prefill and decode" if prefill and decode else "prefill" if prefill else "decode"
    given = tuple(f"{name}={row[name]}" for name in SETTINGS if row.get(name) is not None)
    return ReadCase(f"{what} (engine alone)", "tokens/s", [ReadRound(values)], given, "higher", place)

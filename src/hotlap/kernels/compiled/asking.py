"""A source compiled in fresh processes: the kernels of the first, the seconds of all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace as changed

from hotlap.core.errors import InputError, NotSupported
from hotlap.kernels import apart
from hotlap.kernels.binaries import text
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.compiled import reading
from hotlap.kernels.compiled.protocol import ARCHITECTURE, CompiledFiles, CompileJob

LANGUAGES = {".cu": "cuda", ".cuh": "cuda", ".cl": "opencl", ".ptx": "ptx"}
LIMIT_S = 600.0  # of one compilation


@dataclass(frozen=True)
class CompileRequest:
    """How sources are compiled."""

    architectures: Sequence[str] = ()
    flags: Sequence[str] = ("",)  # each a variant of its own
    include: Sequence[str] = ()
    signature: str = ""
    rounds: int = 1  # fresh processes; the seconds of all are kept
    keep: Path | None = None  # where products stay


def kernels(source: str, asked: CompileRequest) -> Iterator[Compiled]:
    """The kernels of a file or of MODULE:FUNCTION, by architecture and flags. Raises InputError, and NotSupported with the compiler's
    first error."""
    path, kind = Path(source), ""
    if ":" in source and not path.exists():
        language = "triton"
    else:
        if not path.is_file():
            raise InputError(f"there is no file '{source}'; valid: .cu .cl .ptx .cubin .hsaco .spv, or FILE.py:FUNCTION of Triton")
        kind = reading.sniff(path)
        language = "ptx" if kind == "ptx" else LANGUAGES.get(path.suffix, "")
        if path.suffix == ".py":
            raise InputError(f"'{source}' is a Python file; name the Triton function in it, as in {source}:kernel")
    if kind not in ("", "ptx"):
        yield from reading.binary(path, kind)
        return
    if not language:
        raise InputError(
            f"'{source}' is neither a source nor a binary that is known; valid: .cu .cl .ptx .cubin .hsaco .spv, FILE.py:FUNCTION"
        )
    for architecture in _architectures(language, path, asked.architectures):
        for flags in asked.flags:
            yield from _made(language, source, architecture, flags, asked)


def _architectures(language: str, path: Path, given: Sequence[str]) -> Sequence[str]:
    if language == "opencl":
        return [""]  # the driver's own
    if language == "ptx" and not given:
        return [text.ptx(path.read_text(encoding="utf-8", errors="replace"), path.name).target.replace("compute_", "sm_")]
    return given or [ARCHITECTURE]


def _made(language: str, source: str, architecture: str, flags: str, asked: CompileRequest) -> list[Compiled]:
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hotlap-compiled-") as scratch:
        job = CompileJob(
            language=language,
            source=source,
            architecture=architecture,
            flags=flags.split(),
            include=list(asked.include),
            signature=asked.signature,
            folder=str(asked.keep or scratch),
        )
        answers = [_compile(job if n == 0 else changed(job, folder=_folder(scratch, n))) for n in range(asked.rounds)]
        wrong = next((one for one in answers if one.problem), CompiledFiles())
        failed = wrong.problem
        if failed and wrong.usage_error:
            raise InputError(failed)
        if failed and language == "ptx" and "no ptxas" in failed:
            return reading.ptx(Path(source), failed)
        if failed:
            raise NotSupported(f"{source}{f' for {architecture}' if architecture else ''}: {failed}")
        found = reading.read(answers[0], source, architecture, flags)
    return [changed(one, compile_s=[answer.seconds for answer in answers]) for one in found]


def _folder(scratch: str, number: int) -> str:
    path = Path(scratch) / str(number)
    path.mkdir()
    return str(path)


def _compile(job: CompileJob) -> CompiledFiles:
    cache = {"POCL_CACHE_DIR": str(Path(job.folder) / "pocl"), "PYOPENCL_NO_CACHE": "1", "CUDA_CACHE_DISABLE": "1"}
    try:
        said = apart.answer("hotlap.kernels.compiled.making", msgspec.json.encode(job), LIMIT_S, {**os.environ, **cache})
    except apart.Broken as error:
        return CompiledFiles(problem=f"the compiler's process {error}")
    return msgspec.json.decode(said, type=CompiledFiles)

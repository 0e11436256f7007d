"""What members get so that plans run there: Hotlap as it is installed here, and wheels of what it needs; without the internet.

Wheels are made of what is installed here, with the tags that it has, and stand beside those of `--wheels`; a member takes what fits it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import hotlap
from hotlap.core.errors import InputError, MachineError

STAMP = (1980, 1, 1, 0, 0, 0)  # of files within: the same files give the same digest
NEEDED = ("numpy", "msgspec")
PACKED = 0.35  # of their bytes, that wheels are about


@dataclass(frozen=True)
class ParcelFile:
    """A wheel."""

    name: str
    path: Path
    digest: str  # SHA-256
    size: int
    needed: bool  # made here: without one of its distribution Hotlap does not run
    unpacked: int  # bytes

    @property
    def offered(self) -> dict[str, Any]:
        """What a member is told of it."""
        return {"name": self.name, "digest": self.digest, "size": self.size, "needed": self.needed, "unpacked": self.unpacked}


class Parcel:
    """Made in the folder `place`, which is its own, when it is first asked for. `wheels`: a folder of more of them, or ""."""

    def __init__(self, place: Path, wheels: str = "") -> None:
        self.place, self.wheels = place, wheels
        self._files: list[ParcelFile] = []
        self.close()  # of a controller that was killed

    def files(self) -> list[ParcelFile]:
        """Raises MachineError where they cannot be made here."""
        if not self._files:
            try:
                self.place.mkdir()
                own = built(self.place)
                paths = [*given(self.wheels), *own]
                self._files = [
                    ParcelFile(path.name, path, _digest(path), path.stat().st_size, path in own, _unpacked(path)) for path in paths
                ]
            except OSError as error:
                raise MachineError(f"wheels for members cannot be made here: {error}") from None
        return self._files

    def close(self) -> None:
        """Leaves no file."""
        shutil.rmtree(self.place, ignore_errors=True)


def given(folder: str) -> list[Path]:
    """The wheels of a folder. Raises InputError for none; "" gives none."""
    if not folder:
        return []
    try:
        wheels = sorted(path for path in Path(folder).iterdir() if path.suffix == ".whl")
    except OSError as error:
        raise InputError(f"--wheels {folder}: {(error.strerror or '').lower()}; it takes a folder of wheels") from None
    if not wheels:
        how = "pip download --only-binary :all: -d FOLDER numpy msgspec fills one"
        raise InputError(f"--wheels {folder}: no wheel is in it; {how}")
    return wheels


def about(wheels: str) -> list[dict[str, Any]]:
    """Name, and bytes unpacked, of what would be sent to members, as `ParcelFile.offered` but made of nothing: of a wheel that would be
    made here, `size` is about what it is packed. `wheels`: a folder of more of them, or "". Raises InputError."""
    own = [(_own_name(), [path for path in Path(hotlap.__file__).parent.rglob("*") if "__pycache__" not in path.parts])]
    for name in sorted(_needed("hotlap")):
        with suppress(metadata.PackageNotFoundError):
            installed = metadata.distribution(name)
            own.append((_wheel_name(installed), [path for _, path in _installed(installed)]))
    files = [
        {"name": path.name, "digest": path.name, "size": path.stat().st_size, "needed": False, "unpacked": _unpacked(path)}
        for path in given(wheels)
    ]  # fmt: skip
    for name, inside in own:
        total = sum(path.stat().st_size for path in inside if path.is_file())
        files.append({"name": name, "digest": name, "size": int(total * PACKED), "needed": True, "unpacked": total})
    return files


def built(folder: Path) -> list[Path]:
    """Wheels of Hotlap and of what it needs, of the files that are installed here. What is not installed as a distribution is left out."""
    paths = [_own(folder)]
    for name in sorted(_needed("hotlap")):
        try:
            paths.append(_wheel(metadata.distribution(name), folder))
        except metadata.PackageNotFoundError:
            continue
    return paths


def _own(folder: Path) -> Path:
    root = Path(hotlap.__file__).parent
    inside = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    path = folder / _own_name()
    about = f"Metadata-Version: 2.1\nName: hotlap\nVersion: {hotlap.__version__}\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(zipfile.ZipInfo(f"hotlap-{hotlap.__version__}.dist-info/METADATA", STAMP), about)
        for file in inside:
            _write(archive, file, f"hotlap/{file.relative_to(root).as_posix()}")
    return path


def _own_name() -> str:
    return f"hotlap-{hotlap.__version__}-py3-none-any.whl"


def _needed(name: str) -> set[str]:
    """Distributions that one needs without its extras, those that they need among them."""
    try:
        asked = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return set(NEEDED) if name == "hotlap" else set()
    names = {match[0] for text in asked if "extra" not in text and (match := re.match(r"[\w.-]+", text))}
    return names | {more for each in names for more in _needed(each)}


def _wheel_name(installed: metadata.Distribution) -> str:
    tags = re.findall(r"^Tag: (\S+)-(\S+)-(\S+)$", installed.read_text("WHEEL") or "", re.MULTILINE) or [("py3", "none", "any")]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    return f"{re.sub(r'[-_.]+', '_', installed.metadata['Name'])}-{installed.version}-{tag}.whl"


def _wheel(installed: metadata.Distribution, folder: Path) -> Path:
    path = folder / _wheel_name(installed)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, file in _installed(installed):
            _write(archive, file, name)
    return path


def _installed(installed: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Its files but programs and compiled bytes."""
    for item in sorted(installed.files or [], key=str):
        file = Path(str(installed.locate_file(item)))
        if ".." not in item.parts and "__pycache__" not in item.parts and file.is_file():
            yield item.as_posix(), file


def _write(archive: zipfile.ZipFile, file: Path, name: str) -> None:
    info = zipfile.ZipInfo(name, STAMP)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(info, file.read_bytes())


def _unpacked(path: Path) -> int:
    """Bytes that a wheel holds; as many as the file has where it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(info.file_size for info in archive.infolist())
    except (zipfile.BadZipFile, OSError):
        return path.stat().st_size


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

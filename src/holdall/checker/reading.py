"""Reads the files of a history, in any order and any number, and says which lines are no records.

A process that was killed may leave half a line at the end of its file: that one is dropped and counted. Every
other line that is no record is a problem, since what it said is missing from every rule.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Generic, NamedTuple, TypeVar

import msgspec

from holdall.checker.records import AnyRecord

R = TypeVar("R", bound=msgspec.Struct)
R_co = TypeVar("R_co", bound=msgspec.Struct, covariant=True)

LINE_BYTES_MAX: Final = 1 << 20
_PROBLEM_TEXT_MAX: Final = 200


class Place(NamedTuple):
    """Where a line stands; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Line(NamedTuple, Generic[R_co]):
    """A record and where it was read."""

    record: R_co
    place: Place


class Reading(NamedTuple):
    """All lines of all files, what was wrong, and how many torn last lines were dropped."""

    lines: Sequence[Line[AnyRecord]]
    problems: Sequence[str]
    torn: int
    files: int


_decoder: Final[msgspec.json.Decoder[AnyRecord]] = msgspec.json.Decoder(AnyRecord)


def record_in(text: bytes) -> AnyRecord:
    """The record that a line says. ValueError with the reason when it says none."""
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.DecodeError as error:  # its subclass ValidationError included
        raise ValueError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ValueError(str(error)) from None


def read_files(paths: Iterable[Path]) -> Reading:
    """Every line of every file. A file that cannot be read is a problem like a bad line."""
    lines: list[Line[AnyRecord]] = []
    problems: list[str] = []
    torn = 0
    seen: set[tuple[int, int]] = set()
    for path in paths:
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_dev, status.st_ino) in seen:
                    problems.append(f"{path}: given twice, read once; name each file once")
                    continue
                seen.add((status.st_dev, status.st_ino))
                torn += _read_file(file, str(path), lines, problems)
        except OSError as error:
            problems.append(f"{path}: cannot be read: {error.strerror or error}")
    return Reading(lines, problems, torn, len(seen))


def _read_file(file: BinaryIO, name: str, lines: list[Line[AnyRecord]], problems: list[str]) -> int:
    """Appends what the file says; returns 1 when its last line was torn."""
    for number, text in enumerate(_lines_of(file), start=1):
        if not text.strip():
            continue
        place = Place(name, number)
        if len(text) > LINE_BYTES_MAX:
            problems.append(f"{place}: longer than {LINE_BYTES_MAX} bytes")
            continue
        try:
            lines.append(Line(record_in(text), place))
        except ValueError as error:
            if _is_torn(text):
                return 1
            problems.append(f"{place}: {error} in {_start_of(text)}")
    return 0


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines with their line feed, each cut to just over the allowed length so that none fills the memory."""
    while text := file.readline(LINE_BYTES_MAX + 1):
        yield text
        while len(text) > LINE_BYTES_MAX and not text.endswith(b"\n"):
            text = file.readline(LINE_BYTES_MAX + 1)


def _is_torn(text: bytes) -> bool:
    """Half an object without a line feed: only the last line of a file can be so.

    Half an object is never a whole JSON value, so a complete last line with a wrong word in it is not torn.
    """
    if text.endswith(b"\n") or not text.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False


def _start_of(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace").strip()
    cut = shown if len(shown) <= _PROBLEM_TEXT_MAX else shown[:_PROBLEM_TEXT_MAX] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)

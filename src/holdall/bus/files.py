"""Files with secrets: written whole or not at all, for their owner only, and refused when others could read them."""

import contextlib
import os
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from holdall.model.errors import BadConfig

SECRET_BYTES_MAX = 4 * 1024 * 1024
Value = TypeVar("Value")


def make_private_folder(path: Path) -> None:
    """A folder that only its owner may enter. Raises BadConfig when it can't be, or when others may enter it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
    except OSError as problem:
        raise BadConfig(f"{path}: {problem.strerror or problem}; the bus keeps its keys there.") from None
    if not stat.S_ISDIR(mode):
        raise BadConfig(f"{path} is no folder; the bus keeps its keys there. Move it away.")
    if stat.S_IMODE(mode) & 0o077:
        raise BadConfig(f"{path} is open to other users. Close it with: chmod 700 {path}")


def write_secret(path: Path, text: str | bytes) -> None:
    """Replace a file as one step, mode 0600, on the disk when this returns. Raises BadConfig."""
    data = text.encode() if isinstance(text, str) else text
    fresh = path.with_name(f"{path.name}.new")
    try:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()  # of a writer that was killed
        number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise BadConfig(f"{path} can't be written: {problem.strerror or problem}.") from None


def read_secret(path: Path) -> str:
    """The text of a file that only its owner can read.

    Raises FileNotFoundError when there is none, BadConfig when it can't be read, is open to others or of somebody else.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise BadConfig(f"{path} can't be read: {problem.strerror or problem}.") from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BadConfig(f"{path} is no plain file; it should hold a secret of this node.")
        if status.st_uid not in {os.geteuid(), 0}:
            raise BadConfig(
                f"{path} belongs to another user (uid {status.st_uid}); it should be this node's own."
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise BadConfig(f"{path} is open to other users. Close it with: chmod 600 {path}")
        data = file.read(SECRET_BYTES_MAX + 1)
    if len(data) > SECRET_BYTES_MAX:
        raise BadConfig(f"{path} is larger than any file of the bus; bring it back from a copy.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadConfig(f"{path} is no text; bring it back from a copy.") from None


def write_value(path: Path, value: msgspec.Struct) -> None:
    """A value as readable JSON."""
    write_secret(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_value(path: Path, kind: type[Value]) -> Value:
    """The value in a file. Raises FileNotFoundError, and BadConfig when it is none of its kind."""
    text = read_secret(path)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise BadConfig(f"{path}: {problem}. Bring it back from a copy.") from None

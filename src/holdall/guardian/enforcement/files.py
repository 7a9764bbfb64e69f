"""Small files of the kernel, read and written without a fuss."""

from pathlib import Path


def try_write(file: Path, text: str) -> bool:
    """False where it is not there, or the kernel refuses."""
    try:
        # Never create: a tree that has no such file must not get one.
        with file.open("r+") as opened:
            opened.write(text)
    except OSError:
        return False
    return True


def read_number(file: Path) -> int:
    """-1 where there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return -1


def numbers_in(file: Path) -> dict[str, int]:
    """`name number` on each line; what is not so is left out."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, int] = {}
    for line in lines:
        name, _, number = line.partition(" ")
        if number.isdecimal():
            found[name] = int(number)
    return found

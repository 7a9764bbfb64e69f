"""What no file of the repository may contain."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Written with brackets, so that this file does not contain what it forbids.
FORBIDDEN = {
    "a path of one machine": r"(?<![A-Za-z0-9_.~}])/(?:wor[k]|far[m]|roo[t]|hom[e]/[a-z]+|User[s]/[a-z]+)/",
    "a package index": r"pypi[.]org|pythonhosted[.]org|npmjs[.]org|deb[.]debian[.]org",
    "a note to self": r"\b(?:TO[D]O|FIX[M]E|HA[C]K|X[X]X)\b",
    "a document that is not here": r"\b(?:decision[s]?[.]md|product[.]m[d]|leasing[.]m[d]|shared/[a-z]+[.]md)",
    "a number instead of the reason": r"\bdecision[ ]\d|\bissue[ ]#?\d",
}


def files_of_the_repository() -> Iterator[tuple[str, str]]:
    """Name and text of every tracked file that is text."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file():  # deleted, not yet committed
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            yield name, content.decode("utf-8")


@pytest.mark.requires("git")
@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in files_of_the_repository()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", "source = /ho·me/ann/holdall"),
        ("a path of one machine", "see /wo·rk/main/src"),
        ("a package index", "--index-url https://py·pi.org/simple"),
        ("a note to self", "# TO·DO: later"),
        ("a document that is not here", "see pro·duct.md"),
        ("a number instead of the reason", "as in deci·sion 17"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, line: str) -> None:
    assert re.search(FORBIDDEN[what], line.replace("·", ""))


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_a_lock_pins_with_hashes_and_names_no_address_and_no_path(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    assert re.findall(r"[a-z+]+://\S+", text) == []
    assert re.findall(r"(?:^|[\s=@])/\S+", text) == []
    pinned = re.findall(
        r"^([a-z0-9][a-z0-9._-]*)(\S*)(?: ; [^\\\n]+)? \\\n    --hash=sha256:[0-9a-f]{64}",
        text,
        re.MULTILINE,
    )
    assert all(version.startswith("==") for _, version in pinned)
    named = re.findall(r"^([a-z0-9][a-z0-9._-]*)", text, re.MULTILINE)
    assert [name for name, _ in pinned] == named
    assert {"msgspec", "rich", "structlog", "typer"} <= set(named)

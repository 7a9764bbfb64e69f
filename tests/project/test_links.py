"""Links between the pages: each goes to a file that is in the repository, and to a heading that is in that file."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
MADE = {"docs/reference/commands.md", "docs/reference/messages.md"}
"""Made when the documentation is built."""


def pages() -> list[Path]:
    """Every Markdown file that git knows, or would know, of."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return [ROOT / name for name in filter(None, listed.stdout.split("\0")) if (ROOT / name).is_file()]


def prose(page: Path) -> str:
    """Without blocks and spans of code, in which brackets mean something else."""
    text = re.sub(
        r"^(`{3,}|:{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return re.sub(r"`[^`\n]*`", "`code`", text)


def anchors(page: Path) -> set[str]:
    """Names of the headings, as GitHub and myst make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    seen: Counter[str] = Counter()
    names: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return names | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def broken(page: Path) -> list[str]:
    found: list[str] = []
    for link in (one or other for one, other in LINK.findall(prose(page))):
        if re.match(r"[a-z]+:", link):
            continue  # an address of the network is nobody's promise
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if ROOT not in target.parents:
            found.append(f"{link}: outside of the repository")
        elif target.relative_to(ROOT).as_posix() in MADE:
            continue
        elif not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            found.append(f"{link}: no such heading")
    return found


@pytest.mark.requires("git")
def test_every_link_of_every_page_has_its_end() -> None:
    known = pages()
    assert len(known) > 30
    assert {page.relative_to(ROOT).as_posix(): ends for page in known if (ends := broken(page))} == {}


def test_a_link_without_an_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# One thing\n\n## What's `more`?\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#whats-more) [c](#here) [d](https://x.y/z#a)\n\n# Here\n"
        "`[e](nowhere.md)`\n```\n[f](nowhere.md)\n```\n"
    )
    assert broken(page) == []
    page.write_text("[a](nowhere.md) ![b](no.png) [c](other.md#two) [d](#there) [e](../../x.md)")
    assert [link.partition(":")[0] for link in broken(page)] == [
        "nowhere.md",
        "no.png",
        "other.md#two",
        "#there",
        "../../x.md",
    ]

"""The dashboard's files: what lies in the folder and nothing else, and what is said where it was not built."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import Response

from holdall.http import pages
from holdall.http.problems import Problem


def served(file: str, **headers: str) -> Response:
    """What the router gets when it asks for a file."""
    asking: Any = SimpleNamespace(
        path={"file": file} if file else {}, request=SimpleNamespace(headers=headers)
    )
    return asyncio.run(pages.page(asking))


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dashboard"
    folder.mkdir()
    (folder / "index.html").write_text("<p>the page")
    (folder / "app.js").write_text("go()")
    (tmp_path / "secret").write_text("not yours")
    monkeypatch.setattr(pages, "FOLDER", folder)
    return folder


def test_the_index_is_the_page_and_is_not_sent_twice(built: Path) -> None:
    first = served("")
    assert bytes(first.body) == b"<p>the page"
    assert first.media_type == "text/html"
    again = served("", **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, bytes(again.body)) == (304, b"")


@pytest.mark.parametrize("file", ["../secret", "secret", "/etc/passwd", "app.js/..", "nothing"])
def test_no_path_leads_out_of_the_folder(built: Path, file: str) -> None:
    with pytest.raises(Problem) as refused:
        served(file)
    assert refused.value.detail.code == "not-found"


def test_where_it_was_not_built_the_next_step_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "nowhere")
    with pytest.raises(Problem, match="run scripts/dashboard"):
        served("")

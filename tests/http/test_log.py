"""The log of the HTTP server: each line is one JSON object, also what the libraries say."""

import logging
from collections.abc import Iterator

import msgspec
import pytest

from holdall.http.log import WHY_MAX, make_log


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    handlers = logging.getLogger().handlers
    before = list(handlers)
    yield
    handlers[:] = before


def test_what_libraries_say_are_lines_of_the_same_form(capfd: pytest.CaptureFixture[str]) -> None:
    log = make_log()
    log("no spans", level="warning", why="none")
    library = logging.getLogger("uvicorn.error")
    library.info("not said")
    library.warning("Invalid HTTP request received.")
    library.error("Exception in ASGI application\n", exc_info=ValueError("too\nlittle" + "x" * WHY_MAX))
    lines = [msgspec.json.decode(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["no spans", "a library says", "a library says"]
    assert [line["level"] for line in lines] == ["warning", "warning", "error"]
    assert {line["part"] for line in lines} == {"http"}
    assert lines[1]["why"] == "Invalid HTTP request received."
    assert lines[2]["why"].startswith("Exception in ASGI application: ValueError('too")
    assert len(lines[2]["why"]) == WHY_MAX

"""The lines at the top of docs/guide/python.md work as they are written."""

import ast
import asyncio
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from node.lab import Lab, lab
from node.waiting import until
from system.runs import HOLDALL, all_free, environment

import holdall

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "python.md"
POOLS = """
[node]
name = "lab-1"
listen = "off"

[[pool]]
name = "board"
units = ["board-1", "board-2"]
labels = { arch = "arm64" }
max_for = "2h"

[[pool]]
name = "psu"
units = ["psu-1"]

[[pool]]
name = "gpu"
count = 2

[[pool]]
name = "tpu"
count = 1
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        made.configure(POOLS)
        made.start("--new")
        yield made


def lines() -> str:
    (block,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


class Recording(ast.NodeTransformer):
    """Every line that is an expression also tells its value."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        call = ast.Call(func=ast.Name(id="record", ctx=ast.Load()), args=[node.value], keywords=[])
        return ast.copy_location(ast.Expr(value=call), node)


def compiled(text: str) -> CodeType:
    tree = ast.fix_missing_locations(Recording().visit(ast.parse(text)))
    code: CodeType = compile(tree, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def kick_the_alternative(node: Lab) -> threading.Thread:
    """Somebody takes the lease of the alternative away as soon as it is there: else the lines wait for ever."""

    def kick() -> None:
        with holdall.sync.connect(f"unix://{node.socket}") as hub:

            def found() -> list[str]:
                return [view.lease for view in hub.who() if view.units[0].pool == "tpu"]

            until(found, "the alternative is granted")
            (lease,) = found()
        command = [*HOLDALL, "kick", lease, "--reason", "the end of the page"]
        subprocess.run(command, env=environment(node), check=True, timeout=60, capture_output=True)

    thread = threading.Thread(target=kick)
    thread.start()
    return thread


def test_every_line_works_as_written(node: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both units of `gpu` are taken by the third line, so the alternative gives the other pool's."""
    url = f"unix://{node.socket}"
    monkeypatch.setenv("HOLDALL_URL", url)
    told: list[Any] = []
    names: dict[str, Any] = {"record": told.append}
    kicking = kick_the_alternative(node)

    async def run() -> None:
        async with asyncio.timeout(90):
            await FunctionType(compiled(lines()), names)()

    asyncio.run(run())
    kicking.join()
    units, extended, waited, ended = told
    assert [(unit.name, unit.node) for unit in units] == [("psu-1", "lab-1")]
    assert units[0].fence >= 1
    assert (extended, waited, ended) == (None, True, ...)
    with holdall.sync.connect(url) as hub:
        assert [row.kind for row in hub.log()].count("granted") == 4
    assert all_free(node)

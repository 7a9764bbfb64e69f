"""Coroutine tests run in a loop of their own, for a minute at most; `node` is a scripted node that listens."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest
from client.scripted_node import ScriptedNode


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await function(**arguments)

    asyncio.run(bounded())
    return True


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node

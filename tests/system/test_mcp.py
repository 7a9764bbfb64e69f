"""Two agents that contend for two tools, through the SDK's own client, over standard input and output and over HTTP."""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from node.lab import Lab, lab
from node.waiting import until_async
from system.runs import HOLDALL, all_free, environment

from holdall.mcp.agent import GRANT_KEPT_S, PLACE_KEPT_S
from holdall.mcp.agent import Agent as Party
from holdall.mcp.agents import Agents
from holdall.mcp.answers import standing
from holdall.mcp.server import make_server

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]

ENDS = re.compile(r"left: (no limit|\d+ s)\. next: .{10,}\Z")
OPEN = "sesame"
WORDS = ("board:3", "psu:2")
"""All of both pools: two agents that want them contend for both."""


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


class Agent:
    """One client of one server, with what it was told of itself."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.you = ""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A call that is answered; `error` in the answer for one that was refused."""
        if self.you:
            arguments["you"] = self.you
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        (block,) = result.content
        assert isinstance(block, TextContent)
        answer: dict[str, Any] = result.structured_content or {}
        assert answer, block.text
        assert ENDS.search(block.text), block.text
        assert result.is_error == (answer["state"] == "error")
        self.you = self.you or answer["you"]
        return {**answer, "words": block.text}

    async def granted(self) -> dict[str, Any]:
        """Look until the claim is granted."""
        last: dict[str, Any] = {}

        async def look() -> bool:
            last.clear()
            last.update(await self.call("check"))
            return bool(last["state"] == "granted")

        for _ in range(300):
            if await look():
                return last
            await asyncio.sleep(0.05)
        pytest.fail(f"not granted: {last}")


@contextlib.asynccontextmanager
async def over_stdio(node: Lab) -> AsyncGenerator[tuple[Agent, Agent]]:
    """A server each, as agents start them."""
    server = StdioServerParameters(command=HOLDALL[0], args=[*HOLDALL[1:], "mcp"], env=environment(node))
    async with Client(server) as one, Client(server) as two:
        yield Agent(one), Agent(two)


@contextlib.contextmanager
def http_server(node: Lab, **more: str) -> Generator[str]:
    """The address of `holdall mcp --listen`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*HOLDALL, "mcp", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        command,
        env=environment(node, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, process.stdout.read() if process.stdout else ""
            process_wait(process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=30)
        sys.stderr.write(said)


def process_wait(process: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.1)


@contextlib.asynccontextmanager
async def over_http(node: Lab, *, mode: str = "auto") -> AsyncGenerator[tuple[Agent, Agent]]:
    """One server for both."""
    with http_server(node) as url:
        async with Client(url, mode=mode) as one, Client(url, mode=mode) as two:
            yield Agent(one), Agent(two)


@contextlib.asynccontextmanager
async def in_this_process(node: Lab) -> AsyncGenerator[tuple[Agent, Agent]]:
    """One server for both, without a process of its own: where the way to it is not what is tested."""
    known = Agents(f"unix://{node.socket}", alone=False)
    server = make_server(known, alone=False)
    try:
        async with Client(server) as one, Client(server) as two:
            yield Agent(one), Agent(two)
    finally:
        await known.close()


def over_old_http(node: Lab) -> contextlib.AbstractAsyncContextManager[tuple[Agent, Agent]]:
    """As clients do that know sessions and the first handshake only."""
    return over_http(node, mode="legacy")


@pytest.fixture(params=[over_stdio, over_http, over_old_http], ids=["stdio", "http", "old-http"])
def agents(request: pytest.FixtureRequest) -> Any:
    return request.param


def bounded(work: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(90):
            await work()

    asyncio.run(limited())


def test_two_agents_contend_for_two_tools(node: Lab, agents: Any) -> None:
    async def work() -> None:
        async with agents(node) as (one, two):
            tools = (await one.client.list_tools()).tools
            assert {tool.name for tool in tools} == {"claim", "check", "extend", "release", "who"}
            assert all(tool.output_schema for tool in tools)

            first = await one.call("claim", needs=list(WORDS), reason="flash", hold_for="5m")
            assert first["state"] == "granted"
            assert {unit["pool"] for unit in first["leases"][0]["units"]} == {"board", "psu"}
            assert 200 < first["seconds_left"] <= 300
            assert "left: " in first["words"].splitlines()[-1]

            # In the opposite order: it gets none of them, and its answer comes at once.
            second = await two.call("claim", needs=list(reversed(WORDS)), reason="measure")
            assert second["state"] == "queued"
            assert second["leases"] == []
            assert (second["queued"]["position"], second["queued"]["waiting"]) == (1, 1)
            assert '"flash"' in second["queued"]["blocked_by"]
            assert "call check" in second["next"]

            seen = await two.call("who")
            assert {(party["state"], party["reason"]) for party in seen["parties"]} == {
                ("holds", "flash"),
                ("waits", "measure"),
            }
            assert len({party["holder"] for party in seen["parties"]}) == 2
            assert all("mcp-" in party["holder"] for party in seen["parties"])

            again = await two.call("claim", needs=["psu"], reason="more")
            assert again["state"] == "error"
            assert "you wait for claim" in again["text"]

            longer = await one.call("extend", hold_for="20m")
            assert longer["seconds_left"] > 1000
            done = await one.call("release")
            assert done["state"] == "nothing"
            assert "released" in done["text"]

            fences = {unit["unit"]: unit["fence"] for unit in first["leases"][0]["units"]}
            got = await two.granted()
            for unit in got["leases"][0]["units"]:
                assert unit["fence"] > fences[unit["unit"]]
            assert (await two.call("release", lease=got["leases"][0]["lease"]))["state"] == "nothing"
            assert (await two.call("release"))["text"] == "there was nothing to give back"

    bounded(work)
    assert all_free(node)


def test_what_a_holder_asks_for_more_is_had_now_or_not_at_all(node: Lab) -> None:
    async def work() -> None:
        async with in_this_process(node) as (one, two):
            await one.call("claim", needs=["psu:1"], reason="a")
            covered = await one.call("claim", needs=["psu:1"], reason="again")
            assert "covers that" in covered["text"]
            assert len(covered["leases"]) == 1
            more = await one.call("claim", needs=["board:1"], reason="b")
            assert {lease["units"][0]["pool"] for lease in more["leases"]} == {"board", "psu"}
            await two.call("claim", needs=["psu:1"], reason="c")
            refused = await one.call("claim", needs=["psu:2"], reason="d")
            assert refused["state"] == "error"
            assert "Waiting for it would never end" in refused["text"]
            assert "in one call" in refused["next"]
            assert len(refused["leases"]) == 2
            which = await one.call("extend", hold_for="20m")
            assert "you hold no lease (none named)" in which["text"]

    bounded(work)
    assert all_free(node)


def test_a_lapsed_lease_is_announced_on_the_next_call(node: Lab) -> None:
    async def work() -> None:
        async with in_this_process(node) as (one, two):
            await one.call("claim", needs=["psu:2"], reason="short", hold_for="1s")
            queued = await two.call("claim", needs=["psu:2"], reason="next")
            assert queued["state"] in {"queued", "granted"}
            await two.granted()
            told = await one.call("check")
            assert told["state"] == "nothing"
            (news,) = told["news"]
            assert "hard end" in news
            assert "stop using them" in news
            assert told["words"].startswith("NOTE: lease ")
            assert (await one.call("check"))["news"] == []

    bounded(work)
    assert all_free(node)


def waits(agent: Party) -> bool:
    return agent.waiting is not None


def test_what_a_silent_agent_has_in_line_or_was_granted_in_vain_is_given_up(node: Lab) -> None:
    async def work() -> None:
        known = Agents(f"unix://{node.socket}", alone=False)
        one, two, three = [await known.caller("", new=True) for _ in range(3)]
        try:
            for agent, reason in ((one, "a"), (two, "b"), (three, "c")):
                agent.called()
                await agent.claim(["psu:2"], hold_for="10m", wait="1h", reason=reason)
            await one.release("all")
            assert two.waiting is not None
            await asyncio.wrap_future(two.waiting.call.future)
            for agent in (two, three):
                agent.tidy(agent.called_s + 60)
                assert waits(agent)
            granted_s = two.waiting.granted_s
            assert granted_s is not None
            three.tidy(three.called_s + PLACE_KEPT_S + 1)
            assert not waits(three)
            two.tidy(granted_s + GRANT_KEPT_S + 1)
            assert not waits(two)
            await until_async(lambda: all_free(node), "both are given back")
            for agent, text in ((two, "was granted, and given back"), (three, "was given up since")):
                agent.called()
                told = standing(agent)
                assert told.state == "nothing"
                assert text in told.news[0]
        finally:
            await known.close()

    bounded(work)


def test_a_kicked_lease_is_announced_too(node: Lab) -> None:
    async def work() -> None:
        async with in_this_process(node) as (one, _):
            lease = (await one.call("claim", needs=["psu"], reason="x"))["leases"][0]["lease"]
            kick = [*HOLDALL, "kick", lease, "--reason", "the bench is on fire"]
            process = await asyncio.create_subprocess_exec(
                *kick,
                env=environment(node),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            told = await one.call("check")
            for _ in range(300):
                if told["news"]:
                    break
                await asyncio.sleep(0.05)
                told = await one.call("check")
            assert "on fire" in told["news"][0]
            assert await process.wait() == 0

    bounded(work)
    assert all_free(node)


def test_over_http_an_agent_is_known_by_the_servers_secret_alone(node: Lab) -> None:
    async def work() -> None:
        async with over_http(node) as (one, two):
            mine = await one.call("claim", needs=["psu:1"], reason="mine")
            assert len(mine["you"]) >= 20
            nobody = await two.call("check")
            assert nobody["state"] == "error"
            assert "say who calls" in nobody["text"]
            guessed = await two.client.call_tool("release", {"you": "one", "lease": "all"})
            assert guessed.is_error
            theirs = await two.call("claim", needs=["psu:1"], reason="theirs")
            assert theirs["you"] not in {"", mine["you"]}
            other = await two.call("release", lease=mine["leases"][0]["lease"])
            assert other["state"] == "error"
            assert "you hold no lease" in other["text"]
            # Another connection of the same agent goes on with what it holds.
            moved = Agent(two.client)
            moved.you = one.you
            assert (await moved.call("check"))["leases"][0]["lease"] == mine["leases"][0]["lease"]
            # Looking needs no identity, and makes none.
            looking = Agent(one.client)
            assert len((await looking.call("who"))["parties"]) == 2
            assert looking.you == ""

    bounded(work)
    assert all_free(node)


def test_with_a_token_nobody_else_gets_in(node: Lab) -> None:
    async def work() -> None:
        with http_server(node, HOLDALL_MCP_TOKEN=OPEN) as url:
            for headers in ({}, {"Authorization": f"Bearer {OPEN[:-1]}"}):
                async with httpx2.AsyncClient(headers=headers) as http:
                    assert (await http.post(url, json={})).status_code == 401
            headers = {"Authorization": f"Bearer {OPEN}"}
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                assert (await Agent(client).call("claim", needs=["psu"], reason="x"))["state"] == "granted"

    bounded(work)
    assert all_free(node)


def test_an_agent_that_ends_leaves_nothing(node: Lab) -> None:
    async def work() -> None:
        async with over_stdio(node) as (one, two):
            await one.call("claim", needs=["psu:2"], reason="x")
            await two.call("claim", needs=["psu:2", "board:1"], reason="y")
        await until_async(lambda: all_free(node), "everything is free")

    bounded(work)


def test_what_can_not_be_is_said_at_once(node: Lab) -> None:
    async def work() -> None:
        async with in_this_process(node) as (one, _):
            for needs, text in (
                (["laser"], "cannot ever be granted"),
                (["psu:7"], "cannot ever be granted"),
                (["PSU"], "is not a pool name"),
            ):
                answer = await one.call("claim", needs=needs, reason="x")
                assert answer["state"] == "error"
                assert text in answer["text"]
            either = await one.call("claim", needs=["psu:7 or psu:2"], reason="x")
            assert len(either["leases"][0]["units"]) == 2

    bounded(work)


def test_an_address_for_everybody_is_refused(node: Lab) -> None:
    for address in ("0.0.0.0:7430", "lab-1:7430", "7430", "127.0.0.1:port"):
        refused = subprocess.run(
            [*HOLDALL, "mcp", "--listen", address],
            env={**os.environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert refused.returncode == 64
        assert "--listen" in refused.stderr

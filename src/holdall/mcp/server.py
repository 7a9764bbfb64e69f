"""The tools, and the two ways to reach them: standard input and output for one agent, HTTP for many."""

import asyncio
import contextlib
import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import AnyHttpUrl, Field

from holdall.client.tenure import Tenure
from holdall.mcp.agent import Agent
from holdall.mcp.agents import Agents
from holdall.mcp.answers import Answer, party_of_lease, party_of_wait, standing, trouble
from holdall.model.errors import (
    HoldallError,
    NeverSatisfiable,
    NotHolder,
    Refused,
    Unreachable,
    WouldDeadlock,
)

HOLD_DEFAULT = "10m"
WAIT_DEFAULT = "1h"
PARTIES_MAX = 100

INSTRUCTIONS = """\
holdall gives you all the units that you need (boards, GPUs, ports, instruments) or none, for a limited time.
Claim everything that one task needs in one call. If the answer says queued, do something else and call check later:
nothing here waits. Use units only while the answer says granted and seconds are left; release as soon as you are done.
Every answer ends with the seconds left and the next call."""

You = Annotated[
    str,
    Field(
        description="The secret from the answer to your first claim. Leave it out where you were given none."
    ),
]
Result = Annotated[CallToolResult, Answer]


class Tools:
    """What an agent can call. Each answers at once."""

    def __init__(self, agents: Agents, *, alone: bool) -> None:
        self._agents = agents
        self._alone = alone

    async def claim(
        self,
        needs: Annotated[
            list[str],
            Field(
                description='All that is needed together, e.g. ["board,arch=arm64", "psu:2"]; an alternative within one: '
                '"gpu,model=h100 or gpu:2". The form is POOL[+POOL],[KEY=VALUE],[@NODE][:COUNT|:all].',
                min_length=1,
            ),
        ],
        reason: Annotated[
            str, Field(description="What for, in a few words; shown to others.", max_length=200)
        ],
        hold_for: Annotated[
            str, Field(description="How long at most, e.g. 10m; can be extended.")
        ] = HOLD_DEFAULT,
        wait: Annotated[str, Field(description="How long to stay in line at most, e.g. 1h.")] = WAIT_DEFAULT,
        you: You = "",
    ) -> Result:
        """Ask for units: all of them or none. Answers at once: granted, or queued with your position and who blocks."""
        first = not you and not self._alone

        async def act(agent: Agent) -> Answer:
            got = await agent.claim(needs, hold_for=hold_for, wait=wait, reason=reason)
            covered = (
                f"lease {got.name}, which you hold already, covers that"
                if isinstance(got, Tenure) and got.view
                else ""
            )
            return standing(agent, text=covered, secret=agent.secret if first else "")

        return await self._answer(you, act, new=True)

    async def check(self, you: You = "") -> Result:
        """What you hold and wait for now: units, fences, seconds left, position and blocker. Changes nothing."""

        async def act(agent: Agent) -> Answer:
            return standing(agent)

        return await self._answer(you, act)

    async def extend(
        self,
        hold_for: Annotated[str, Field(description="From now on, e.g. 20m; never makes it shorter.")],
        lease: Annotated[
            str, Field(description="Which lease, e.g. 7K4M-Q2; needed if you hold several.")
        ] = "",
        you: You = "",
    ) -> Result:
        """Keep a lease longer: a later end, counted from now, up to what the pool allows."""

        async def act(agent: Agent) -> Answer:
            tenure = await agent.extend(lease, hold_for)
            return standing(agent, text=f"lease {tenure.name} is extended")

        return await self._answer(you, act)

    async def release(
        self,
        lease: Annotated[
            str, Field(description="A lease or waiting claim by its id, e.g. 7K4M-Q2, or all.")
        ] = "all",
        you: You = "",
    ) -> Result:
        """Give units back, or give up your place in line. Stop using the units before. Doing it again does no harm."""

        async def act(agent: Agent) -> Answer:
            done = await agent.release(lease)
            return standing(agent, text="; ".join(done) or "there was nothing to give back")

        return await self._answer(you, act)

    async def who(
        self,
        pool: Annotated[
            str, Field(description="Only leases and claims with this in their units or needs.")
        ] = "",
        you: You = "",
    ) -> Result:
        """Who holds and who waits for what, with reasons. For everybody; claims nothing."""

        async def act(agent: Agent) -> Answer:
            return await self._who(agent, pool)

        return await self._answer(you, act, new=not you, tell=bool(you) or self._alone)

    async def _who(self, agent: Agent, pool: str) -> Answer:
        held, queue = await agent.listing("who"), await agent.listing("queue")
        now_ms = int(time.time() * 1000)
        parties = [
            party_of_lease(view, now_ms)
            for view in held.leases
            if not pool or pool in {unit.pool for unit in view.units}
        ]
        parties += [
            party_of_wait(why)
            for why in queue.waits
            if not pool or any(pool in need.spec for need in why.needs)
        ]
        own = standing(agent)
        shown = parties[:PARTIES_MAX]
        text = f"{len(parties)} hold or wait" + (f", {len(shown)} shown" if len(shown) < len(parties) else "")
        return Answer(
            state="listed",
            parties=shown,
            news=own.news,
            text=text,
            seconds_left=own.seconds_left,
            next=own.next,
        )

    async def _answer(
        self, you: str, act: Callable[[Agent], Awaitable[Answer]], *, new: bool = False, tell: bool = True
    ) -> CallToolResult:
        agent: Agent | None = None
        made = new and not you and not self._alone
        try:
            agent = await self._agents.caller(you, new=new)
            async with agent.busy:
                agent.called()
                answer = await act(agent)
        except HoldallError as problem:
            answer = trouble(agent, str(problem), _next_after(problem))
        if made and agent is not None and (not tell or (agent.idle and not answer.you)):
            await self._agents.forget(agent)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.words())],
            structured_content=answer.values(),
            is_error=answer.state == "error",
        )


def _next_after(problem: HoldallError) -> str:
    match problem:
        case NeverSatisfiable():
            return "call who to see what others use, then claim what exists"
        case WouldDeadlock():
            return "release what you hold and claim everything in one call"
        case NotHolder():
            return "call check to see what is yours"
        case Refused():
            return "claim less, or for a shorter time"
        case Unreachable():
            return "call check again in a minute; the node does not answer"
        case _:
            return "mend the call as the text says"


class OneToken:
    """The bearer token that everybody who reaches the server over HTTP has to bring."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """As the SDK asks for it; None: refused."""
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="holdall", scopes=[])


def make_server(agents: Agents, *, alone: bool, origin: str = "", token: str = "") -> MCPServer[object]:
    """The server with its tools. With a `token`, requests without it are refused (401); `origin` is its own address."""
    tools = Tools(agents, alone=alone)
    server: MCPServer[object] = MCPServer(
        "holdall",
        instructions=INSTRUCTIONS,
        log_level="WARNING",
        auth=AuthSettings(issuer_url=AnyHttpUrl(origin), resource_server_url=None) if token else None,
        token_verifier=OneToken(token) if token else None,
    )
    looks = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    acts = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    ends = ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    )
    for tool, hints in (
        (tools.claim, acts),
        (tools.check, looks),
        (tools.extend, acts),
        (tools.release, ends),
        (tools.who, looks),
    ):
        server.add_tool(tool, annotations=hints)
    return server


async def serve(url: str | None, listen: tuple[str, int] | None, *, token: str = "") -> None:
    """Until standard input ends, or, with an address, until it is stopped. `token`: for HTTP; empty: none is asked for."""
    alone = listen is None
    agents = Agents(url, alone=alone)
    tidying = asyncio.create_task(agents.tidy())
    try:
        if listen is None:
            await make_server(agents, alone=True).run_stdio_async()
        else:
            host, port = listen
            server = make_server(agents, alone=False, origin=f"http://{host}:{port}", token=token)
            await server.run_streamable_http_async(host=host, port=port)
    finally:
        tidying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tidying
        await agents.close()

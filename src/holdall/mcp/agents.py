"""Who calls: an agent is known by a secret that this server made, never by a name that it chose for itself."""

import asyncio
import contextlib
import hmac
import secrets
import time

from holdall.client.opening import open_link
from holdall.mcp.agent import Agent
from holdall.model.errors import NotHolder, Refused

AGENTS_MAX = 200
"""Each has a session with the node of its own."""
FORGOTTEN_S = 3600.0
"""An agent that has nothing is forgotten after so long without a call."""
TIDY_S = 1.0


class Agents:
    """All agents of one server. `alone`: the server is one agent's own (stdio), so nobody has to say who calls."""

    def __init__(self, url: str | None, *, alone: bool) -> None:
        self._url = url
        self._alone = alone
        self._known: dict[str, Agent] = {}
        self._only: Agent | None = None
        self._making = asyncio.Lock()

    async def caller(self, secret: str, *, new: bool = False) -> Agent:
        """The agent with this secret; with `new`, one that has none yet gets one. Raises NotHolder, Refused, Unreachable."""
        if self._alone:
            async with self._making:
                self._only = self._only or await self._make()
            return self._only
        if secret:
            return self._find(secret)
        if new:
            return await self._make()
        raise NotHolder(
            "say who calls: pass as `you` the secret from the answer to your first claim. Without one, call claim"
        )

    def _find(self, secret: str) -> Agent:
        for known, agent in self._known.items():
            if hmac.compare_digest(known.encode(), secret.encode()):
                return agent
        raise NotHolder(
            "this server does not know that secret: it was started anew, or you had nothing and were silent for an hour. "
            "What you held has been given back. Call claim without `you`"
        )

    async def _make(self) -> Agent:
        if len(self._known) >= AGENTS_MAX:
            raise Refused(f"this server has {AGENTS_MAX} agents already. Try again later")
        secret = secrets.token_urlsafe(16)
        name = f"mcp-{secrets.token_hex(3)}"
        link = await asyncio.to_thread(open_link, self._url, agent=name, history=None)
        agent = Agent(link, secret, name)
        self._known[secret] = agent
        return agent

    async def forget(self, agent: Agent) -> None:
        """It has nothing, and nobody was told its secret."""
        self._known.pop(agent.secret, None)
        await agent.close()

    async def tidy(self) -> None:
        """For ever: what silent agents leave is given back. Cancelled when the server ends."""
        while True:
            await asyncio.sleep(TIDY_S)
            now = time.monotonic()
            for secret, agent in list(self._known.items()):
                agent.tidy(now)
                if not self._alone and agent.idle and now > agent.called_s + FORGOTTEN_S:
                    del self._known[secret]
                    await agent.close()

    async def close(self) -> None:
        """Everything of everybody is given back."""
        agents, self._known = list(self._known.values()), {}
        for agent in agents:
            with contextlib.suppress(Exception):  # the others are to be closed, too
                await agent.close()

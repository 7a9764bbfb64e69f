"""Turns of a conversation about a lease, between a test and what the scripted node is told."""

import asyncio
from typing import TypeVar

from client.scripted_node import ScriptedNode, lease_view

import holdall
from holdall.model import frames

Frame = TypeVar("Frame")
FOREVER = 3_600


async def heard(node: ScriptedNode, kind: type[Frame]) -> Frame:
    return await asyncio.to_thread(node.hear, kind)


async def answer_release(node: ScriptedNode) -> frames.Release:
    release = await heard(node, frames.Release)
    node.say(frames.Released(release.n, lease_view().lease, "released"))
    return release


async def granted_lease(
    node: ScriptedNode, hub: holdall.Hub, ttl_ms: int = 30_000, **more: object
) -> holdall.Lease:
    asking = asyncio.ensure_future(hub.lease("gpu:1")._acquire())
    node.grant(await heard(node, frames.Claim), lease_view(ttl_ms=ttl_ms), **more)
    return await asking

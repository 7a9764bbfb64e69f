"""Routes that claim, renew and give back."""

from collections.abc import Callable

from holdall.client.units import drop_names
from holdall.http import request_words, words
from holdall.http.api import Asking, Told
from holdall.http.claims import HttpClaim
from holdall.http.problems import Problem
from holdall.http.speaking import once
from holdall.model import frames
from holdall.model.durations import finite_duration, parse_duration
from holdall.model.errors import BadSpec, NotHolder, Unreachable
from holdall.model.spec import parse_need
from holdall.model.wanted import Need

WAIT_S_MAX = 60.0
TTL_MS_MIN = 1000


async def make(asking: Asking) -> Told:
    """Ask for all needs or none."""
    body: request_words.ClaimBody = asking.body
    talk = await asking.place.reading.talk()
    welcome = talk.welcome
    claim = _claim(body, welcome)
    made = await asking.place.claims.make(_uid(asking), body.holder, claim)
    shown = made.shown()
    status = 201 if shown.state == "granted" else 202
    return Told(shown, status, {"Location": f"/v1/claims/{made.id}"})


def _claim(body: request_words.ClaimBody, welcome: frames.Welcome) -> frames.Claim:
    wait_ms = parse_duration(body.wait, what="wait") if body.wait else welcome.wait_ms
    now = body.wait != "" and wait_ms == 0
    ttl_ms = finite_duration(body.ttl, what="ttl") if body.ttl else welcome.ttl_ms
    if not TTL_MS_MIN <= ttl_ms <= welcome.ttl_max_ms:
        raise BadSpec(f"ttl must be between 1s and {welcome.ttl_max_ms / 1000:g}s, the system's ttl_max")
    for_ms = finite_duration(body.hold_for, what="for") if body.hold_for else None
    if body.detached and for_ms is None:
        raise BadSpec('a detached lease needs a hard end: "for": "1h"')
    return frames.Claim(
        n=0,
        needs=tuple(_need(need) for need in body.needs),
        wait_ms=None if now else wait_ms,
        now=now,
        ttl_ms=ttl_ms,
        for_ms=for_ms,
        reason=body.reason,
        allow_future=body.allow_future,
        detached=body.detached,
        guarded=not body.detached,
        independent=True,
    )


def _need(need: "str | tuple[str, ...]") -> Need:
    return parse_need([need] if isinstance(need, str) else list(need))


async def show(asking: Asking) -> words.ClaimShown:
    """The claim, at once or when it has changed; says that its client is there."""
    query: request_words.WaitQuery = asking.query
    claim = _find(asking)
    wait_s = finite_duration(query.wait, what="wait") / 1000 if query.wait else 0.0
    if wait_s > WAIT_S_MAX:
        raise BadSpec("wait: at most 60s at once; ask again")
    await claim.beat()
    if wait_s and claim.state == "waiting":
        # Half a ttl without a word would be too long: it ends before.
        await claim.changed(min(wait_s, claim.ttl_ms / 2000))
    return claim.shown()


async def beat(asking: Asking) -> words.ClaimShown:
    """Its client is there."""
    body: request_words.BeatBody = asking.body
    known = asking.place.claims.known_of(_uid(asking), asking.path["claim"])
    if known is None and body.key:
        known = await asking.place.claims.take_up(_uid(asking), body.key)
    claim = _find(asking) if known is None else known
    await claim.beat()
    return claim.shown()


async def end(asking: Asking) -> words.Released:
    """Cancel a waiting claim, or release what it was granted."""
    name = asking.path["claim"]
    known = asking.place.claims.known_of(_uid(asking), name)
    if known is not None and known.state != "ended":
        return _released(await known.give_back())
    if known is not None:
        return words.Released(lease=name, what="already ended")
    return await _ask(asking, lambda n: frames.Cancel(n=n, claim=name))


async def release(asking: Asking) -> words.Released:
    """Give a lease back."""
    body: request_words.ReleaseBody = asking.body
    return await _ask(asking, lambda n: frames.Release(n=n, key=body.key, wait=body.wait))


async def renew(asking: Asking) -> words.Renewed:
    """A later hard end."""
    body: request_words.RenewBody = asking.body
    for_ms = finite_duration(body.hold_for, what="for")
    answer = await once(
        asking.place.orders.socket,
        lambda n: frames.Extend(n=n, key=body.key, for_ms=for_ms),
        for_uid=_uid(asking),
    )
    if not isinstance(answer, frames.Granted):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    known = asking.place.claims.known(body.key)
    if known is not None and known.uid == _uid(asking):
        known.replaced(answer)
    return words.Renewed(lease=answer.lease)


async def drop(asking: Asking) -> words.Changed:
    """A part of a lease is given back early."""
    body: request_words.DropBody = asking.body
    units = drop_names(await _held(asking, body.key), body.drop)
    return await _change(asking, body.key, lambda n: frames.Drop(n=n, key=body.key, units=units))


async def exchange(asking: Asking) -> words.Changed:
    """In one step if that is possible now; else nothing has changed."""
    body: request_words.ExchangeBody = asking.body
    units = drop_names(await _held(asking, body.key), body.drop)
    add = tuple(_need(need) for need in body.add)
    return await _change(asking, body.key, lambda n: frames.Exchange(n=n, key=body.key, add=add, drop=units))


async def _held(asking: Asking, key: str) -> tuple[frames.HeldUnit, ...]:
    listing = await asking.place.reading.single("show", key)
    if not listing.leases:
        raise NotHolder("no lease has this key or id, or it has ended. See: GET /v1/leases")
    return listing.leases[0].units


async def _change(asking: Asking, key: str, make_frame: Callable[[int], frames.ToNode]) -> words.Changed:
    answer = await once(asking.place.orders.socket, make_frame, for_uid=_uid(asking))
    known = asking.place.claims.known(key)
    if isinstance(answer, frames.Released):
        return words.Changed(lease=None)
    if not isinstance(answer, frames.Granted):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    if known is not None and known.uid == _uid(asking):
        known.replaced(answer)
    return words.Changed(lease=answer.lease)


async def _ask(asking: Asking, make_frame: Callable[[int], frames.ToNode]) -> words.Released:
    answer = await once(asking.place.orders.socket, make_frame, for_uid=_uid(asking))
    if not isinstance(answer, frames.Released):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return _released(answer)


def _released(answer: frames.Released) -> words.Released:
    return words.Released(lease=answer.lease, what=answer.what, free_by_ms=answer.free_by_ms)


def _find(asking: Asking) -> HttpClaim:
    return asking.place.claims.find(_uid(asking), asking.path["claim"])


def _uid(asking: Asking) -> int:
    if asking.caller.uid is None:
        raise Problem("unauthorized", "claims need somebody who makes them")
    return asking.caller.uid

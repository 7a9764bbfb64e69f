"""Routes of operators: kick, drain, clear; and those that let people and programs in: tokens and log-ins."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from starlette.responses import RedirectResponse, Response

from holdall.client.policy_question import PolicyQuestion, as_document, checked_agent, decide
from holdall.http import request_words, words
from holdall.http.api import Asking, Told
from holdall.http.callers import COOKIE
from holdall.http.problems import Problem
from holdall.http.speaking import Talk, once
from holdall.http.tunnel import Tunnels
from holdall.model import frames
from holdall.model.errors import BadConfig, BadSpec, Unreachable
from holdall.model.spec import parse_needs
from holdall.node.clock import wall_ms
from holdall.node.logins import VALID_S, Person
from holdall.node.policies import checked
from holdall.policy.reading import parse_policy
from holdall.policy.rules import Agent

CONFIRMED_WITHIN_S = 2.0
"""A kick is answered with what has become of it when that is known so soon."""


_awaited: "set[asyncio.Future[frames.FromNode]]" = set()
"""Answers that come after the request was answered; the event loop by itself would forget them."""


async def kick(asking: Asking) -> Told:
    """Take a lease away."""
    body: request_words.KickBody = asking.body
    lease = asking.path["lease"]
    asking.place.audit("kick", asking.caller, about=lease, reason=body.reason, unsafe=body.unsafe)
    talk = await Talk.open(asking.place.orders.socket, for_uid=asking.caller.uid, agent=_agent(asking))
    answers = talk.answers(
        frames.Kick(n=talk.number(), lease=lease, reason=body.reason, unsafe=body.unsafe), within_s=None
    )
    first = asyncio.ensure_future(anext(answers))
    _awaited.add(first)
    first.add_done_callback(lambda done: _kicked(asking, lease, talk, done))
    done, _ = await asyncio.wait([first], timeout=CONFIRMED_WITHIN_S)
    if not done:
        return Told(words.Released(lease=lease, what="asked"), 202)
    answer = first.result()
    if not isinstance(answer, frames.Released):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return Told(words.Released(lease=answer.lease, what=answer.what, free_by_ms=answer.free_by_ms))


def _kicked(asking: Asking, lease: str, talk: Talk, done: "asyncio.Future[frames.FromNode]") -> None:
    _awaited.discard(done)
    talk.close()
    if done.cancelled():
        return
    problem = done.exception()
    answer = None if problem is not None else done.result()
    what = answer.what if isinstance(answer, frames.Released) else str(problem)
    # It is done already; that it could not be written is in the log.
    with contextlib.suppress(Problem):
        asking.place.audit("kick answered", asking.caller, about=lease, answer=what)


async def drain(asking: Asking) -> words.Done:
    """No new grants on the node that answers, or grants again."""
    body: request_words.DrainBody = asking.body
    asking.place.audit("drain" if body.on else "drain end", asking.caller, about=asking.place.orders.node)
    return await _done(asking, lambda n: frames.Drain(n=n, on=body.on))


async def clear(asking: Asking) -> words.Done:
    """A unit out of quarantine."""
    body: request_words.ClearBody = asking.body
    asking.place.audit("clear", asking.caller, about=body.unit)
    return await _done(asking, lambda n: frames.Clear(n=n, unit=body.unit))


async def forget(asking: Asking) -> words.Done:
    """Another node is out of the system for good."""
    body: request_words.ForgetBody = asking.body
    node = asking.path["node"]
    asking.place.audit("forget", asking.caller, about=node, force=body.force)
    return await _done(asking, lambda n: frames.Forget(n=n, node=node, heard=body.force))


async def invite(asking: Asking) -> Told:
    """A code that lets one node join."""
    asking.place.audit("invite", asking.caller)
    answer = await once(
        asking.place.orders.socket,
        lambda n: frames.Invite(n=n),
        for_uid=asking.caller.uid,
        agent=_agent(asking),
    )
    if not isinstance(answer, frames.Invited):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return Told(words.Invitation(code=answer.code, valid_s=answer.valid_s), 201)


async def check_policy(asking: Asking) -> words.Decided:
    """What policies would say; each of their conditions is tried first, as a node does before it takes one."""
    body: request_words.PolicyBody = asking.body
    who = body.who
    question = PolicyQuestion(
        agent=checked_agent(Agent(who.id, who.affiliation, who.groups, who.role)),
        needs=parse_needs([need] for need in body.needs) if body.needs else (),
        terms=body.terms,
        duration=body.duration,
        floors=body.floors,
        capacities=body.capacities,
        held=body.held,
        at=body.at,
    )
    if not (body.needs or body.terms):
        raise BadSpec('who asks for what? Give "needs" or "terms"')
    return await asyncio.to_thread(_decided, body.policies, question)


def _decided(texts: Sequence[str], question: PolicyQuestion) -> words.Decided:
    try:
        policies = [
            checked(parse_policy(text, name=f"policies[{place}]")) for place, text in enumerate(texts)
        ]
    except BadConfig as problem:
        raise Problem("bad-spec", problem.text) from None
    decision, _ = decide(policies, question)
    return words.Decided(allowed=decision.allowed, **as_document(decision))


async def _done(asking: Asking, make: Callable[[int], frames.ToNode]) -> words.Done:
    answer = await once(asking.place.orders.socket, make, for_uid=asking.caller.uid, agent=_agent(asking))
    if not isinstance(answer, frames.Drained):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return words.Done(text=answer.text)


def _agent(asking: Asking) -> str:
    return f"{asking.caller.user}@{asking.place.orders.node}"


# ------------------------------------------------------------ tokens and log-ins


async def make_token(asking: Asking) -> Told:
    """A new access token of the caller."""
    body: request_words.TokenBody = asking.body
    caller = asking.caller
    if caller.via != "socket" or caller.uid is None:
        raise Problem("refused", "tokens are made over http.sock, where the kernel says who asks")
    token = asking.place.access.make_token(
        Person(caller.uid, caller.user, wall_ms(), name=body.name, may=body.may)
    )
    asking.place.audit("token made", caller, about=body.name, may=body.may)
    return Told(words.Token(token=token, name=body.name, may=body.may), 201)


async def tokens(asking: Asking) -> words.Tokens:
    """The caller's tokens, without their secrets."""
    if asking.caller.uid is None:
        raise Problem("unauthorized", "tokens belong to somebody")
    rows = asking.place.access.tokens(asking.caller.uid)
    return words.Tokens(tokens=tuple(words.TokenRow(one.name, one.may, one.at_ms) for one in rows))


async def end_token(asking: Asking) -> words.Done:
    """One token is not known any more."""
    name = asking.path["name"]
    if asking.caller.uid is None or not asking.place.access.end_token(asking.caller.uid, name):
        raise Problem("not-found", f"you have no token {name[:80]!r}. See: holdall token list")
    tunnels: Tunnels = asking.request.app.state.tunnels
    tunnels.end(asking.caller.uid, name)
    asking.place.audit("token ended", asking.caller, about=name)
    return words.Done(text=f"token {name} is not known any more")


async def make_login(asking: Asking) -> Told:
    """A link that opens the dashboard once, as the caller."""
    caller = asking.caller
    if caller.uid is None or caller.via == "login":
        raise Problem("refused", "log-in links are made over http.sock, or with an access token")
    code = asking.place.access.make_login(uid=caller.uid, user=caller.user)
    asking.place.audit("log-in link", caller)
    return Told(words.Login(path=f"/login?code={code}", valid_s=VALID_S), 201)


async def login(asking: Asking) -> Response:
    """Use a link: a cookie, and on to the dashboard."""
    secret = asking.place.access.use_login(asking.query.code)
    if secret is None:
        raise Problem(
            "unauthorized",
            "this link is not known, was used before, or is older than 10 minutes. Make another: POST /v1/logins over http.sock",
        )
    asking.place.access.sweep()
    response = RedirectResponse("/", 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    secure = asking.request.url.scheme == "https"
    response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=secure, path="/")
    return response


async def logout(asking: Asking) -> words.Done:
    """End the log-in of the cookie."""
    asking.place.access.end_session(asking.request.cookies.get(COOKIE, ""))
    return words.Done(text="logged out")

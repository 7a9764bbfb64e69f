"""Routes for requests that wait: how one stands and what has come of it, and giving it up."""

import msgspec

from holdall.client.location_words import over
from holdall.http import location_words as w
from holdall.http import request_words, words
from holdall.http.api import Asking
from holdall.http.claiming import WAIT_S_MAX
from holdall.http.located import ask_for
from holdall.http.problems import Problem, detail_of_error
from holdall.http.requests import SILENT_MS, HttpRequest
from holdall.model import location_frames as f
from holdall.model.durations import finite_duration
from holdall.model.errors import BadSpec, Unreachable


async def show(asking: Asking) -> w.RequestShown:
    """The request, at once or when it has changed; says that its client is there."""
    query: request_words.WaitQuery = asking.query
    wait_s = finite_duration(query.wait, what="wait") / 1000 if query.wait else 0.0
    if wait_s > WAIT_S_MAX:
        raise BadSpec("wait: at most 60s at once; ask again")
    request = _find(asking)
    request.hear()
    if wait_s:
        # Half of the time without a word would be too long: it ends before.
        await request.changed(min(wait_s, SILENT_MS / 2000))
    return await shown(asking, request)


async def end(asking: Asking) -> words.Released:
    """Give it up: it leaves the line at once, and what has come of it is declined or given back."""
    request = _find(asking)
    if request.state == "ended":
        return words.Released(lease=request.lease or request.id, what="already ended")
    if await request.give_up():
        return words.Released(lease=request.id, what="cancelled")
    if not request.lease:
        raise Unreachable("the node does not answer just now; ask again", definite=False)
    told = await _over(asking, f.DeclineOffer(request.lease))
    if told.reason == "unknown":  # it is a lease by now
        told = await _over(asking, f.EndLease(request.lease))
    request.end(detail_of_error(over(told)))
    return words.Released(lease=told.lease, what=told.reason)


async def shown(asking: Asking, request: HttpRequest) -> w.RequestShown:
    """For the client. Whether an offer stands and a lease lives is asked of the node, which so hears that a lease is used."""
    now = w.RequestShown(
        request=request.id, location=request.location, state="waiting", beat_ms=SILENT_MS // 3
    )
    stands = request.stands
    if request.state == "waiting":
        now = msgspec.structs.replace(now, left_ms=request.left_ms())
        if stands is None:
            return now
        return msgspec.structs.replace(
            now, position=stands.position, ahead=stands.ahead, reason=stands.reason, term=stands.term,
            best_possible=stands.best_possible,
        )  # fmt: skip
    if request.state == "offered":
        offers = await ask_for(asking.place.orders, asking.caller, f.ListOffers())
        for row in offers.rows if isinstance(offers, f.Offers) else ():
            if row.document.lease == request.lease:
                return msgspec.structs.replace(
                    now, state="offered", lease=row.document, offer_ms=row.offer_ms
                )
    if request.state != "ended":
        held = await ask_for(asking.place.orders, asking.caller, f.HoldLeases((request.lease,)))
        if not isinstance(held, f.Held):
            raise Unreachable("the node gave an unexpected answer", definite=False)
        (one,) = held.leases
        if one.document is not None:
            return msgspec.structs.replace(
                now, state="leased", lease=one.document, valid_for_ms=one.valid_for_ms, warned=one.warned
            )
        request.end(detail_of_error(over(f.Over(one.lease, one.reason))))
    return msgspec.structs.replace(now, state="ended", problem=request.problem)


async def _over(asking: Asking, question: f.DeclineOffer | f.EndLease) -> f.Over:
    answer = await ask_for(asking.place.orders, asking.caller, question)
    if not isinstance(answer, f.Over):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return answer


def _find(asking: Asking) -> HttpRequest:
    if asking.caller.uid is None:
        raise Problem("unauthorized", "requests need somebody who makes them")
    return asking.place.requests.find(asking.caller.uid, asking.path["location"], asking.path["request"])

"""Routes that negotiate: ask a location for a lease, take or refuse what it offers, use, renew and give back.

A request may come as an AgreementOffer of WS-Agreement, and what is told may be asked for as such a document.
"""

from starlette.responses import Response

from holdall.client.location_words import new_request, over, refused
from holdall.client.splitting import new_split, parted
from holdall.http import location_words as w
from holdall.http import words
from holdall.http.api import XML, Asking, Document, Told, wants_xml
from holdall.http.located import ask_for
from holdall.http.problems import Problem
from holdall.http.requesting import shown
from holdall.leases.agreement.convert import as_xml, from_xml
from holdall.leases.agreement.export import declined_xml
from holdall.leases.negotiation.messages import Declined
from holdall.model import location_frames as f
from holdall.model.durations import finite_duration
from holdall.model.errors import BadSpec, LeaseLost, Unreachable
from holdall.model.refusals import Refusal
from holdall.model.terms import LeaseDocument, LeaseRequest, Template
from holdall.node.clock import wall_ms


async def template(asking: Asking) -> w.OneTemplate | Response:
    """One of a location's templates."""
    found = await asking.place.located.templates(asking.path["location"])
    for one in found.templates:
        if one.template == asking.path["template"]:
            if wants_xml(asking.request):
                return _xml(one, found.location)
            return w.OneTemplate(location=found.location, template=one)
    raise Problem(
        "not-found",
        f"{found.location} has no such template now. See: GET /v1/locations/{{location}}/templates",
    )


async def request(asking: Asking) -> Told | Response:
    """Ask for an offer, and take it if so wished; with a wait it may come later."""
    query: w.WishQuery = asking.query
    location = asking.path["location"]
    wish = _request(asking, location)
    if wish.wait_ms:
        return await _patient(asking, f.AskOffer(location, wish, query.accept, tell=True))
    answer = await _ask(asking, f.AskOffer(location, wish, query.accept))
    match answer:
        case f.OfferIs(document, offer_ms):
            given = w.Given(lease=document, offer_ms=offer_ms)
        case f.LeaseIs(document, valid_for_ms):
            given = w.Given(lease=document, valid_for_ms=valid_for_ms)
        case _:
            return _not_given(asking, answer, location, wish.request)
    if wants_xml(asking.request):
        return _xml(given.lease, location, status=201)
    return Told(given, 201, {"Location": f"/v1/locations/{location}/leases/{given.lease.lease}"})


async def _patient(asking: Asking, question: f.AskOffer) -> Told:
    caller = asking.caller
    if caller.uid is None:
        raise Problem("unauthorized", "leases need somebody who has them")
    agent = f"{caller.user}@{asking.place.orders.node}"
    made = await asking.place.requests.make(caller.uid, agent, question)
    where = f"/v1/locations/{made.location}/requests/{made.id}"
    return Told(await shown(asking, made), 202, {"Location": where})


def _request(asking: Asking, location: str) -> LeaseRequest:
    body: w.WishBody | Document = asking.body
    if not isinstance(body, Document):
        return _wish(body)
    try:
        found = from_xml(body.text, location, now_unix_ms=wall_ms(), dialect=asking.query.dialect)
    except Refusal as refusal:
        raise Problem("bad-spec", f"{refusal.text} [{refusal.reason}]") from None
    if not isinstance(found, LeaseRequest):
        raise Problem("bad-spec", "a lease is asked for by an AgreementOffer [wsag.root]")
    return found


def _wish(body: w.WishBody) -> LeaseRequest:
    return new_request(
        body.terms,
        duration=body.duration or None,
        floors=body.floors,
        weights=body.weights,
        template=body.template or None,
        replaces=body.replaces or None,
        wait=body.wait or None,
        before_end=body.before_end,
        host=body.host or None,
    )


async def together(asking: Asking) -> Told | Response:
    """Ask for several leases, all or none."""
    body: w.TogetherBody = asking.body
    location = asking.path["location"]
    parts = tuple(f.AskOffer(location, _wish(part)) for part in body.parts)
    if any(part.request.replaces for part in parts):
        raise BadSpec("leases that are asked for together replace none. Ask for them one by one.")
    if any(part.request.wait_ms for part in parts):
        raise BadSpec("no part waits while others are held: leave out wait")
    answer = await _ask(asking, f.AskTogether(parts))
    if not isinstance(answer, f.LeasesAre):
        return _not_given(asking, answer, location)
    return Told(w.GivenTogether(leases=tuple(one.document for one in answer.leases)), 201)


async def offers(asking: Asking) -> w.Offers:
    """The caller's offers at this node that are still open."""
    answer = await _ask(asking, f.ListOffers())
    if not isinstance(answer, f.Offers):
        raise _unexpected()
    return w.Offers(offers=answer.rows)


async def accept(asking: Asking) -> w.Given | Response:
    """Take an offer: the lease begins."""
    return _given(asking, await _ask(asking, f.AcceptOffer(_lease(asking))))


async def decline(asking: Asking) -> words.Released:
    """Refuse an offer: what it held is free at once."""
    return _ended(await _ask(asking, f.DeclineOffer(_lease(asking))), "declined")


async def status(asking: Asking) -> w.Given | Response:
    """How a lease of the caller's stands, as its host knows it."""
    return _given(asking, await _ask(asking, f.AskStatus(_lease(asking))))


async def renew(asking: Asking) -> w.Given | Response:
    """Once; all its terms are judged anew."""
    body: w.RenewLeaseBody = asking.body
    duration_ms = finite_duration(body.duration, what="duration") if body.duration else None
    if duration_ms == 0:
        raise BadSpec("duration: a lease lasts 1 ms or more. To give it back: DELETE")
    return _given(asking, await _ask(asking, f.RenewLease(_lease(asking), duration_ms)))


async def split(asking: Asking) -> Told:
    """A part of it becomes somebody else's."""
    body: w.SplitBody = asking.body
    lease = _lease(asking)
    question = new_split(lease, body.terms, body.to, body.request)
    found = parted(await _ask(asking, question), lease)
    where = f"/v1/locations/{asking.path['location']}/leases/{found.part.lease}"
    return Told(w.Parted(rest=found.rest.document, part=found.part), 201, {"Location": where})


async def use(asking: Asking) -> w.Given:
    """The caller uses it: its node renews it for one more duration."""
    lease = _lease(asking)
    answer = await _ask(asking, f.HoldLeases((lease,)))
    if not isinstance(answer, f.Held):
        raise _unexpected()
    (held,) = answer.leases
    if held.document is None and held.reason == "unknown":
        raise over(f.Over(lease, held.reason))
    if held.document is None:
        raise LeaseLost(f"lease {lease} is over: {held.reason or 'expired'}. Ask anew: POST …/leases")
    return w.Given(lease=held.document, valid_for_ms=held.valid_for_ms, warned=held.warned)


async def release(asking: Asking) -> words.Released:
    """Give it back."""
    return _ended(await _ask(asking, f.EndLease(_lease(asking))), "")


# ---------------------------------------------------------------- inside


async def _ask(asking: Asking, question: f.FromClient) -> f.ToClient:
    return await ask_for(asking.place.orders, asking.caller, question)


def _lease(asking: Asking) -> str:
    lease = asking.path["lease"]
    if f.location_of(lease) != asking.path["location"] or len(lease) > f.ID_MAX:
        raise Problem("not-holder", "the id of a lease there is L-LOCATION-…. See: GET /v1/offers")
    return lease


def _given(asking: Asking, answer: f.ToClient) -> w.Given | Response:
    if not isinstance(answer, f.LeaseIs):
        return _not_given(asking, answer, asking.path["location"])
    if wants_xml(asking.request):
        return _xml(answer.document, asking.path["location"])
    return w.Given(lease=answer.document, valid_for_ms=answer.valid_for_ms)


def _not_given(asking: Asking, answer: f.ToClient, location: str, name: str = "") -> Response:
    """Raises what there is instead, but for a refusal that is asked for in XML."""
    if isinstance(answer, f.Over):
        raise over(answer)
    if not isinstance(answer, f.NoOffer):
        raise _unexpected()
    problem = Problem.later(refused(answer, location), answer.retry_after_ms)
    if not wants_xml(asking.request):
        raise problem
    declined = Declined(
        name, answer.reason, answer.term, answer.rule, answer.text, answer.best_possible,
        retry_after_ms=answer.retry_after_ms,
    )  # fmt: skip
    text = declined_xml(declined, now_unix_ms=wall_ms())
    return Response(text, problem.detail.status, {"Cache-Control": "no-store"}, XML)


def _ended(answer: f.ToClient, wanted: str) -> words.Released:
    if not isinstance(answer, f.Over):
        raise _unexpected()
    if answer.reason == "unknown" or (wanted and answer.reason != wanted):
        raise over(answer)
    return words.Released(lease=answer.lease, what=answer.reason)


def _xml(document: LeaseDocument | Template, location: str, *, status: int = 200) -> Response:
    text = as_xml(document, location, now_unix_ms=wall_ms())
    return Response(text, status, {"Cache-Control": "no-store"}, XML)


def _unexpected() -> Unreachable:
    return Unreachable("the node gave an unexpected answer", definite=False)

"""All routes of `/v1`, and the few beside it."""

from holdall.http import (
    claiming,
    location_words,
    locations,
    looking,
    negotiating,
    operating,
    pages,
    streaming,
    words,
)
from holdall.http.api import CSV, XML, Route
from holdall.http.described import openapi
from holdall.http.healthy import healthz
from holdall.http.metrics import metrics

V1: tuple[Route, ...] = (
    Route(method="GET", path="/v1/me", summary="Who asks, and what is permitted", may="nobody", handler=looking.me, answer=words.Me),
    Route(method="GET", path="/v1/pools", summary="Pools without their units", may="see", handler=looking.pools, query=words.PoolsQuery, answer=words.Pools),
    Route(method="GET", path="/v1/units", summary="Units with the leases that have them", may="see", handler=looking.units, query=words.UnitsQuery, answer=words.Units),
    Route(method="GET", path="/v1/leases", summary="Who holds what", may="see", handler=looking.leases, query=words.ClaimsQuery, answer=words.Leases),
    Route(method="GET", path="/v1/leases/{lease}", summary="One lease with its history", may="see", handler=looking.lease, answer=words.OneLease),
    Route(method="GET", path="/v1/queue", summary="Who waits, and why", may="see", handler=looking.queue, query=words.ClaimsQuery, answer=words.Waiting),
    Route(method="GET", path="/v1/why/{claim}", summary="Why one claim waits", may="see", handler=looking.why, answer=words.OneWhy),
    Route(method="GET", path="/v1/log", summary="What happened, newest first", may="see", handler=looking.log, query=words.LogQuery, answer=words.Log),
    Route(method="GET", path="/v1/nodes", summary="The node that answers, and those that it knows", may="see", handler=looking.nodes, answer=words.Nodes),
    Route(method="GET", path="/v1/usage", summary="What each group used", may="see", handler=looking.usage, query=words.UsageQuery, answer=words.Usages, tells=(CSV,)),
    Route(method="GET", path="/v1/jobs", summary="Jobs of the node that answers", may="see", handler=looking.jobs, answer=words.Jobs),
    Route(method="GET", path="/v1/locations", summary="Locations that are known", may="see", handler=locations.locations, query=words.PageQuery, answer=location_words.Locations, tag="locations"),
    Route(method="GET", path="/v1/locations/{location}", summary="One location: its manager, nodes and templates", may="see", handler=locations.location, answer=location_words.OneLocation, tag="locations"),
    Route(method="GET", path="/v1/locations/{location}/templates", summary="What may be asked there", may="see", handler=locations.templates, answer=location_words.Templates, tag="locations"),
    Route(method="GET", path="/v1/locations/{location}/templates/{template}", summary="One template", may="see", handler=negotiating.template, answer=location_words.OneTemplate, tag="locations", tells=(XML,)),
    Route(method="GET", path="/v1/locations/{location}/hosts", summary="Its hosts, and what is free there", may="see", handler=locations.hosts, query=location_words.HostsQuery, answer=location_words.Hosts, tag="locations"),
    Route(method="GET", path="/v1/locations/{location}/leases", summary="Negotiated leases, term by term, with their use", may="see", handler=locations.leases, query=location_words.LeasesQuery, answer=location_words.LocationLeases, tag="locations"),
    Route(method="GET", path="/v1/locations/{location}/capacities", summary="What hosts have to divide", may="see", handler=locations.capacities, query=location_words.CapacitiesQuery, answer=location_words.Capacities, tag="locations"),
    Route(method="GET", path="/v1/locations/{location}/shares", summary="Demands on capacities, and their shares", may="see", handler=locations.shares, query=location_words.SharesQuery, answer=location_words.Shares, tag="locations"),
    Route(method="GET", path="/v1/doctor", summary="What could keep the node from working", may="see", handler=looking.doctor, answer=words.Findings),
    Route(method="GET", path="/v1/state", summary="The snapshot of the stream", may="see", handler=looking.state, answer=words.Snapshot, tag="watching"),
    Route(method="GET", path="/v1/events", summary="Server-sent events: a snapshot, then changes", may="see", handler=streaming.events, query=words.EventsQuery, answer=None, tag="watching", media="text/event-stream"),
    Route(method="POST", path="/v1/claims", summary="Ask for all needs or none", may="claim", handler=claiming.make, body=words.ClaimBody, answer=words.ClaimShown, statuses=(201, 202), tag="claiming"),
    Route(method="GET", path="/v1/claims/{claim}", summary="The claim, at once or when it has changed", may="claim", handler=claiming.show, query=words.WaitQuery, answer=words.ClaimShown, tag="claiming"),
    Route(method="POST", path="/v1/claims/{claim}/beat", summary="Say that you are there", may="claim", handler=claiming.beat, body=words.BeatBody, answer=words.ClaimShown, tag="claiming"),
    Route(method="DELETE", path="/v1/claims/{claim}", summary="Cancel or release", may="claim", handler=claiming.end, answer=words.Released, tag="claiming"),
    Route(method="POST", path="/v1/release", summary="Give a lease back", may="claim", handler=claiming.release, body=words.ReleaseBody, answer=words.Released, tag="claiming"),
    Route(method="POST", path="/v1/renew", summary="A later hard end", may="claim", handler=claiming.renew, body=words.RenewBody, answer=words.Renewed, tag="claiming"),
    Route(method="POST", path="/v1/drop", summary="Give a part of a lease back", may="claim", handler=claiming.drop, body=words.DropBody, answer=words.Changed, tag="claiming"),
    Route(method="POST", path="/v1/exchange", summary="Swap a part of a lease in one step, or nothing", may="claim", handler=claiming.exchange, body=words.ExchangeBody, answer=words.Changed, tag="claiming"),
    Route(method="GET", path="/v1/offers", summary="Your offers that are still open", may="claim", handler=negotiating.offers, answer=location_words.Offers, tag="negotiating"),
    Route(method="POST", path="/v1/locations/{location}/leases", summary="Ask a location for an offer, or for a lease at once", may="claim", handler=negotiating.request, query=location_words.WishQuery, body=location_words.WishBody, answer=location_words.Given, statuses=(201,), tag="negotiating", reads_xml=True, tells=(XML,)),
    Route(method="POST", path="/v1/locations/{location}/together", summary="Ask for several leases, all or none", may="claim", handler=negotiating.together, body=location_words.TogetherBody, answer=location_words.GivenTogether, statuses=(201,), tag="negotiating"),
    Route(method="GET", path="/v1/locations/{location}/leases/{lease}", summary="How a lease of yours stands", may="claim", handler=negotiating.status, answer=location_words.Given, tag="negotiating", tells=(XML,)),
    Route(method="DELETE", path="/v1/locations/{location}/leases/{lease}", summary="Give a lease back", may="claim", handler=negotiating.release, answer=words.Released, tag="negotiating"),
    Route(method="POST", path="/v1/locations/{location}/leases/{lease}/accept", summary="Take an offer", may="claim", handler=negotiating.accept, answer=location_words.Given, tag="negotiating", tells=(XML,)),
    Route(method="POST", path="/v1/locations/{location}/leases/{lease}/decline", summary="Refuse an offer", may="claim", handler=negotiating.decline, answer=words.Released, tag="negotiating"),
    Route(method="POST", path="/v1/locations/{location}/leases/{lease}/use", summary="Say that you use it, so that it is renewed", may="claim", handler=negotiating.use, answer=location_words.Given, tag="negotiating"),
    Route(method="POST", path="/v1/locations/{location}/leases/{lease}/renew", summary="Renew once", may="claim", handler=negotiating.renew, body=location_words.RenewLeaseBody, answer=location_words.Given, tag="negotiating", tells=(XML,)),
    Route(method="POST", path="/v1/leases/{lease}/kick", summary="Take a lease away", may="kick", handler=operating.kick, body=words.KickBody, answer=words.Released, statuses=(200, 202), tag="operating"),
    Route(method="POST", path="/v1/drain", summary="No new grants on this node, or grants again", may="kick", handler=operating.drain, body=words.DrainBody, answer=words.Done, tag="operating"),
    Route(method="POST", path="/v1/nodes/{node}/forget", summary="Remove a node from the system for good", may="kick", handler=operating.forget, body=words.ForgetBody, answer=words.Done, tag="operating"),
    Route(method="POST", path="/v1/invitations", summary="A code that lets one node join", may="kick", handler=operating.invite, answer=words.Invitation, statuses=(201,), tag="operating"),
    Route(method="POST", path="/v1/clear", summary="A unit out of quarantine", may="kick", handler=operating.clear, body=words.ClearBody, answer=words.Done, tag="operating"),
    Route(method="GET", path="/v1/tokens", summary="Your access tokens", may="see", handler=operating.tokens, answer=words.Tokens, tag="access"),
    Route(method="POST", path="/v1/tokens", summary="A new access token", may="claim", handler=operating.make_token, body=words.TokenBody, answer=words.Token, statuses=(201,), tag="access"),
    Route(method="DELETE", path="/v1/tokens/{name}", summary="End an access token", may="claim", handler=operating.end_token, answer=words.Done, tag="access"),
    Route(method="POST", path="/v1/logins", summary="A link that opens the dashboard once", may="claim", handler=operating.make_login, answer=words.Login, statuses=(201,), tag="access"),
    Route(method="POST", path="/v1/logout", summary="End the log-in", may="nobody", handler=operating.logout, answer=words.Done, tag="access"),
)  # fmt: skip
"""In the description for programs."""

BESIDE: tuple[Route, ...] = (
    Route(method="GET", path="/v1/openapi.json", summary="This description", may="nobody", handler=openapi(V1), answer=None),
    Route(method="GET", path="/healthz", summary="Whether the node serves", may="nobody", handler=healthz, answer=None),
    Route(method="GET", path="/metrics", summary="For Prometheus", may="see", handler=metrics, answer=None),
    Route(method="GET", path="/login", summary="Use a log-in link", may="nobody", handler=operating.login, query=words.LoginQuery, answer=None),
    Route(method="GET", path="/", summary="The dashboard", may="nobody", handler=pages.page, answer=None),
    Route(method="GET", path="/{file:path}", summary="The dashboard's files", may="nobody", handler=pages.page, answer=None),
)  # fmt: skip

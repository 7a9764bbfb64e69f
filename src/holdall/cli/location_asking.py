"""What `holdall location` asks and answers: request, accept, decline, renew, release, and holding on."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec
import typer

from holdall.cli.enforcing import read_signal_before_end
from holdall.cli.location_running import ONLY_NEW, LocationRun, check_duration, check_place
from holdall.cli.location_shown import show_lease, terms_text
from holdall.cli.options import converse
from holdall.cli.tables import plain, print_json
from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.client.location_words import HOLDER_TOLD, before_end_ms, new_request, over, refused
from holdall.guardian.clock import boottime_ms
from holdall.model import location_frames as f
from holdall.model.durations import finite_duration, show_duration
from holdall.model.errors import BadSpec, LeaseLost
from holdall.model.terms import COMMAND_TERMS, LeaseDocument, LeaseRequest

HOLD_SHARE = 4
"""A lease that is held is asked for so often within its duration."""
AGAIN_MS = 200


class Wish(msgspec.Struct, frozen=True):
    """What the command line says, word by word."""

    location: str
    terms: Sequence[str]
    floors: Sequence[str]
    weights: Sequence[str]
    duration: str = ""
    template: str = ""
    replaces: str = ""
    wait: str = ""
    before_end: str = ""
    command: Sequence[str] = ()


def request(wish: Wish, url: str, *, parts: int, accept: bool, hold: bool, as_json: bool) -> None:
    """Ask for an offer, and take it if so wished. Raises what `refused` says."""
    terms = pairs(wish.terms, "--term")
    if not terms:
        raise BadSpec("what is wanted? Name a term, e.g. --term net.tx=50KiB/s")
    if not 1 <= parts <= f.PARTS_MAX:
        raise BadSpec(f"--parts {parts}: 1 to {f.PARTS_MAX} can be asked together.")
    floors = pairs(wish.floors, "--floor")
    weights = {name: _weight(text) for name, text in pairs(wish.weights, "--weight").items()}
    before_end = read_signal_before_end(wish.before_end)
    if before_end is not None and not (hold or wish.command):
        raise BadSpec("--before-end: nobody would be told. Add a command (-- CMD), or --hold.")
    if wish.command and (hold or parts > 1):
        raise BadSpec("a command holds its lease itself, and one only: leave out --hold and --parts.")

    def new(host: str | None = None) -> LeaseRequest:
        return new_request(
            terms,
            duration=wish.duration or None,
            floors=floors,
            weights=weights,
            template=wish.template or None,
            replaces=wish.replaces or None,
            wait=wish.wait or None,
            before_end=before_end,
            host=host,
        )

    if parts > 1:
        if hold or wish.replaces or wish.wait:
            raise BadSpec("--parts goes with neither --hold, --replaces nor --wait. Ask for them one by one.")
        _request_all(wish.location, [new() for _ in range(parts)], url, as_json=as_json)
        return
    if wish.command:
        _run(wish, new, url, as_json=as_json)
    made = new()
    with converse(url) as node:
        answer = LocationTalk(node).ask(f.AskOffer(wish.location, made, accept))
        if isinstance(answer, f.NoOffer):
            raise refused(answer, wish.location)
        if isinstance(answer, f.Over):
            raise over(answer)
        if isinstance(answer, f.LeaseIs):
            _taken(node, answer.document, hold=hold, as_json=as_json)
        elif isinstance(answer, f.OfferIs):
            _show_offer(answer, as_json=as_json)


def _run(wish: Wish, new: Callable[[str | None], LeaseRequest], url: str, *, as_json: bool) -> NoReturn:
    """Raises typer.Exit with the command's status."""
    if wish.replaces:
        raise BadSpec(ONLY_NEW)
    new(None)  # what is not written as it must be is refused before a node is looked for
    if wish.duration:
        check_duration(finite_duration(wish.duration, what="--duration") or 0)
    with converse(url) as node:
        terms = pairs(wish.terms, "--term")
        check_place(list(terms), node)
        host = node.welcome.node if any(name in COMMAND_TERMS for name in terms) else None
        answer = LocationTalk(node).ask(f.AskOffer(wish.location, new(host)))
        if isinstance(answer, f.NoOffer):
            raise refused(answer, wish.location)
        if not isinstance(answer, f.OfferIs):
            raise over(f.Over("", "unknown"))
        raise typer.Exit(_run_under(node, answer.document, wish.command, as_json=as_json))


def _run_under(node: Conversation, offer: LeaseDocument, command: Sequence[str], *, as_json: bool) -> int:
    try:
        run = LocationRun(node, offer, command, as_json=as_json)
    except BadSpec:
        LocationTalk(node).ask(f.DeclineOffer(offer.lease))
        raise
    return run.run()


def _request_all(location: str, requests: Sequence[LeaseRequest], url: str, *, as_json: bool) -> None:
    question = f.AskTogether(tuple(f.AskOffer(location, one) for one in requests))
    with converse(url) as node:
        answer = LocationTalk(node).ask(question)
    if isinstance(answer, f.NoOffer):
        raise refused(answer, location)
    if isinstance(answer, f.Over):
        raise over(answer)
    if isinstance(answer, f.LeasesAre) and as_json:
        print_json("leases", [one.document for one in answer.leases])
    elif isinstance(answer, f.LeasesAre):
        for one in answer.leases:
            show_lease(one.document, as_json=False)


def accept(lease: str, url: str, *, hold: bool, as_json: bool, command: Sequence[str] = ()) -> None:
    """Take an offer; with a command, raises typer.Exit with its status."""
    if command and hold:
        raise BadSpec("a command holds its lease itself: leave out --hold.")
    with converse(url) as node:
        if command:
            offers = LocationTalk(node).expect(f.ListOffers(), f.Offers).rows
            offer = next((row.document for row in offers if row.document.lease == lease), None)
            if offer is None:
                # No offer any more: the node tells whether somebody has taken it, or knows nothing of it.
                told = LocationTalk(node).ask(f.AcceptOffer(lease, command=True))
                raise over(told if isinstance(told, f.Over) else f.Over(lease, "unknown"))
            raise typer.Exit(LocationRun(node, offer, command, as_json=as_json).run())
        answer = LocationTalk(node).ask(f.AcceptOffer(lease))
        if isinstance(answer, f.Over):
            raise over(answer)
        if isinstance(answer, f.LeaseIs):
            _taken(node, answer.document, hold=hold, as_json=as_json)


def decline(lease: str, url: str, *, as_json: bool) -> None:
    """Refuse an offer."""
    with converse(url) as node:
        answer = LocationTalk(node).expect(f.DeclineOffer(lease), f.Over)
    if answer.reason != "declined":
        raise over(answer)
    _ended(answer, as_json=as_json)


def renew(lease: str, duration: str, url: str, *, as_json: bool) -> None:
    """Once."""
    duration_ms = finite_duration(duration, what="--duration") if duration else None
    with converse(url) as node:
        answer = LocationTalk(node).ask(f.RenewLease(lease, duration_ms))
    if isinstance(answer, f.NoOffer):
        raise refused(answer, f.location_of(lease))
    if isinstance(answer, f.Over):
        raise over(answer)
    if isinstance(answer, f.LeaseIs):
        show_lease(answer.document, as_json=as_json)


def release(lease: str, url: str, *, as_json: bool) -> None:
    """Give it back."""
    with converse(url) as node:
        answer = LocationTalk(node).expect(f.EndLease(lease), f.Over)
    if answer.reason == "unknown":
        raise over(answer)
    _ended(answer, as_json=as_json)


def _show_offer(offer: f.OfferIs, *, as_json: bool) -> None:
    document = offer.document
    if as_json:
        print_json("offer", document, offer_ms=offer.offer_ms)
        return
    sys.stdout.write(f"{plain(document.lease)}\n")
    sys.stderr.write(
        f"offered   {terms_text(document)} on {plain(document.host)} for {show_duration(document.duration)}\n"
        f"next      within {show_duration(offer.offer_ms)}: holdall location accept {plain(document.lease)}\n"
    )


def _taken(node: Conversation, document: LeaseDocument, *, hold: bool, as_json: bool) -> None:
    show_lease(document, as_json=as_json)
    sys.stdout.flush()
    if hold:
        _hold(node, document)
    elif not as_json:
        sys.stderr.write(f"next      holdall location renew {plain(document.lease)}   before it runs out\n")


def _hold(node: Conversation, document: LeaseDocument) -> None:
    """Until interrupted, or until the lease is over. Raises LeaseLost."""
    talk, lease = LocationTalk(node), document.lease
    until_ms, told = boottime_ms() + document.duration, 0
    try:
        while True:
            asked_ms = boottime_ms()
            (held,) = talk.expect(f.HoldLeases((lease,)), f.Held).leases
            if held.document is None or boottime_ms() >= until_ms:
                raise LeaseLost(
                    f"lease {lease} is over: {held.reason or 'expired'}. Ask anew: holdall location request"
                )
            until_ms = asked_ms + held.valid_for_ms
            pause_ms = held.document.duration // HOLD_SHARE
            before_ms = before_end_ms(held.document, until_ms)
            if before_ms is not None and told != held.document.revision:
                pause_ms = min(pause_ms, before_ms - boottime_ms())
                if pause_ms <= 0:
                    told, pause_ms = held.document.revision, AGAIN_MS
                    sys.stderr.write(
                        f"ends      {plain(lease)} in {show_duration(held.valid_for_ms)}, unless it is renewed\n"
                    )
                    talk.expect(f.TellUse(lease, before_end=HOLDER_TOLD), f.Held)
            time.sleep(max(pause_ms, 1) / 1000)
    except KeyboardInterrupt:
        answer = talk.expect(f.EndLease(lease), f.Over)
        sys.stderr.write(f"{answer.reason}  {plain(lease)}\n")


def _ended(answer: f.Over, *, as_json: bool) -> None:
    if as_json:
        print_json("ended", answer)
    else:
        sys.stderr.write(f"{answer.reason}  {plain(answer.lease)}\n")


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """NAME -> AMOUNT. Raises BadSpec. `option`: before the words; empty: nothing is."""
    found: dict[str, str] = {}
    lead = f"{option} " if option else ""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise BadSpec(f"{lead}{word[:80]}: write NAME=AMOUNT, e.g. {lead}net.tx=50KiB/s")
        if name in found:
            raise BadSpec(f"{lead}{name} is given twice. Leave one out.")
        found[name] = value
    return found


def _weight(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else text

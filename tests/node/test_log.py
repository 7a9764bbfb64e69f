"""Lines of the log: each event stands on the page, and a line about claims names them."""

import ast
import asyncio
import io
import json
import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Self

from node.waiting import until_async

from holdall.leases.messages import RunHook
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, Effect, Event, ProtocolViolation, Received
from holdall.machine.host import Host
from holdall.machine.link_frames import LinkEnd, LinkFrame, Parcel
from holdall.model.names import printed_id
from holdall.node.failpoint import Failpoint
from holdall.node.hooks import Hooks
from holdall.node.log import CLAIMS_TOLD_MAX, claims_in, make_log
from holdall.node.loop import Loop
from holdall.node.store import Store
from holdall.parties.messages import CLAIMANT, MANAGER
from holdall.protocols.chain.messages import Done
from holdall.protocols.vocabulary import ClaimId

ROOT = Path(__file__).resolve().parents[2]
CLAIM = ClaimId("lab-1", 1, 5)
PRINTED = printed_id("lab-1.1.5")
OUTSIDE = Address("lab-2", CLAIMANT)


def events() -> Iterator[str]:
    """What the packages that have a logger say to it, where that is written out."""
    for package in ("node", "bus", "http"):
        for path in sorted((ROOT / "src" / "holdall" / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)):
                    continue
                to_log = node.func.attr in {"info", "warning", "error"} and ast.unparse(node.func).count(
                    "log."
                )
                event = node.args[0]
                if (to_log or node.func.attr in {"log", "_warn"}) and isinstance(event, ast.Constant):
                    yield str(event.value)


def test_the_page_has_every_event_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "log.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?)` \| (?:info|warning|error) \|", page, re.MULTILINE)
    found = set(events())
    assert len(found) > 40
    assert sorted(rows) == sorted(found)


def test_the_claims_of_a_message_are_found_in_the_parcels_of_a_frame_too_and_are_bounded() -> None:
    done = Done(CLAIM, 1)
    assert claims_in(Received(OUTSIDE, done)) == [PRINTED]
    parcels = tuple(Parcel(CLAIMANT, MANAGER, body) for body in (CODEC.encode(done), b"\xff junk"))
    assert claims_in(LinkFrame(LinkEnd(1), LinkEnd(1), 1, 0, parcels)) == [PRINTED]
    many = tuple(Parcel(CLAIMANT, MANAGER, CODEC.encode(Done(ClaimId("lab-1", 1, n), 1))) for n in range(20))
    assert len(claims_in(LinkFrame(LinkEnd(1), LinkEnd(1), 1, 0, many))) == CLAIMS_TOLD_MAX
    assert claims_in(LinkFrame(LinkEnd(1), LinkEnd(1))) == []


class Unwilling:
    """Refuses all that it hears but the clock."""

    def start(self) -> list[Effect]:
        return []

    def recover(self, records: object) -> list[Effect]:
        del records
        return []

    def handle(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, Done):
            raise ProtocolViolation("not now")
        return []

    def key(self) -> Hashable:
        return None

    def copy(self) -> Self:
        return self


class Nowhere:
    """The world outside, which nothing is sent to."""

    def deliver(self, sender: Address, to: Address, message: object) -> None:
        raise AssertionError((sender, to, message))

    def turn_done(self) -> None:
        pass


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_what_is_refused_is_told_with_its_claims(tmp_path: Path) -> None:
    written = io.StringIO()

    async def run() -> None:
        store = Store(tmp_path, durability="process")
        host = Host("lab-1", {MANAGER: Unwilling()})
        loop = Loop(host, store, Nowhere(), make_log(written), failed=print, failpoint=Failpoint(""))
        loop.begin(Boot("same", 1, 1))
        loop.put(MANAGER, OUTSIDE, Done(CLAIM, 1))
        await until_async(lambda: loop.refused, "it is refused")
        loop.stop()
        store.close()

    asyncio.run(run())
    (line,) = lines(written)
    assert (line["event"], line["level"], line["claims"]) == ("refused", "error", [PRINTED])
    # Not with what it holds: the frame of a client has the secret of its lease.
    assert line["what"] == f"Done from {OUTSIDE.node}/{OUTSIDE.part}"


def test_a_command_of_a_pool_is_told_with_the_claim_that_it_ran_for() -> None:
    written = io.StringIO()

    async def run() -> None:
        done: list[int] = []
        hooks = Hooks(lambda order, _: done.append(order.run), make_log(written))
        hooks.run(RunHook(1, "on_release", "psu", "psu-1", 61, "true", 20_000, PRINTED))
        await until_async(lambda: done, "the command has run")
        await hooks.close()

    asyncio.run(run())
    (line,) = lines(written)
    assert (line["event"], line["claim"], line["unit"], line["fence"]) == ("hook", PRINTED, "psu-1", 61)

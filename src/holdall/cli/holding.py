"""Commands that hold or end something: lease, renew, release, cancel, kick, drain, clear."""

import os
import sys
from typing import Annotated

import typer

from holdall.cli.completion import complete_claim, complete_lease, complete_need
from holdall.cli.needs import read_needs
from holdall.cli.options import BOUNDED_NOTE, HOUR_MS, Json, Url, converse, is_patient, own_key, read_wait
from holdall.cli.tables import clock_time, granted_units, plain, print_json
from holdall.cli.why import why_lines
from holdall.client.conversation import Conversation
from holdall.model import frames
from holdall.model.durations import finite_duration, show_duration
from holdall.model.errors import BadSpec, Unreachable
from holdall.model.names import short_id

app = typer.Typer()


@app.command(
    epilog="Examples: holdall lease --need gpu:1 --for 1h · holdall lease --need board --or bench --for 20m --wait 5m"
)
def lease(
    need: Annotated[
        list[str],
        typer.Option(
            "--need",
            metavar="SPEC",
            help="What is needed; more than once for more.",
            autocompletion=complete_need,
        ),
    ],
    for_: Annotated[str, typer.Option("--for", help="Hard end, counted from the grant.")],
    wait: Annotated[
        str,
        typer.Option(
            help="How long to wait, e.g. 10m; inf: no limit. Default: no limit on a terminal, else 1h."
        ),
    ] = "",
    now: Annotated[bool, typer.Option("--now", help="Only if free now, without waiting.")] = False,
    ttl: Annotated[
        str, typer.Option(help="Life without renewal; the node renews. Default: the node's.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Shown to those who wait.")] = "",
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Wait for units that do not exist yet.")
    ] = False,
    or_: Annotated[
        list[str] | None,
        typer.Option(
            "--or",
            metavar="SPEC",
            help="An alternative to the --need before it.",
            autocompletion=complete_need,
        ),
    ] = None,
    json: Json = False,
    url: Url = "",
) -> None:
    """A lease that no process holds: prints its key; the node renews it until the hard end."""
    del or_  # folded into --need before the options are read
    needs = read_needs(need)
    asked_ms = read_wait(wait, now=now)
    ttl_ms = finite_duration(ttl, what="--ttl") if ttl else None
    for_ms = finite_duration(for_, what="--for")
    with converse(url) as node:
        wait_ms = node.welcome.wait_ms if not wait else asked_ms
        bounded = not wait and wait_ms is None and not now and not is_patient()
        claim = frames.Claim(
            n=0,
            needs=needs,
            wait_ms=HOUR_MS if bounded else wait_ms,
            now=now,
            ttl_ms=node.welcome.ttl_ms if ttl_ms is None else ttl_ms,
            for_ms=for_ms,
            reason=reason,
            allow_future=allow_future,
            detached=True,
            under=os.environ.get("HOLDALL_LEASE", ""),
        )
        granted = _until_granted(node, claim, note=BOUNDED_NOTE if bounded else "")
    if json:
        print_json("lease", granted.lease, key=granted.key)
        return
    until = clock_time(granted.lease.until_ms) if granted.lease.until_ms is not None else "no end"
    sys.stderr.write(
        f"granted   lease {short_id(granted.lease.lease)}  {granted_units(granted.lease)}   until {until}\n"
    )
    sys.stderr.write("          end it with: holdall release KEY\n")
    sys.stdout.write(granted.key + "\n")


def _until_granted(node: Conversation, claim: frames.Claim, *, note: str) -> frames.Granted:
    import msgspec

    claim = msgspec.structs.replace(claim, n=node.number())
    told = False
    for answer in node.answers(claim, patient=True, ttl_ms=claim.ttl_ms):
        if isinstance(answer, frames.Granted):
            return answer
        if isinstance(answer, frames.Queued) and not told:
            told = True
            if note:
                sys.stderr.write(f"holdall: {note}\n")
            for line in why_lines(answer.why):
                sys.stderr.write(line + "\n")
    raise Unreachable("the node ended the conversation before it granted", definite=False)


@app.command(epilog="Examples: holdall renew KEY --for 2h · holdall renew --for 2h (inside `holdall run`)")
def renew(
    for_: Annotated[
        str, typer.Option("--for", help="New hard end, counted from now, up to the pool's max_for.")
    ],
    key: Annotated[str, typer.Argument(help="Key of the lease; default: HOLDALL_LEASE.")] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """A later hard end for a lease."""
    for_ms = finite_duration(for_, what="--for")
    with converse(url) as node:
        answer = node.ask(frames.Extend(n=node.number(), key=own_key(key), for_ms=for_ms))
    if not isinstance(answer, frames.Granted):
        raise Unreachable("unexpected answer to renew", definite=False)
    if json:
        print_json("lease", answer.lease)
        return
    until = answer.lease.until_ms
    ends = (
        "has no hard end: it lasts as long as it is renewed" if until is None else f"ends {clock_time(until)}"
    )
    sys.stderr.write(f"lease {short_id(answer.lease.lease)} {ends}\n")


@app.command(epilog="Examples: holdall release KEY · holdall release KEY --wait")
def release(
    key: Annotated[str, typer.Argument(help="Key or printed id of the lease; default: HOLDALL_LEASE.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the pools have taken the units back.")
    ] = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """Give a lease back. More than once does no harm."""
    with converse(url) as node:
        _tell(node.ask(frames.Release(n=node.number(), key=own_key(key), wait=wait), patient=wait), json=json)


@app.command(epilog="Example: holdall cancel 7K4M-R9")
def cancel(
    claim: Annotated[
        str,
        typer.Argument(help="A waiting claim, as `holdall queue` shows it.", autocompletion=complete_claim),
    ],
    json: Json = False,
    url: Url = "",
) -> None:
    """End a waiting claim."""
    with converse(url) as node:
        _tell(node.ask(frames.Cancel(n=node.number(), claim=claim)), json=json)


@app.command(
    epilog='Examples: holdall kick 7K4M-Q2 --reason "board is needed" · holdall kick 7K4M-Q2 --reason "host is dead" --unsafe'
)
def kick(
    lease: Annotated[
        str, typer.Argument(help="The lease, as `holdall who` shows it.", autocompletion=complete_lease)
    ],
    reason: Annotated[str, typer.Option(help="Shown to the holder and in the log.")],
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Don't wait for the holder: free the units now; only guards that check fences are protected.",
        ),
    ] = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """Take a lease away: its holder stops and confirms, or it expires. Always logged."""
    with converse(url) as node:
        _tell(
            node.ask(frames.Kick(n=node.number(), lease=lease, reason=reason, unsafe=unsafe), patient=True),
            json=json,
        )


@app.command(epilog="Examples: holdall drain · holdall drain --end")
def drain(
    node_name: Annotated[str, typer.Argument(metavar="[NODE]", help="Default: the node that answers.")] = "",
    end: Annotated[bool, typer.Option("--end", help="Grant again.")] = False,
    url: Url = "",
) -> None:
    """No new grants on this node: leases go on, waiting claims keep their place."""
    with converse(url) as node:
        if node_name and node_name != node.welcome.node:
            raise _not_here(node, node_name, "drain --end" if end else "drain")
        answer = node.ask(frames.Drain(n=node.number(), on=not end))
    if isinstance(answer, frames.Drained):
        sys.stderr.write(plain(answer.text) + "\n")


@app.command(epilog="Example: holdall clear psu/psu-2")
def clear(
    unit: Annotated[str, typer.Argument(help="POOL/UNIT, as `holdall pools` shows it.")], url: Url = ""
) -> None:
    """Put a unit back into its pool after you have looked at it (it was in quarantine)."""
    with converse(url) as node:
        answer = node.ask(frames.Clear(n=node.number(), unit=unit))
    if isinstance(answer, frames.Drained):
        sys.stderr.write(plain(answer.text) + "\n")


def _not_here(node: Conversation, name: str, command: str) -> BadSpec:
    """A command about a node itself, given to another one."""
    here = node.welcome.node
    known = {one.node: one for one in node.listing(frames.Ask(n=node.number(), what="node")).known}
    if name not in known:
        names = ", ".join([here, *known])
        return BadSpec(f"no node is named {name!r}. Known: {names}")
    at = f" ({known[name].address})" if known[name].address else ""
    return BadSpec(
        f"{name}{at} is another node than the one that answers ({here}). Run there: holdall {command}"
    )


def _tell(answer: frames.FromNode, *, json: bool) -> None:
    if not isinstance(answer, frames.Released):
        raise Unreachable(
            "unexpected answer from the node; do client and node have one version?", definite=False
        )
    if json:
        print_json("released", answer)
        return
    free = "" if answer.free_by_ms == 0 else f"; its units are free within {show_duration(answer.free_by_ms)}"
    sys.stderr.write(f"{short_id(answer.lease)} {plain(answer.what)}{free}\n")

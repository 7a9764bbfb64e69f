"""A part of a lease for somebody else, as people write it; for command line, HTTP and SDK alike."""

import re
import secrets
from collections.abc import Mapping

from holdall.client.location_words import base_units, over, refused
from holdall.model import location_frames as f
from holdall.model.errors import BadSpec, HoldallError, Unreachable
from holdall.model.names import is_name
from holdall.model.terms import TERMS_MAX


def new_split(lease: str, terms: Mapping[str, int | str], to: str, request: str = "") -> f.SplitLease:
    """The order. `request`: its id; the same again is the same split; empty: a new one. Raises BadSpec."""
    user, at, node = to.rpartition("@")
    if not user or not at or not is_name(node) or len(to) > f.HOLDER_MAX or not to.isprintable():
        raise BadSpec(f"{to[:80]!r} is no holder: write USER@NODE, as holdall who shows holders")
    if not terms:
        raise BadSpec("what is to be given? Name a capacity and an amount, e.g. net.tx=25kB/s")
    if len(terms) > TERMS_MAX:
        raise BadSpec(f"{len(terms)} terms; at most {TERMS_MAX}")
    if len(lease) > f.ID_MAX:
        raise BadSpec("that is no id of a lease. See: holdall location status")
    if request and not re.fullmatch(f.REQUEST_PATTERN, request):
        raise BadSpec(
            f"{request[:60]!r} is no id of a request: write 8 to 40 small letters and digits, or leave it out"
        )
    amounts = {name: base_units(name, amount) for name, amount in terms.items()}
    for name in amounts:
        if not is_name(name):
            raise BadSpec(f"{name[:64]!r} names no term. See: holdall location status {lease}")
    return f.SplitLease(lease, amounts, to, request or secrets.token_hex(16))


def parted(answer: f.ToClient, lease: str) -> f.LeaseParted:
    """Both leases. Raises BadSpec, Refused (policy), NotHolder, NotGranted, LeaseLost; nothing was changed then."""
    if not isinstance(answer, f.LeaseParted):
        raise _problem(answer, lease)
    return answer


def _problem(answer: f.ToClient, lease: str) -> HoldallError:
    if isinstance(answer, f.Over):
        return over(answer)
    if isinstance(answer, f.NoOffer) and answer.reason.startswith("split."):
        where = f"{answer.term}: " if answer.term else ""
        return BadSpec(f"lease {lease} is not split: {where}{answer.text}")
    if isinstance(answer, f.NoOffer):
        return refused(answer, f.location_of(lease))
    return Unreachable(
        f"the node gave an unexpected answer ({type(answer).__name__}); do client and node have one version?"
    )

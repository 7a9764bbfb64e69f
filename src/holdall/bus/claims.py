"""Rights as signed texts (NATS JWTs, version 2): the operator vouches for the account, the account for each user.

A server that trusts the operator and holds the account's text lets in any user whose text the account has signed, with
the rights in that text. So a node joins without a change of any running server.
Format: nats-io/jwt v2 (header alg `ed25519-nkey`; the id is a hash of the claims). Only what is used here is written.
"""

import base64
import hashlib
from collections.abc import Mapping

import msgspec

from holdall.bus.keys import public_half, sign
from holdall.bus.subjects import FRAME_BYTES_MAX, may_publish, may_subscribe

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
SUBSCRIPTIONS_MAX = 8


def operator_text(operator_seed: str, now_s: int) -> str:
    """The operator's own text, signed by itself."""
    return _signed(
        operator_seed, public_half(operator_seed), "holdall", now_s, {"type": "operator", "version": 2}
    )


def account_text(operator_seed: str, account: str, now_s: int, revoked: Mapping[str, int]) -> str:
    """The account `A…` with its revoked users: {`U…`: texts signed up to this time (Unix seconds) are void}."""
    nats: dict[str, object] = {
        "limits": {
            "subs": -1, "data": -1, "payload": -1, "imports": 0, "exports": 0, "wildcards": False, "conn": -1, "leaf": 0,
        },
        "default_permissions": {"pub": {"deny": [">"]}, "sub": {"deny": [">"]}},
        "type": "account",
        "version": 2,
    }  # fmt: skip
    if revoked:
        nats["revocations"] = dict(sorted(revoked.items()))
    return _signed(operator_seed, account, "holdall", now_s, nats)


def user_text(account_seed: str, user: str, system: str, node: str, now_s: int) -> str:
    """What the node with the public key `user` may do: publish as itself, read what is for it."""
    nats = {
        "pub": {"allow": may_publish(system, node)},
        "sub": {"allow": may_subscribe(system, node)},
        "subs": SUBSCRIPTIONS_MAX,
        "data": -1,
        "payload": FRAME_BYTES_MAX,
        "type": "user",
        "version": 2,
    }
    return _signed(account_seed, user, node, now_s, nats)


def _signed(seed: str, subject: str, name: str, now_s: int, nats: Mapping[str, object]) -> str:
    claims: dict[str, object] = {"iat": now_s, "iss": public_half(seed), "name": name, "sub": subject}
    digest = hashlib.new("sha512_256", msgspec.json.encode(claims)).digest()
    whole = {"jti": base64.b32encode(digest).decode().rstrip("="), **claims, "nats": nats}
    head = f"{_part(msgspec.json.encode(_HEADER))}.{_part(msgspec.json.encode(whole))}"
    return f"{head}.{_part(sign(seed, head.encode()))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_creds(text: str) -> tuple[str, str]:
    """(user's text, seed) out of a NATS credentials file. Raises ValueError."""
    return _between(text, "NATS USER JWT"), _between(text, "USER NKEY SEED")


def _between(text: str, what: str) -> str:
    lines = iter(text.splitlines())
    for line in lines:
        if "BEGIN" in line and what in line:
            body = next((line.strip() for line in lines if line.strip()), "")
            if body and "---" not in body:
                return body
    raise ValueError(f"no part {what!r}")

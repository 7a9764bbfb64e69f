"""A node's ed25519 key in the spelling of NATS (nkeys, user keys), and the id that nodes give each other."""

import os
from typing import Any

ID_LETTERS = 20
"""Of the key's base32 letters: 95 bits, so that ids of one system do not meet by chance."""


def new_seed() -> str:
    """A fresh key as its seed, `SU…`; secret."""
    nkeys = _nkeys()
    return str(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER), "ascii")


def public_of(seed: str) -> str:
    """The public key, `U…`, of a seed. Raises ValueError for text that is none of a user key."""
    nkeys = _nkeys()
    try:
        data = bytearray(seed.encode("ascii"))
        prefix, raw = nkeys.decode_seed(data)
        # The library reads the checksum at the end but does not compare it.
        is_whole = nkeys.encode_seed(bytes(raw), prefix) == data
        public = str(nkeys.from_seed(data).public_key, "ascii")
    except (nkeys.NkeysError, ValueError, TypeError) as error:
        raise ValueError(f"no seed of a key: {error or type(error).__name__}") from None
    if not is_whole or not public.startswith("U"):
        raise ValueError("no seed of a node's key")
    return public


def new_operator_seed() -> str:
    """A fresh key `SO…`: who holds it may say which accounts there are."""
    nkeys = _nkeys()
    return str(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_OPERATOR), "ascii")


def new_account_seed() -> str:
    """A fresh key `SA…`: who holds it may let nodes in."""
    nkeys = _nkeys()
    return str(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_ACCOUNT), "ascii")


def public_half(seed: str) -> str:
    """The public key (`U…`, `A…`, `O…`) of the seed of any kind of key that was made here."""
    return str(_nkeys().from_seed(bytearray(seed.encode("ascii"))).public_key, "ascii")


def sign(seed: str, data: bytes) -> bytes:
    """Sign with a key of any kind: 64 bytes."""
    return bytes(_nkeys().from_seed(bytearray(seed.encode("ascii"))).sign(data))


def node_id(public: str) -> str:
    """The id of the node with this public key: its first letters, in lower case."""
    return public[:ID_LETTERS].lower()


def _nkeys() -> Any:
    import nkeys  # type: ignore[import-untyped]  # loaded where a key is used: by nodes, not by `holdall who`

    return nkeys

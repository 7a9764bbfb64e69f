"""A node's key at work: what it signs, and how others check it. The file that keeps it is the node's business."""

import base64
import binascii

from holdall.bus.keys import node_id, public_of, sign


class NodeKey:
    """An ed25519 key. Its public half is the node's identity; `id` is how other nodes name it."""

    def __init__(self, seed: str) -> None:
        """`seed` as nkeys spells it, `SU…`. Raises ValueError for other text."""
        self.public = public_of(seed)
        self.id = node_id(self.public)
        self._seed = seed

    def __repr__(self) -> str:
        return f"NodeKey({self.id})"

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of the signature."""
        return sign(self._seed, data)


def verify(public: str, data: bytes, signature: bytes) -> bool:
    """Whether the key with this public half (`U…`) made the signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not is_user_key(public):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(base64.b32decode(public)[1:33]).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_user_key(public: str) -> bool:
    """Whether this text is the public half of a user key, checksum included."""
    if len(public) != 56 or not public.startswith("U") or not public.isascii():
        return False
    try:
        raw = base64.b32decode(public)
    except (binascii.Error, ValueError):
        return False
    return binascii.crc_hqx(raw[:33], 0) == int.from_bytes(raw[33:], "little")

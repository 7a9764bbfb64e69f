"""Join codes: what a new node must know to find its system, to recognise it, and to be let in once.

A code is `hd1-` and base32 of: 16 bytes of the authority's fingerprint, 16 bytes of a secret, the addresses as text,
and 4 bytes of a checksum against slips of the hand. Of the secret only a hash is kept where it was made.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Annotated

import msgspec

from holdall.bus.addresses import is_address
from holdall.bus.certificates import FINGERPRINT_BYTES
from holdall.bus.files import read_value, write_value
from holdall.model.errors import BadSpec

PREFIX = "hd1-"
SECRET_BYTES = 16
CHECK_BYTES = 4
LETTERS_MAX = 2048
HOSTS_MAX = 4
OPEN_CODES_MAX = 64
VALID_S = 3600
_HASH_TEXT = msgspec.Meta(min_length=64, max_length=64)


class JoinCode(msgspec.Struct, frozen=True):
    """A code, taken apart. `port` is the join port."""

    fingerprint: bytes
    secret: bytes
    hosts: tuple[str, ...]
    port: int

    def __repr__(self) -> str:
        return f"JoinCode(hosts={self.hosts}, port={self.port})"


def encode(code: JoinCode) -> str:
    """The text to paste."""
    body = code.fingerprint + code.secret + f"{','.join(code.hosts[:HOSTS_MAX])}|{code.port}".encode()
    whole = body + hashlib.sha256(body).digest()[:CHECK_BYTES]
    return PREFIX + base64.b32encode(whole).decode().rstrip("=").lower()


def decode(text: str) -> JoinCode:
    """Raises BadSpec for text that is no whole join code."""
    letters = "".join(text.split()).lower()
    if not letters.startswith(PREFIX) or not letters.isascii() or len(letters) > LETTERS_MAX:
        raise _no_code(f"it does not begin with {PREFIX}")
    letters = letters.removeprefix(PREFIX).upper()
    try:
        whole = base64.b32decode(letters + "=" * (-len(letters) % 8))
    except binascii.Error:
        raise _no_code("letters are missing or wrong") from None
    body, check = whole[:-CHECK_BYTES], whole[-CHECK_BYTES:]
    if not hmac.compare_digest(hashlib.sha256(body).digest()[:CHECK_BYTES], check):
        raise _no_code("letters are missing or wrong")
    hosts, port = _addresses(body[FINGERPRINT_BYTES + SECRET_BYTES :])
    return JoinCode(
        fingerprint=body[:FINGERPRINT_BYTES],
        secret=body[FINGERPRINT_BYTES : FINGERPRINT_BYTES + SECRET_BYTES],
        hosts=hosts,
        port=port,
    )


def _addresses(data: bytes) -> tuple[tuple[str, ...], int]:
    text = data.decode("ascii", errors="replace")
    listed, _, digits = text.rpartition("|")
    hosts = tuple(listed.split(","))
    if not digits.isdigit() or len(digits) > 5 or not 0 < int(digits) < 65_536:
        raise _no_code("it names no port")
    if not 0 < len(hosts) <= HOSTS_MAX or not all(is_address(host) for host in hosts):
        raise _no_code("it names no address")
    return hosts, int(digits)


def _no_code(why: str) -> BadSpec:
    return BadSpec(f"this is no join code: {why}. Copy the whole line that `holdall serve` printed.")


class OpenCode(msgspec.Struct, frozen=True):
    """A code that was given out here."""

    digest: Annotated[str, _HASH_TEXT]
    until_s: int
    """Unix seconds."""
    used_by: str = ""
    """Public key of the node that joined with it."""


class OpenCodes(msgspec.Struct):
    """All that may still be asked about, oldest first."""

    codes: list[OpenCode] = []


class CodeBook:
    """The codes given out by this node, in a file; each is good for one key, until its end."""

    def __init__(self, path: Path) -> None:
        """Raises BadConfig for a file that can't be read."""
        self._path = path
        try:
            self._open = read_value(path, OpenCodes)
        except FileNotFoundError:
            self._open = OpenCodes()

    def issue(self, fingerprint: bytes, hosts: Sequence[str], port: int, valid_s: int = VALID_S) -> str:
        """A fresh code. Of codes without number the oldest are void."""
        code = JoinCode(
            fingerprint=fingerprint, secret=secrets.token_bytes(SECRET_BYTES), hosts=tuple(hosts), port=port
        )
        now = int(time())
        kept = [one for one in self._open.codes if one.until_s > now][-(OPEN_CODES_MAX - 1) :]
        self._save([*kept, OpenCode(digest=_digest(code.secret), until_s=now + valid_s)])
        return encode(code)

    def objection(self, secret: bytes, public: str) -> str:
        """Why this key may not join with this secret; empty when it may (also again, when its answer was lost)."""
        code = self._find(secret)
        if code is None:
            return "unknown code"
        if code.until_s <= time():
            return "the code has expired"
        if code.used_by not in {"", public}:
            return "the code was used by another node"
        return ""

    def use(self, secret: bytes, public: str) -> None:
        """On the disk when this returns. Call `objection` first."""
        digest = _digest(secret)
        self._save(
            [
                msgspec.structs.replace(one, used_by=public) if one.digest == digest else one
                for one in self._open.codes
            ]
        )

    def _find(self, secret: bytes) -> OpenCode | None:
        digest = _digest(secret)
        return next((one for one in self._open.codes if hmac.compare_digest(one.digest, digest)), None)

    def _save(self, codes: list[OpenCode]) -> None:
        self._open = OpenCodes(codes)
        write_value(self._path, self._open)


def _digest(secret: bytes) -> str:
    return hashlib.sha256(b"holdall join secret\0" + secret).hexdigest()

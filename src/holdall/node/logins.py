"""Log-ins to the HTTP server that the node itself offers: a code that opens the dashboard once.

A code is a file named by its hash in the state folder; whoever removes the file has used the code, so it works once,
whichever process of the HTTP server takes it. `holdall.http` makes and takes them in the same way.
"""

import hashlib
import os
import secrets
from pathlib import Path

import msgspec

from holdall.node.clock import wall_ms

FOLDER = "http"
LOGINS = "logins"
VALID_S = 600


class Person(msgspec.Struct, frozen=True):
    """Who a code, a log-in or a token stands for."""

    uid: int
    user: str
    at_ms: int
    """Wall time when it was made."""
    name: str = ""
    may: str = "act"
    """`act`, or `see`"""


def hash_of(secret: str) -> str:
    """What is kept of a secret: it is random, so a plain hash can't be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()


def keep(folder: Path, secret: str, person: Person) -> None:
    """Keep `person` under the hash of `secret`; the file appears as a whole."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = folder / f".{secrets.token_hex(8)}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(person))
    fresh.replace(folder / hash_of(secret))


def make_login(state: Path, *, uid: int, user: str) -> str:
    """A code for one log-in as this user, good for ten minutes."""
    code = secrets.token_urlsafe(32)
    keep(state / FOLDER / LOGINS, code, Person(uid, user, wall_ms()))
    return code

"""Access tokens, codes for log-ins and log-ins: files in the state folder, named by the hash of the secret.

Only hashes are kept. A code is used by removing its file, so it works once; what is too old is removed when it is met.
"""

import contextlib
import secrets
from pathlib import Path

import msgspec

from holdall.http.problems import Problem
from holdall.model.decoding import decoded
from holdall.node.clock import wall_ms
from holdall.node.logins import FOLDER, LOGINS, VALID_S, Person, hash_of, keep, make_login

TOKENS = "tokens"
SESSIONS = "sessions"
SESSION_S = 12 * 3600
TOKENS_MAX = 100
"""Of one user."""
SECRET_LETTERS_MAX = 200


class Access:
    """What is in one state folder."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._folder = state / FOLDER

    def token(self, secret: str) -> Person | None:
        """Whose access token it is."""
        return self._read(TOKENS, secret)

    def session(self, secret: str) -> Person | None:
        """Whose log-in it is; None when it is over."""
        person = self._read(SESSIONS, secret)
        if person is not None and person.at_ms + SESSION_S * 1000 < wall_ms():
            self.end_session(secret)
            return None
        return person

    def make_token(self, person: Person) -> str:
        """A new access token. Raises Problem when the name is taken or there are too many."""
        own = [known for _, known in self._all(TOKENS) if known.uid == person.uid]
        if any(known.name == person.name for known in own):
            raise Problem(
                "bad-spec", f"you have a token {person.name!r}. End it first: holdall token end {person.name}"
            )
        if len(own) >= TOKENS_MAX:
            raise Problem(
                "busy", f"you have {len(own)} tokens; at most {TOKENS_MAX}. End some: holdall token end NAME"
            )
        secret = secrets.token_urlsafe(32)
        keep(self._folder / TOKENS, secret, person)
        return secret

    def tokens(self, uid: int) -> list[Person]:
        """The tokens of a user, by name."""
        return sorted((one for _, one in self._all(TOKENS) if one.uid == uid), key=lambda one: one.name)

    def end_token(self, uid: int, name: str) -> bool:
        """Whether there was one."""
        found = [file for file, one in self._all(TOKENS) if one.uid == uid and one.name == name]
        for file in found:
            file.unlink(missing_ok=True)
        return bool(found)

    def make_login(self, *, uid: int, user: str) -> str:
        """A code that opens the dashboard once."""
        return make_login(self._state, uid=uid, user=user)

    def use_login(self, code: str) -> str | None:
        """The secret of a new log-in; None when the code is not known, used or too old."""
        person = self._read(LOGINS, code)
        if person is None:
            return None
        try:
            (self._folder / LOGINS / hash_of(code)).unlink()
        except FileNotFoundError:
            return None
        if person.at_ms + VALID_S * 1000 < wall_ms():
            return None
        secret = secrets.token_urlsafe(32)
        keep(self._folder / SESSIONS, secret, msgspec.structs.replace(person, at_ms=wall_ms()))
        return secret

    def end_session(self, secret: str) -> None:
        """Log out."""
        with contextlib.suppress(OSError):
            (self._folder / SESSIONS / hash_of(secret)).unlink()

    def sweep(self) -> None:
        """Remove codes and log-ins that are over."""
        for kind, valid_s in ((LOGINS, VALID_S), (SESSIONS, SESSION_S)):
            for file, person in self._all(kind):
                if person.at_ms + valid_s * 1000 < wall_ms():
                    file.unlink(missing_ok=True)

    def _read(self, kind: str, secret: str) -> Person | None:
        if not secret or len(secret) > SECRET_LETTERS_MAX:
            return None
        return _person(self._folder / kind / hash_of(secret))

    def _all(self, kind: str) -> list[tuple[Path, Person]]:
        folder = self._folder / kind
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        found = [(file, _person(file)) for file in files if not file.name.startswith(".")]
        return [(file, person) for file, person in found if person is not None]


def _person(file: Path) -> Person | None:
    try:
        return decoded(msgspec.json.Decoder(Person).decode, file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None

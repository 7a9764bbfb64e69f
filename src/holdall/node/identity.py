"""Who a node is: an ed25519 key, made at its first start and kept in its state folder, and the id made from it.

The id stands in all messages and never changes; the name of the configuration is for people only.
"""

import os
from pathlib import Path

import msgspec

from holdall.model.errors import BadConfig
from holdall.node import paths

_BYTES_MAX = 1024


class Identity(msgspec.Struct, frozen=True):
    """A node's key. `seed` is secret; it proves to the bus which node this is."""

    id: str
    public: str
    seed: str

    def __repr__(self) -> str:
        return f"Identity({self.id})"


def identity_of(state: Path, *, may_make: bool = True) -> Identity:
    """The key kept in this state folder; a new one, synced, where there is none and `may_make`.

    Raises BadConfig for a file that is no key, and for a missing one where the folder's journal needs it.
    """
    path = state / paths.KEY_NAME
    try:
        text = path.read_bytes()[:_BYTES_MAX].decode("ascii", "replace").strip()
    except FileNotFoundError:
        if not may_make:
            raise BadConfig(
                f"{path}, the node's key, is missing, but the journal beside it was written with it. Put it back; where "
                f"it is lost, move {state / paths.JOURNAL_NAME} away: the next start then has a new key and waits until "
                "the leases of the old one have run out."
            ) from None
        return _make(path)
    except OSError as error:
        raise BadConfig(f"can't read {path}: {error.strerror}. Give it to the node's user.") from None
    try:
        return _of_seed(text)
    except ValueError as error:
        raise BadConfig(f"{path} is damaged ({error}). Put the node's key back from a copy.") from None


def _make(path: Path) -> Identity:
    from holdall.bus.keys import new_seed

    seed = new_seed()
    fresh = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(seed + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise BadConfig(
            f"can't write {path}: {error.strerror}. Give the folder to the node's user."
        ) from None
    return _of_seed(seed)


def _of_seed(seed: str) -> Identity:
    from holdall.bus.keys import node_id, public_of

    public = public_of(seed)
    return Identity(id=node_id(public), public=public, seed=seed)

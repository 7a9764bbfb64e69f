"""Who a node is: a key made at its first start and kept in its state folder, and the id made from it.

The id stands in all messages and never changes; the name of the configuration is for people only.
"""

from pathlib import Path

from holdall.bus.files import read_secret, write_secret
from holdall.bus.identity import NodeKey
from holdall.bus.keys import new_seed
from holdall.model.errors import BadConfig
from holdall.node import paths


def identity_of(state: Path, *, may_make: bool = True) -> NodeKey:
    """The key kept in this state folder; a new one, synced, where there is none and `may_make`.

    Raises BadConfig for a file that is no key, and for a missing one where the folder's journal needs it.
    """
    path = state / paths.KEY_NAME
    try:
        seed = read_secret(path).strip()
    except FileNotFoundError:
        if not may_make:
            raise BadConfig(
                f"{path}, the node's key, is missing, but the journal beside it was written with it. Put it back; where "
                f"it is lost, move {state / paths.JOURNAL_NAME} away: the next start then has a new key and waits until "
                "the leases of the old one have run out."
            ) from None
        seed = new_seed()
        write_secret(path, seed + "\n")
    try:
        return NodeKey(seed)
    except ValueError as error:
        raise BadConfig(f"{path} is damaged ({error}). Put the node's key back from a copy.") from None

"""What must hold of the game at every manager after each of its turns."""

from collections.abc import Iterator

from holdall.protocols.game.manager import Manager
from holdall.protocols.game.messages import GameEntry, Stage


def wrong_here(manager: Manager) -> Iterator[str]:
    """Each property that is violated, as `name: text`."""
    for claim, place in manager.refused:
        yield f"refused: the winning form of {claim} at its place {place} found nothing set aside"
    for pool in sorted(manager.boards):
        board = manager.boards[pool]
        turns = [manager.entries[key].turn for key in board.queue]
        if turns != sorted(set(turns)) or turns != list(board.queue.values()):
            yield f"order: requests at pool {pool} are not in order"
        if list(board.admitted.values()) != sorted(board.admitted.values()):
            yield f"order: admissions at pool {pool} are not in order"
        yield from _wrong_sums(manager, pool)
    for key in sorted(manager.entries):
        entry = manager.entries[key]
        yield from _wrong_entry(manager, entry)


def _wrong_entry(manager: Manager, entry: GameEntry) -> Iterator[str]:
    key = (entry.claim, entry.place)
    board = manager.boards.get(entry.pool)
    waits = entry.stage < Stage.WON
    if not waits and not entry.held:
        yield f"won: {entry.claim} has won {entry.pool} and has no units"
    if waits != (board is not None and key in board.registered):
        yield f"board: {entry.claim} is {entry.stage.name} at {entry.pool} and not so on its board"
    if bool(entry.turn) != (board is not None and key in board.queue):
        yield f"board: the request of {entry.claim} at {entry.pool} is not in the queue, or without turn"
    if bool(entry.serial) != (board is not None and key in board.admitted):
        yield f"board: the admission of {entry.claim} at {entry.pool} is not on the board, or without serial"


def _wrong_sums(manager: Manager, pool: str) -> Iterator[str]:
    """Own sums say the same as the whole queue: the guards of everybody, computed as the paper states them."""
    board, entries = manager.boards[pool], manager.entries
    capacity = manager.book.capacity(pool)
    won = sum(one.units for one in entries.values() if one.pool == pool and one.stage >= Stage.WON)
    free = capacity - won
    queue = [entries[key] for key in board.queue]
    for key in board.registered:
        me = entries[key]
        if not me.shown:
            continue
        ahead = queue[: list(board.queue).index(key)] if me.turn else queue
        prior = [one for one in ahead if one.ticket <= me.ticket or (manager.rules.complete and one.marked)]
        mine = manager.wanted(me)
        door = not any(entries[other].serial <= me.door for other in board.admitted if entries[other].serial)
        room = capacity if manager.rules.keeps_place else free
        p2 = sum(manager.wanted(one) for one in prior) + mine <= room
        requested = me.stage >= Stage.REQUESTED
        p2 = p2 and door
        p4 = manager.rules.complete and requested and sum(manager.wanted(one) for one in ahead) + mine <= free
        told = (bool(me.shown & 1), bool(me.shown & 2), bool(me.shown & 4), bool(me.shown & 8))
        if told != (door, p2, p4, me.held):
            yield f"sums: {me.claim} at {pool} was shown {told}, by the whole queue it is {(door, p2, p4, me.held)}"

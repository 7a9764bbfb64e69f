"""What a client holds on negotiated terms: its deadline by its own clock, and the thread that says that it is used.

The node renews a lease for as long as it hears, within the lease's duration, that it is used. Renewal so depends neither on
the user's thread nor on its loop. A deadline counts from before that question was sent which the node has answered last.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from holdall.client.link import Link
from holdall.client.location_words import HOLDER_TOLD, before_end_ms, over, refused
from holdall.client.splitting import parted
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.durations import finite_duration
from holdall.model.errors import HoldallError, LeaseLost, NotHolder, Unreachable
from holdall.model.terms import LeaseDocument

SHARE = 4
"""So often within its duration a lease is said to be used."""
PAUSE_S_MAX = 30.0
AGAIN_MS = 50

Answer = TypeVar("Answer", bound=f.ToClient)


def read(body: frames.Negotiated) -> f.ToClient:
    """What a node has answered."""
    return f.read_answer(body.body)


def expected(answer: f.ToClient, kind: type[Answer]) -> Answer:
    """An answer of which there is one kind only. Raises Unreachable."""
    if not isinstance(answer, kind):
        raise Unreachable(
            f"the node gave an unexpected answer ({type(answer).__name__}); do client and node have one version?"
        )
    return answer


def problem(answer: f.ToClient, location: str) -> HoldallError:
    """Why it is not as it was wished."""
    if isinstance(answer, f.NoOffer):
        return refused(answer, location)
    return over(expected(answer, f.Over))


class NegotiatedTenure:
    """One lease in the hands of this process."""

    def __init__(self, document: LeaseDocument, until_ms: int) -> None:
        self.document = document
        self.until_ms = until_ms
        """CLOCK_BOOTTIME."""
        self.loss: LeaseLost | None = None
        self.released = False
        self.lock = threading.Lock()
        self._listener: Callable[[LeaseLost], None] | None = None
        self._warned_of = 0
        """The revision before whose end the holder has been told of it."""
        self._told_of_end: tuple[Callable[[], object], Callable[[], object]] | None = None

    @property
    def id(self) -> str:
        """As the location calls it."""
        return self.document.lease

    def left_ms(self) -> int:
        """How long it may be used from now on if nothing more is heard."""
        return 0 if self.loss is not None or self.released else max(0, self.until_ms - boottime_ms())

    def confirm(self, document: LeaseDocument, until_ms: int) -> None:
        """What the node said of it. Answers to several who asked come in any order: an older one changes nothing.

        Renewed for less time than before it ends as that answer says; otherwise what was confirmed holds.
        """
        with self.lock:
            if document.revision < self.document.revision:
                return
            is_shorter = document.duration < self.document.duration
            self.until_ms = until_ms if is_shorter else max(self.until_ms, until_ms)
            self.document = document

    def listen(self, listener: Callable[[LeaseLost], None] | None) -> None:
        """It is told of the loss, from any thread, and at once when that has happened."""
        with self.lock:
            self._listener = listener
            loss = self.loss
        if loss is not None and listener is not None:
            listener(loss)

    def listen_before_end(self, near: Callable[[], object], moved: Callable[[], object]) -> None:
        """Called from any thread: when the end has come near as `before_end` says, and when a renewal has moved it on."""
        self._told_of_end = near, moved

    def warn_at_ms(self) -> int | None:
        """When the holder is to be told of the end; None: not, or he has been."""
        if self._warned_of == self.document.revision or self.loss is not None or self.released:
            return None
        return before_end_ms(self.document, self.until_ms)

    def warn(self) -> bool:
        """Tell the holder what there is to tell about the end. True: that it is near."""
        at_ms = self.warn_at_ms()
        is_near = at_ms is not None and boottime_ms() >= at_ms
        if is_near:
            self._warned_of = self.document.revision
        elif at_ms is None or not self._warned_of:
            return False
        else:
            self._warned_of = 0
        if self._told_of_end is not None:
            self._told_of_end[0 if is_near else 1]()
        return is_near

    def check(self) -> None:
        """Raises LeaseLost when it is over, NotHolder when it was given back."""
        if self.released:
            raise NotHolder(f"lease {self.id} was given back")
        if self.loss is None and boottime_ms() >= self.until_ms:
            self.lose("not renewed in time")
        if self.loss is not None:
            raise self.loss

    def lose(self, reason: str) -> None:
        """It may not be used any more."""
        with self.lock:
            if self.loss is not None or self.released:
                return
            self.loss = LeaseLost(f"lease {self.id} is over: {reason}")
            listener = self._listener
        if listener is not None:
            listener(self.loss)


class LeaseFace:
    """What the asyncio lease and the blocking one have in common: all that needs no question to the node."""

    def __init__(self, link: Link, tenure: NegotiatedTenure) -> None:
        self._link, self._tenure = link, tenure

    @property
    def id(self) -> str:
        """As `holdall location status` takes it."""
        return self._tenure.id

    @property
    def document(self) -> LeaseDocument:
        """The lease as its host had it at the last renewal."""
        return self._tenure.document

    @property
    def seconds_left(self) -> float:
        """How long it may be used if no renewal comes any more."""
        return self._tenure.left_ms() / 1000

    def granted(self, term: str) -> bool | int | str:
        """What it has of a term, in base units. Raises LeaseLost, KeyError."""
        self.check()
        return self._tenure.document.term(term).granted

    def check(self) -> None:
        """Raise LeaseLost when it is over. Call it before each step that must not happen without the lease."""
        self._tenure.check()

    def _renewal(self, duration: float | str | None) -> f.RenewLease:
        """The question for its renewal."""
        self.check()
        return f.RenewLease(self.id, None if duration is None else finite_duration(duration, what="duration"))

    def _renewed(self, answer: f.ToClient, asked_ms: int) -> None:
        """It goes on as the answer says. Raises NotGranted, Refused, LeaseLost."""
        if not isinstance(answer, f.LeaseIs):
            raise problem(answer, self.document.location)
        self._tenure.confirm(answer.document, asked_ms + answer.valid_for_ms)

    def _parted(self, answer: f.ToClient, asked_ms: int) -> tuple[LeaseDocument, bool]:
        """It goes on with the rest; the part, and whether to `_look`. Raises as `parted`.

        The rest of an order that was obeyed before and is asked again is nothing new; but while it was open the node may
        have counted its part as gone once more, and the keeper may have heard that.
        """
        found = parted(answer, self.id)
        is_new = found.rest.document.revision > self.document.revision
        if is_new:
            self._renewed(found.rest, asked_ms)
        return found.part, not is_new

    def _look(self) -> None:
        """Hear from the node how it stands; blocks."""
        keeper_of(self._link).look([self._tenure])

    def _give_back(self) -> bool:
        """Nothing renews it any more. False: the node need not be told."""
        if self._tenure.released:
            return False
        keeper_of(self._link).forget(self._tenure)
        return self._tenure.loss is None


class Keeper:
    """Says for a link which leases are used, in a thread of its own that ends with the last of them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._held: dict[str, NegotiatedTenure] = {}
        self._changed = threading.Condition()
        self._asking = threading.Lock()
        """Answers count in the order of the questions: two of one revision may differ by what is just being split."""
        self._thread: threading.Thread | None = None

    def add(self, answer: f.LeaseIs, asked_ms: int) -> NegotiatedTenure:
        """A lease that the node has granted; asked for at this time of CLOCK_BOOTTIME."""
        tenure = NegotiatedTenure(answer.document, asked_ms + answer.valid_for_ms)
        with self._changed:
            self._held[tenure.id] = tenure
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdall leases", daemon=True)
                self._thread.start()
            self._changed.notify()
        return tenure

    def look(self, held: list[NegotiatedTenure]) -> None:
        """Say that they are used, and hear how they stand; blocks."""
        with self._asking:
            self._say(held)

    def forget(self, tenure: NegotiatedTenure) -> None:
        """It is given back."""
        tenure.released = True
        with self._changed:
            self._held.pop(tenure.id, None)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                held = list(self._held.values())
                if not held:
                    self._thread = None
                    return
            self.look(held)
            with self._changed:
                self._changed.wait(_pause_s(held))

    def _say(self, held: list[NegotiatedTenure]) -> None:
        asked_ms = boottime_ms()
        question = f.HoldLeases(tuple(tenure.id for tenure in held[: f.LEASES_MAX]))
        by_id: dict[str, f.HeldLease] = {}
        try:
            shortest_s = min(tenure.document.duration for tenure in held) / 1000
            answer = read(self._link.negotiate(f.pack(question)).future.result(shortest_s))
            by_id = {one.lease: one for one in expected(answer, f.Held).leases}
        except (HoldallError, TimeoutError):
            pass  # what matters is the deadline; the question is asked again
        for tenure in held:
            found = by_id.get(tenure.id)
            if found is not None and found.document is not None:
                tenure.confirm(found.document, asked_ms + found.valid_for_ms)
            elif found is not None:
                tenure.lose(found.reason)
            elif boottime_ms() >= tenure.until_ms:
                tenure.lose("not renewed in time")
            if tenure.warn():
                # Nobody waits for the answer; the host is told what became of it.
                with contextlib.suppress(HoldallError):
                    self._link.negotiate(f.pack(f.TellUse(tenure.id, before_end=HOLDER_TOLD)))
            if tenure.loss is not None:
                with self._changed:
                    self._held.pop(tenure.id, None)


def _pause_s(held: list[NegotiatedTenure]) -> float:
    """Until they are asked for again: so often within a duration, and when somebody is to be told of an end."""
    now_ms = boottime_ms()
    pauses = [PAUSE_S_MAX, *(tenure.document.duration / 1000 / SHARE for tenure in held)]
    for tenure in held:
        at_ms = tenure.warn_at_ms()
        if at_ms is not None:
            pauses.append(max(at_ms - now_ms, AGAIN_MS) / 1000)
    return min(pauses)


_keepers: "weakref.WeakKeyDictionary[Link, Keeper]" = weakref.WeakKeyDictionary()
_keepers_lock = threading.Lock()


def taken(link: Link, answer: f.ToClient, asked_ms: int, location: str) -> NegotiatedTenure:
    """The lease of an answer, said to be used from now on. Raises the errors of `problem`."""
    if not isinstance(answer, f.LeaseIs):
        raise problem(answer, location)
    return keeper_of(link).add(answer, asked_ms)


def keeper_of(link: Link) -> Keeper:
    """One for each link."""
    with _keepers_lock:
        if link not in _keepers:
            _keepers[link] = Keeper(link)
        return _keepers[link]

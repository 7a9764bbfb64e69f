"""Questions of clients that go to a location's manager as they are, until they are answered."""

from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import Effect, SetTimer
from holdall.parties.location.answering import Answering, Wait
from holdall.parties.location.dealings import TIMER, Dealings
from holdall.parties.location.listing import AGAIN_MS
from holdall.parties.location.messages import OfAgent

SAME_FOR_ALL = ("templates/", "hosts/", "leases/")
"""Keys of answers that are the same whoever asks."""


class PassingOn:
    """Those that are under way, by the keys of their answers."""

    def __init__(self, dealings: Dealings, answering: Answering) -> None:
        self._dealings, self._answering = dealings, answering
        self._asked: dict[str, tuple[str, Asker, OfAgent]] = {}
        """Location, for whom, which."""

    def ask(
        self, key: str, location: str, asker: Asker, message: OfAgent, wait: Wait, out: list[Effect]
    ) -> None:
        """The manager is asked, and whoever waits for this key gets the answer."""
        if self._is_others(key, asker):
            text = "somebody else's question about that lease is not answered yet. Ask again"
            self._answering.deny(wait, "unreachable", text, out)
            return
        self._answering.wait(key, wait, out)
        self._asked[key] = location, asker, message
        self._dealings.say(self._dealings.manager(location), asker, message, out)
        out.append(SetTimer(f"{TIMER}again/{key}", AGAIN_MS))

    def ask_again(self, key: str, out: list[Effect]) -> None:
        """The one who was asked may be gone: ask the next one, for as long as somebody waits."""
        if key not in self._answering.waits:
            self._asked.pop(key, None)
        elif key in self._asked:
            location, asker, message = self._asked[key]
            self._dealings.doubt(location)
            self._dealings.say(self._dealings.manager(location), asker, message, out)
            out.append(SetTimer(f"{TIMER}again/{key}", AGAIN_MS))

    def _is_others(self, key: str, asker: Asker) -> bool:
        """Whether the next answer with this key may be one to another holder, of whose lease this one hears nothing."""
        if key not in self._answering.waits or key.startswith(SAME_FOR_ALL):
            return False
        asked = self._asked.get(key)
        return asked is None or asked[1].holder != asker.holder

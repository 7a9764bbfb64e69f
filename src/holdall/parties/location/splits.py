"""Clients that give a part of their lease to somebody else."""

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import Effect
from holdall.model import location_frames as f
from holdall.parties.location.answering import Answering, Wait
from holdall.parties.location.dealings import Dealings, NegotiatorSettings, Outcomes, split_name

_TEXTS = {
    "part": "the host takes no such id for a part; do client, node and host have one version?",
    "taken": "another split has this id; take another one",
    "to": "the host knows no such user of a node; write USER@NODE, as holdall who shows holders",
    "term": "the lease has no such capacity; units and functions stay whole",
    "amount": "a part is less than the lease has, and something must be left of it",
}


class Splits:
    """The order's own repetition is the agent's; here is who waits for its answer."""

    def __init__(self, settings: NegotiatorSettings, dealings: Dealings, answering: Answering) -> None:
        self._settings, self._dealings, self._answering = settings, dealings, answering

    def ask(self, wait: Wait, asker: Asker, question: f.SplitLease, out: list[Effect]) -> Outcomes:
        """A lease of the asker's, or one that is not held here; its host decides."""
        to = self._dealings.find(question.to)
        if to is None:
            text = f"no node of {question.to[:80]!r} is known; write USER@NODE. See: holdall nodes"
            self._answering.deny(wait, "bad-spec", text, out)
            return []
        lease = question.lease
        part = f.part_id(lease, self._settings.node, question.request)
        known = self._dealings.asker(split_name(part))
        if known is not None and known.holder != asker.holder:
            self._answering.deny(wait, "refused", "another split has this id; take another one", out)
            return []
        self._dealings.note_asker(split_name(part), asker)
        self._answering.wait(_key(part), wait, out)
        order = m.SplitLease(lease, part, question.amounts, Asker(question.to), to)
        return self._dealings.tell(f.location_of(lease), a.CutOff(order), out)

    def parted(self, outcome: a.Parted, out: list[Effect]) -> None:
        """Both leases, as their host has them."""
        rest = f.LeaseIs(self._answering.shown(outcome.rest), self._dealings.left_ms(outcome.rest.lease))
        answer = f.LeaseParted(rest, self._answering.shown(outcome.part))
        self._answering.settle(_key(outcome.part.lease), answer, out)

    def not_parted(self, outcome: a.NotParted, out: list[Effect]) -> None:
        """Nothing has changed."""
        reason = outcome.reason
        answer: f.ToClient
        if reason in {"unknown", "ended", "revoking", "no_answer"}:
            answer = f.Over(outcome.lease, reason)
        else:
            text = _TEXTS.get(reason, "")
            code = f"split.{reason}" if text else reason
            answer = f.NoOffer(code, outcome.term, outcome.rule, text, outcome.best_possible)
        self._answering.settle(_key(outcome.part), answer, out)


def _key(part: str) -> str:
    return f"split/{part}"

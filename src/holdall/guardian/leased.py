"""What a negotiated lease grants to the guarded command now, and what the command has used of it."""

from collections.abc import Mapping

from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.figures import Figures, Kept
from holdall.guardian.enforcement.granted import CommandUse, limits_of, stay_of
from holdall.guardian.negotiated import NegotiatedTether
from holdall.guardian.orders import Start
from holdall.model.terms import BEFORE_END_SHARE, LeaseDocument


class LeasedCommand:
    """`limits` and `stay_ms` are those of the last renewal."""

    def __init__(self, start: Start, tether: NegotiatedTether) -> None:
        self.tether = tether
        self.limits, self.stay_ms = limits_of(tether.document), stay_of(tether.document)
        self.warn_ms: int | None = None
        """How long before TERM something is to be done, where the end is one that a renewal would move on."""
        if start.before_end is not None:
            self.warn_ms = min(start.before_end.lead_ms, tether.document.duration // BEFORE_END_SHARE)
            tether.lead_ms += self.warn_ms
        self._began_ms: int | None = None
        self._use: CommandUse | None = None

    @property
    def stay_end_ms(self) -> int | None:
        """CLOCK_BOOTTIME; None: no end is known, or the command has not been started."""
        return None if self.stay_ms is None or self._began_ms is None else self._began_ms + self.stay_ms

    def begins(self, now_ms: int) -> None:
        """The command has been started."""
        self._began_ms, self._use = now_ms, CommandUse(now_ms)

    def grants(self, document: LeaseDocument) -> bool:
        """The lease as it is now. True: the command is to be held to other limits than before."""
        before = self.limits, self.stay_ms
        self.limits, self.stay_ms = limits_of(document), stay_of(document)
        return (self.limits, self.stay_ms) != before

    def measured(self, figures: Figures, enforced: Mapping[str, Kept]) -> None:
        """What the command has used until now."""
        if self._use is not None:
            self._use.add(figures, boottime_ms())
            self.tether.uses = self._use.told(self.limits, self.stay_ms, enforced)

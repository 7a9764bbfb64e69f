"""What a protocol says that it ignores for ever is looked at in every local state that a search reaches."""

import pytest

from holdall.explorer.ignored import Ignoring
from holdall.explorer.search import explore
from holdall.explorer.space import Space
from holdall.explorer.systems import system_of, world_of
from holdall.world.faults import read_faults


@pytest.mark.parametrize("protocol", ["strong-weak", "token", "token-tickets"])
@pytest.mark.parametrize("faults", ["", "loss=1", "crash=1", "cancel=1"])
def test_what_is_ignored_makes_no_difference_in_any_state(protocol: str, faults: str) -> None:
    system = system_of(protocol, world_of(protocol, "pair" if faults else "same"))
    assert isinstance(system, Ignoring)
    space = Space(system, read_faults(faults))
    assert explore(space).complete
    looked_at = 0
    for table, bound in zip(space.tables, space.mail.bound_for, strict=True):
        for local, host in enumerate(table.hosts[: len(table.hosts)]):
            for number, letter in enumerate(space.mail.letters):
                if bound >> number & 1 and system.ignores(host, letter.message):
                    then = table.deliver(local, number)
                    assert (then.local, then.sends, then.notice, then.wrong) == (local, (), 0, "")
                    looked_at += 1
    assert looked_at > 0

"""Commands under negotiated leases: what is refused before anything is asked or run."""

from typing import cast

import pytest

from holdall.cli.location_asking import Wish, request
from holdall.cli.location_running import LocationRun
from holdall.client.conversation import Conversation
from holdall.model.errors import BadSpec
from holdall.model.terms import LeaseDocument, TermStatus


def test_no_command_runs_under_a_lease_that_another_one_may_run_under() -> None:
    """Each would be held to all that the lease grants, and the first that ends would give it back."""
    wish = Wish("prague", ["net.tx=1kB/s"], [], [], replaces="L-prague-a-1.1", command=("true",))
    with pytest.raises(BadSpec, match=r"lease of its own.*without --replaces"):
        request(wish, "", parts=1, accept=False, hold=False, as_json=False)
    terms = (TermStatus("net.tx", "capacity", 1000, 1000),)
    offer = LeaseDocument("L-prague-a-1.1", "prague", "a", 1, "ann@a", "offered", 2, 60_000, "r", terms)
    with pytest.raises(BadSpec, match="lease of its own"):
        LocationRun(cast("Conversation", object()), offer, ("true",), as_json=False)

"""Claim, beat, release, cancel, wait: what a client says and hears, and what is saved."""

import pytest
from parties.party_node import FIRST_WALL_MS, Client, Node, names, pool

from holdall.model import frames
from holdall.parties.records import ClaimRecord


def test_a_claim_that_fits_is_granted_in_its_own_turn_with_everything_saved() -> None:
    node = Node(pool("gpu", "0", "1"), pool("psu", "psu-1"))
    client = Client(node, "a", agent="ci@runner-4")
    commits = node.commits

    (granted,) = client.say(client.claim("gpu:1", "psu:1", reason="hil"))

    assert isinstance(granted, frames.Granted)
    assert granted.n == 1
    assert granted.lease.units == (
        frames.HeldUnit("gpu", "0", "lab-1", fence=1, need=0),
        frames.HeldUnit("psu", "psu-1", "lab-1", fence=2, need=1),
    )
    assert granted.lease.holder == "ci@runner-4"
    assert granted.lease.state == "active"
    assert granted.lease.needs == ("gpu:1", "psu:1")
    assert granted.lease.since_ms == FIRST_WALL_MS + 1000
    # ttl 30 s, less 2 % rate, less 0.5 s margin
    assert granted.valid_for_ms == 28_900
    assert granted.for_left_ms is None
    assert node.commits == commits + 1
    kept = sorted(key for key in node.saves if not key.startswith("agent!log/"))
    assert kept == [
        f"agent!claim/{granted.lease.lease}",
        "agent!session/a",
        "claimant!claim/lab-1.1.1",
        "manager!book/fence",
        "manager!book/lease/lab-1.1.1/1",
        "manager!row/lab-1.1.1",
    ]
    assert granted.key not in repr(node.records), "the key is kept as a hash only"
    node.check_counts()


def test_a_release_is_answered_from_the_journal_and_everything_of_the_claim_is_forgotten() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    commits = node.commits

    answer = client.releases(lease)

    assert answer == frames.Released(2, lease.lease.lease, "released", free_by_ms=0)
    assert node.commits == commits + 1
    assert sorted(key for key in node.records if not key.startswith("agent!log/")) == ["manager!book/fence"]
    assert client.releases(lease) == frames.Released(3, lease.lease.lease, "already ended")
    assert client.releases(lease, key="nonsense") == frames.Denied(
        4, "not-holder", "no such lease of yours here: it has ended, or the key is wrong. See: holdall who"
    )
    node.check_counts()


def test_a_release_that_waits_is_answered_when_the_pools_have_it() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    assert client.releases(lease, wait=True) == frames.Released(2, lease.lease.lease, "released")
    assert client.gets("gpu:1").lease.units[0].fence == 2


def test_a_waiting_claim_is_told_why_and_granted_when_the_holder_releases() -> None:
    node = Node(pool("psu", "psu-1"))
    holder, other = Client(node, "a", agent="ci@runner-4"), Client(node, "b")
    lease = holder.gets("psu:1", reason="soak test", for_ms=60_000)

    queued = other.waits("psu:1")

    why = queued.why
    assert (why.position, why.waiting, why.ahead, why.overtaken) == (1, 1, 0, 0)
    assert (why.passes_left, why.passes_bound) == (8, 8)
    assert [(need.spec, need.free, need.total, need.state) for need in why.needs] == [("psu:1", 0, 1, "busy")]
    (blocker,) = why.blockers
    assert (blocker.claim, blocker.holder, blocker.reason) == (lease.lease.lease, "ci@runner-4", "soak test")
    assert (blocker.pool, blocker.units, blocker.waiting, blocker.renewing) == (
        "psu",
        ("psu-1",),
        False,
        True,
    )
    assert blocker.until_ms == FIRST_WALL_MS + 1000 + 60_000

    holder.releases(lease)
    (granted,) = other.inbox()
    assert isinstance(granted, frames.Granted)
    assert (granted.n, granted.lease.lease) == (queued.n, queued.claim)
    assert granted.lease.units == (frames.HeldUnit("psu", "psu-1", "lab-1", fence=2),)
    node.check_counts()


def test_a_claim_for_all_of_a_pool_waits_for_the_unit_that_is_held() -> None:
    node = Node(pool("core", "0", "1"))
    holder, other = Client(node, "a"), Client(node, "b")
    holder.gets("core:1")
    (need,) = other.waits("core:all").why.needs
    assert (need.spec, need.free, need.total, need.state) == ("core:all", 1, 2, "busy")
    denied = Client(node, "c").refused("core:all", now=True)
    assert denied.text.startswith("not free now: core:all busy. Held by ")


def test_beats_keep_a_session_alive_and_silence_ends_what_it_has() -> None:
    node = Node(pool("gpu", "0", "1"))
    client, quick = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:1", ttl_ms=30_000)
    waiting = client.waits("gpu:all", ttl_ms=30_000)
    short = quick.gets("gpu:1", ttl_ms=2_000)
    assert quick.beats() == {short.lease.lease: 1_460}
    for _ in range(5):
        node.pass_ms(10_000)
        assert client.beats() == {lease.lease.lease: 28_900, waiting.claim: 28_900}
    assert [row.kind for row in node.ask("log").log][-1] == "expired", "the quick one was silent for 2.04 s"
    assert any(isinstance(one, frames.Lost) for one in quick.inbox())

    node.pass_ms(30_599)
    assert client.beats(), "30 s (1 + 2 %) have not passed"
    client.inbox()
    node.pass_ms(30_600)
    lost, denied = [one for one in client.inbox() if not isinstance(one, frames.Queued)]
    assert isinstance(lost, frames.Lost)
    assert lost.lease == lease.lease.lease
    assert "no renewal came for 30 s" in lost.text
    assert "Fence 1 is void." in lost.text
    assert isinstance(denied, frames.Denied)
    assert denied.n == waiting.n
    assert "lost its place: nothing was heard for 30 s" in denied.text
    assert denied.retry_after_ms == 0, "it never held anything: its client may ask again"
    assert client.beats() == {}
    assert node.held() == {}
    node.check_counts()


def test_a_claim_gives_up_after_its_wait_with_the_documented_text() -> None:
    node = Node(pool("psu", "psu-1"))
    holder, other = Client(node, "a", agent="ci@runner-4"), Client(node, "b")
    holder.gets("psu:1", reason="soak test", for_ms=3_600_000, ttl_ms=300_000)
    queued = other.waits("psu:1", wait_ms=600_000, ttl_ms=300_000)
    for _ in range(6):
        node.pass_ms(99_999)
        holder.beats()
        other.beats()
    other.inbox()
    node.pass_ms(6)
    (denied,) = other.inbox()
    assert isinstance(denied, frames.Denied)
    assert (denied.code, denied.n, denied.definite) == ("not-granted", queued.n, True)
    short = f"{queued.claim[:4]}-{queued.claim[4:6]}"
    assert denied.text == (
        'not granted within 10m: psu:1 busy. Held by ci@runner-4 "soak test" until 23:13 (renewing). '
        f"See: holdall why {short}"
    )
    assert denied.why is not None
    assert denied.why.blockers[0].holder == "ci@runner-4"
    assert node.ask("queue").waits == ()
    assert node.ask("log").log[-1].kind == "timed-out"
    after = node.ask("why", short)
    assert (after.waits, after.leases) == ((), ())
    assert [(row.kind, row.text) for row in after.log] == [("timed-out", "not granted within 10 min")]


def test_without_waiting_it_is_now_or_nothing() -> None:
    node = Node(pool("gpu", "0", "1"))
    client, other = Client(node, "a"), Client(node, "b")
    client.gets("gpu:1", now=True)
    other.waits("gpu:2")
    denied = client.refused("gpu:1", now=True)
    assert denied.code == "not-granted"
    assert denied.text.startswith("not free now: ")
    assert node.view.waiting() == node.view.waiting()[:1], "nothing of it stays in line"
    assert len(node.ask("who").leases) == 1
    node.check_counts()


def test_a_waiting_claim_is_cancelled_by_its_number_or_printed_id() -> None:
    node = Node(pool("gpu", "0"))
    client, other = Client(node, "a"), Client(node, "b")
    client.gets("gpu:1")
    first, second = other.waits("gpu:1"), other.waits("gpu:1")
    answers = other.say(frames.Cancel(other.number(), f"#{first.n}"))
    assert answers == [
        frames.Denied(first.n, "not-granted", "cancelled"),
        frames.Released(3, first.claim, "cancelled"),
    ]
    (_, released) = other.say(frames.Cancel(other.number(), second.claim[:6]))
    assert released == frames.Released(4, second.claim, "cancelled")
    (denied,) = other.say(frames.Cancel(other.number(), second.claim))
    assert isinstance(denied, frames.Denied)
    assert denied.code == "not-holder"
    assert node.view.waiting() == []


def test_a_stranger_can_neither_cancel_nor_release() -> None:
    node = Node(pool("gpu", "0"))
    client, stranger = Client(node, "a"), Client(node, "b", uid=2000)
    lease = client.gets("gpu:1")
    waiting = client.waits("gpu:1")
    (denied,) = stranger.say(frames.Cancel(stranger.number(), waiting.claim))
    assert isinstance(denied, frames.Denied)
    assert denied.code == "not-holder"
    answer = stranger.releases(lease, key=lease.lease.lease)
    assert isinstance(answer, frames.Denied)
    assert answer.code == "not-holder"
    assert answer.n == 2
    # who has the key may
    assert isinstance(stranger.releases(lease), frames.Released)
    (lost, granted) = client.inbox()
    assert isinstance(lost, frames.Lost)
    assert isinstance(granted, frames.Granted)


def test_c2_the_units_of_a_dead_process_are_free_at_once_and_those_of_a_guarded_one_are_not() -> None:
    node = Node(pool("gpu", "0", "1"))
    plain, guarded, waiting = Client(node, "a"), Client(node, "b"), Client(node, "c")
    gone = plain.gets("gpu:1")
    kept = guarded.gets("gpu:1", guarded=True)
    guardian = Client(node, "g")
    guardian.say(frames.Attach(guardian.number(), kept.key))
    queued = waiting.waits("gpu:1")
    plain.close(gone=False)
    assert waiting.inbox() == [], "a broken connection alone ends nothing"
    plain.close(gone=True)
    (granted,) = waiting.inbox()
    assert isinstance(granted, frames.Granted)
    assert granted.lease.lease == queued.claim
    guarded.close(gone=True)
    guardian.close(gone=True)
    assert sorted(node.held().values()) == sorted([kept.lease.lease, granted.lease.lease])
    row = next(row for row in node.ask("log").log if row.lease == gone.lease.lease and row.kind == "lost")
    assert row.text == "holder gone: its process has ended"
    node.pass_ms(30_601)
    row = next(row for row in node.ask("log").log if row.lease == kept.lease.lease and row.kind == "expired")
    assert row.text == "holder silent for 30 s"


def test_a_guarded_lease_that_no_guardian_has_attached_ends_with_the_process_that_asked() -> None:
    """No command runs under it yet; a guardian that comes too late never starts one."""
    node = Node(pool("gpu", "0"))
    wrapper, late, waiting = Client(node, "a"), Client(node, "g"), Client(node, "c")
    lease = wrapper.gets("gpu:1", guarded=True)
    waiting.waits("gpu:1")
    wrapper.close(gone=True)
    (granted,) = waiting.inbox()
    assert isinstance(granted, frames.Granted)
    (denied,) = late.say(frames.Attach(late.number(), lease.key))
    assert isinstance(denied, frames.Denied)
    assert denied.code == "not-holder"


def test_a_guardian_takes_the_lease_over_and_reports_the_end() -> None:
    node = Node(pool("gpu", "0"))
    wrapper, guardian = Client(node, "a"), Client(node, "g")
    lease = wrapper.gets("gpu:1", guarded=True)
    (denied,) = guardian.say(frames.Attach(guardian.number(), lease.lease.lease))
    assert isinstance(denied, frames.Denied), "the printed id is no authority, though the user is the same"
    assert denied.code == "not-holder"
    (attached,) = guardian.say(frames.Attach(guardian.number(), lease.key))
    assert isinstance(attached, frames.Granted)
    assert (attached.lease.lease, attached.key, attached.valid_for_ms) == (
        lease.lease.lease,
        lease.key,
        28_900,
    )
    assert wrapper.beats() == {}
    assert guardian.beats() == {lease.lease.lease: 28_900}
    wrapper.close(gone=True)
    assert names(lease) == ["gpu/0"]
    assert list(node.held()) == ["gpu/0"]
    exit_record = frames.ExitRecord(code=3)
    assert guardian.releases(lease, exit=exit_record) == frames.Released(4, lease.lease.lease, "released")
    assert node.ask("log").log[-1].text == "command ended with 3"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("not-renewed: no renewal was confirmed for 30 s", "lost"),
        ("for-over: its hard end (--for) has come", "expired"),
        ("wrapper-gone: holdall run has ended", "released"),
    ],
)
def test_the_history_says_of_a_stopped_command_what_became_of_its_lease(reason: str, kind: str) -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    client.releases(lease, exit=frames.ExitRecord(signal=15, reason=reason))
    row = node.ask("log").log[-1]
    assert (row.kind, row.text) == (kind, f"command ended by signal 15 ({reason})")
    assert not node.held()


def test_a_session_comes_back_over_another_connection_and_a_false_secret_begins_a_new_one() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    client.close(gone=False)
    thief = Client(node, "t", session=client.session, secret="guessed")  # noqa: S106
    assert not thief.welcome.resumed
    assert thief.beats() == {}
    again = client.returns("a2")
    assert again.welcome.resumed
    assert again.beats() == {lease.lease.lease: 28_900}
    # the old connection's process is another one's business now
    client.close(gone=True)
    assert again.beats() == {lease.lease.lease: 28_900}


def test_a_claim_repeated_after_a_reconnect_is_the_same_claim() -> None:
    node = Node(pool("gpu", "0"))
    holder, client = Client(node, "h"), Client(node, "a")
    lease = holder.gets("gpu:1")
    frame = client.claim("gpu:1")
    client.say(frame)
    node.settle()
    client.close(gone=False)
    again = client.returns("a2")
    (queued,) = again.say(frame)
    assert isinstance(queued, frames.Queued)
    again.close(gone=False)
    holder.releases(lease)
    third = client.returns("a3")
    (granted,) = third.say(frame)
    assert isinstance(granted, frames.Granted)
    assert granted.lease.lease == queued.claim
    assert len(node.ask("who").leases) == 1


@pytest.mark.parametrize(
    ("left_ms", "asked_ms", "shown"),
    [
        (0, 60_000, "1m"),
        (42_750, 60_000, "1m"),
        (42_750, None, "42.75s"),
        (90_500, None, "1m30.5s"),
        (300, None, "300ms"),
        (0, None, "0s"),
        (5_430_000, None, "1h30m30s"),
    ],
)
def test_a_wait_that_is_over_is_named_as_it_was_asked_for(
    left_ms: int, asked_ms: int | None, shown: str
) -> None:
    """A claim that is repeated at a node that does not know it asks for the rest of its wait."""
    node = Node(pool("gpu", "0"))
    holder, client = Client(node, "h"), Client(node, "a")
    holder.gets("gpu:1", ttl_ms=300_000)
    client.say(client.claim("gpu:1", wait_ms=left_ms, asked_wait_ms=asked_ms, ttl_ms=300_000))
    for _ in range(left_ms // 100_000):
        node.pass_ms(100_000)
        holder.beats()
        client.beats()
    node.pass_ms(left_ms % 100_000)
    denied = client.inbox()[-1]
    assert isinstance(denied, frames.Denied)
    assert denied.text.startswith(f"not granted within {shown}: gpu:1 busy.")
    if asked_ms is not None:
        assert [row.text for row in node.ask("log").log if row.kind == "timed-out"] == [
            "not granted within 60 s"
        ]


def test_a_hello_of_another_version_is_refused_with_the_reason() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    client.close(gone=True)
    late = Client.__new__(Client)
    late.node, late.name, late.uid, late.user, late.session = node, "z", 1000, "user1000", "z"
    (denied,) = late.say(frames.Hello(v=9))
    assert isinstance(denied, frames.Denied)
    assert "version 1" in denied.text
    (denied,) = late.say(frames.Beat(5))
    assert denied == frames.Denied(5, "bad-spec", "the first frame must be Hello")


def test_an_unknown_value_of_time_is_refused_and_changes_nothing() -> None:
    node = Node(pool("gpu", "0", max_for_ms=60_000))
    client = Client(node, "a")
    before = dict(node.records)
    assert client.refused("gpu:1", ttl_ms=0).code == "bad-spec"
    assert "between 1 s and 5 min" in client.refused("gpu:1", ttl_ms=366 * 86_400_000).text
    assert client.refused("gpu:1", for_ms=60_001).code == "refused"
    assert "max_for 60 s" in client.refused("gpu:1", for_ms=3_600_000).text
    assert client.refused("gpu:1", for_ms=0).code == "bad-spec"
    assert node.records == before


def test_the_hard_end_is_the_pools_max_for_and_counts_from_the_grant() -> None:
    node = Node(pool("gpu", "0", max_for_ms=60_000))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    assert lease.lease.until_ms == FIRST_WALL_MS + 1000 + 60_000
    assert lease.for_left_ms == 58_300
    for _ in range(6):
        node.pass_ms(10_000)
        client.beats()
    assert list(node.held()) == ["gpu/0"]
    node.pass_ms(1_199)
    assert client.inbox() == []
    node.pass_ms(1)
    (lost,) = client.inbox()
    assert isinstance(lost, frames.Lost)
    assert "its end (--for) was reached" in lost.text
    assert node.held() == {}
    record = [one for one in node.records.values() if isinstance(one, ClaimRecord)]
    assert record == []
    node.check_counts()

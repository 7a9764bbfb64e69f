"""Names that the parts of the plugin share: properties of a test's report, for JUnit's file and the end of the run."""

SESSION_FIXTURE = "lease_session"

LEASE = "holdall_lease"
SESSION_LEASE = "holdall_session_lease"
WAITED = "holdall_waited_s"
"""Seconds that the test waited for its lease."""
BLOCKED = "holdall_blocked_by"
"""Who was in the way of a test that had to wait."""

"""Which release this is, and since when there can be one."""

from importlib.metadata import version as version_of

RELEASED_S = 1_764_547_200
"""Release date of this version in Unix seconds: a wall clock that shows less is wrong (a board without battery)."""


def version() -> str:
    """This release's number."""
    return version_of("holdall")

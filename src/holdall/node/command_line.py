"""How a command of another node is started here: arguments, user, folder and environment of its `holdall run`.

Nothing of the calling host comes along but what the caller's command line says, the name of the holder, and TERM.
"""

import os
import pwd
import sys
from pathlib import Path
from typing import Any

import msgspec

from holdall.model.errors import Refused
from holdall.model.run_frames import RunWishes
from holdall.model.spec import show_spec

_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ")
"""Of the node's environment, beside LC_…, when the command is another user's."""


class Surroundings(msgspec.Struct, frozen=True):
    """What a node says of itself."""

    socket: Path
    run_as: str = ""
    source: str = ""
    """The file that run_as stands in."""
    state: Path | None = None
    """The node's state folder; None: where its socket is."""


class Line(msgspec.Struct, frozen=True):
    """All that the start of a process needs."""

    arguments: list[bytes]
    environment: dict[str, str]
    folder: str
    identity: dict[str, Any]
    """`user`, `group`, `extra_groups`, when it is another one than this process has."""


def command_line(wishes: RunWishes, place: Surroundings) -> Line:
    """Raises Refused where the user of the command is not clear."""
    user, changes = _user(place)
    environment = _environment(user, changes=changes)
    environment["HOLDALL_URL"] = f"unix://{place.socket}"
    environment["HOLDALL_AGENT"] = wishes.agent
    if wishes.term and wishes.term.isprintable():
        environment["TERM"] = wishes.term
    else:
        environment.pop("TERM", None)
    identity: dict[str, Any] = {}
    if changes:
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
    return Line(_arguments(wishes), environment, _folder(user.pw_dir), identity)


def user_problem(place: Surroundings) -> str:
    """Why no command of another node could be started here; empty: its user is clear."""
    try:
        _user(place)
    except Refused as problem:
        return problem.text
    return ""


def _arguments(wishes: RunWishes) -> list[bytes]:
    words = [sys.executable, "-P", "-m", "holdall.cli", "run"]
    for need in wishes.needs:
        first, *others = need.options
        words += ["--need", show_spec(first)]
        for other in others:
            words += ["--or", show_spec(other)]
    for option, value in (
        ("--wait", wishes.wait),
        ("--ttl", wishes.ttl),
        ("--for", wishes.hold_for),
        ("--reason", wishes.reason),
    ):
        if value:
            words.append(f"{option}={value}")
    words += [f"--set={variable}={pool}" for variable, pool in wishes.settings]
    words += ["-E", str(wishes.not_granted_status)]
    for option, wanted in (
        ("--now", wishes.now),
        ("--independent", wishes.independent),
        ("--allow-future", wishes.allow_future),
        ("--json", wishes.json),
    ):
        if wanted:
            words.append(option)
    return [*(os.fsencode(word) for word in words), b"--", *wishes.command]


def _user(place: Surroundings) -> tuple[pwd.struct_passwd, bool]:
    """Whose commands they are, and whether that is another user than this process's."""
    file = place.source or "its holdall.toml"
    own = os.geteuid()
    if not place.run_as:
        if own == 0:
            raise Refused(
                "the node runs as root, and its configuration does not say whose commands those of other nodes are: "
                f'write run_as = "USER" in [node] of {file} and start it again (run_as = "root", if that is meant).'
            )
        return _entry(own), False
    try:
        user = pwd.getpwnam(place.run_as)
    except KeyError:
        raise Refused(f"run_as in [node] of {file}: {place.run_as!r} is no user of that host.") from None
    if own not in {user.pw_uid, 0}:
        raise Refused(
            f"run_as in [node] of {file}: only a node that runs as root can start commands as {place.run_as!r}."
        )
    return user, user.pw_uid != own


def _entry(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        # A user without an entry, as in many containers: what the environment says.
        home = os.environ.get("HOME", "/")
        return pwd.struct_passwd((str(uid), "x", uid, os.getegid(), "", home, "/bin/sh"))


def _environment(user: pwd.struct_passwd, *, changes: bool) -> dict[str, str]:
    """The node's own, without what concerns holdall; of another user only what is not about whose it is."""
    if not changes:
        return {name: text for name, text in os.environ.items() if not name.startswith("HOLDALL_")}
    kept = {name: text for name, text in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    names = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
    return kept | names


def _folder(home: str) -> str:
    """The user's home; `/` where there is none."""
    return home if Path(home).is_dir() else "/"

"""Where the node is: `--url` or the url argument, else HOLDALL_URL, else a system node, else this user's node."""

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdall.guardian.reaching import is_remote
from holdall.model.errors import BadSpec, HoldallError, Refused, Unreachable
from holdall.node.paths import SOCKET_NAME, run_folder, socket_path_problem, user_state

URL_ENV = "HOLDALL_URL"
_HOW = "Write it as unix:///run/holdall/holdall.sock"


def find_node(url: str | None = None) -> str:
    """Where the node is that is to be talked to: the path of its socket, or https://HOST:PORT. Raises as `find_socket`."""
    named = url or os.environ.get(URL_ENV, "")
    return named if is_remote(named) else str(find_socket(url))


def url_of(where: str) -> str:
    """What HOLDALL_URL says for that node."""
    return where if is_remote(where) else f"unix://{where}"


def find_socket(url: str | None = None) -> Path:
    """The socket of the node to talk to: the one that is named, else the first usual place where one listens.

    Raises BadSpec for a URL that names no unix socket, Unreachable (definite) when no node listens in any usual place.
    """
    return find_among(candidates(url))


def candidates(url: str | None = None) -> tuple[Path, ...]:
    """The places to look in, first first. A URL is the only one: nobody wants another node than the named."""
    named = url or os.environ.get(URL_ENV)
    if named:
        return (socket_of_url(named),)
    places = (run_folder() / SOCKET_NAME, user_state() / SOCKET_NAME)
    return tuple(dict.fromkeys(places))


def socket_of_url(url: str) -> Path:
    """`unix:///PATH` as a path. Raises BadSpec for everything else."""
    parts = urlsplit(url)
    if is_remote(url):
        raise BadSpec(
            f"{url!r} is an address on the network; this needs the socket of a node on this host. {_HOW}"
        )
    path = unquote(parts.path)
    if parts.scheme != "unix" or parts.netloc or parts.query or parts.fragment or not path.startswith("/"):
        raise BadSpec(f"{url!r} is not the address of a node. {_HOW}")
    found = Path(path)
    problem = socket_path_problem(found)
    if problem:
        raise BadSpec(f"{url!r}: {problem}")
    return found


def find_among(places: Sequence[Path]) -> Path:
    """The first place where a node listens; the only one as it is. Raises Unreachable that says what each place has."""
    if len(places) == 1:
        return places[0]  # nothing to choose: whoever connects finds out
    findings: list[str] = []
    for place in places:
        finding = _knock(place)
        if finding is None:
            return place
        findings.append(f"{place}: {finding}")
    raise Unreachable(
        f"no node is reachable ({'; '.join(findings)}). Start one: holdall serve - or name one with "
        f"--url or {URL_ENV}=unix:///…/{SOCKET_NAME}"
    )


def no_answer(place: str | Path, problem: Exception) -> HoldallError:
    """Why the first words with a node failed, as an error that names the next step."""
    if isinstance(problem, PermissionError):
        return Refused(
            f"the node at {place} is not for this user (its socket allows no access). Ask who runs it, name another "
            f"one with --url or {URL_ENV}, or start your own: holdall serve"
        )
    why = getattr(problem, "strerror", None) or problem
    return Unreachable(f"no node answers at {place} ({why}). Start one: holdall serve")


def _knock(place: Path) -> str | None:
    """Why nobody can be reached there; None when somebody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(place))
        except BlockingIOError:
            return None  # its queue of connections is full: somebody listens, and is busy or stopped
        except FileNotFoundError:
            return "no socket there"
        except ConnectionRefusedError:
            return "a socket, but nobody listens (the node has ended)"
        except PermissionError:
            return "permission denied (the node of somebody else?)"
        except OSError as problem:
            if problem.errno == errno.ENOTSOCK:
                return "not a socket"
            return os.strerror(problem.errno) if problem.errno else str(problem)
    return None

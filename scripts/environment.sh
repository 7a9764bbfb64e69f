# Sourced by ./test and ./demo: makes the virtual environment .venv from a lock file, once per change of the lock.
# Needs Python 3.11 or later with venv and pip, nothing else.

heading() { # TEXT…, bold on a terminal
    if [ -t 1 ]; then printf '\n\033[1m== %s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi
}

find_python() { # prints the first interpreter that is new enough
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3 python3.12 python3.13 python; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "holdall needs Python 3.11 or later with venv; none was found. Install it, or set PYTHON=/path/to/it." >&2
    return 1
}

# make_environment LOCK…: the first lock is installed unless one of them is what .venv already holds.
make_environment() {
    local lock wanted
    for lock in "$@"; do
        wanted="$lock $(cat "requirements/$lock.lock" pyproject.toml | sha256sum | cut -c1-64)"
        if [ -x .venv/bin/holdall ] && [ "$(cat .venv/installed-lock 2>/dev/null)" = "$wanted" ]; then
            return
        fi
    done
    lock=$1
    heading "virtual environment .venv from requirements/$lock.lock"
    local python
    python=$(find_python)
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    local pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input)
    # The lock names every package, so nothing is resolved here; a file whose hash differs is refused.
    "${pip[@]}" install --quiet --require-hashes --no-deps -r "requirements/$lock.lock"
    "${pip[@]}" install --quiet --no-deps --no-build-isolation --editable .
    wanted="$lock $(cat "requirements/$lock.lock" pyproject.toml | sha256sum | cut -c1-64)"
    echo "$wanted" >.venv/installed-lock
}

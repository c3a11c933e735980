#!/bin/sh
# Make the environment of a checkout from the hashed lock: with uv when it is there,
# else with venv and pip. Called by `make setup` with VENV, STAMP and UV set.
set -eu
HALF=$VENV/.half-made-by-make

find_python() {
    # Each is asked, not only looked up: a version manager's shim may lead nowhere.
    for name in python3.14 python3.13 python3.12 python3.11 python3 python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "make setup: no Python >= 3.11 found. Install one (python.org, your package" >&2
    echo "manager, or: uv python install 3.13), then run make setup again." >&2
    return 1
}

if [ -e "$VENV" ] && [ ! -e "$STAMP" ] && [ ! -e "$HALF" ]; then
    echo "make setup: $VENV exists and was not made by make setup. Remove it" >&2
    echo "(make clean), or choose another place: make VENV=.venv-piecework setup" >&2
    exit 1
fi

with_uv() {
    "$UV" venv --quiet --python "$python" "$VENV" &&
        touch "$HALF" &&
        "$UV" pip install --quiet --python "$VENV/bin/python" \
            --require-hashes -r requirements/dev.txt &&
        "$UV" pip install --quiet --python "$VENV/bin/python" "$@"
}

with_pip() {
    "$python" -m venv --clear "$VENV" || {
        echo "make setup: $python cannot make an environment." >&2
        echo "On Debian and Ubuntu: apt install python3-venv" >&2
        return 1
    }
    touch "$HALF" # so that an interrupted run may be repeated
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes -r requirements/dev.txt
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

python=$(find_python)
set -- --no-deps --no-build-isolation --editable .
rm -rf "$VENV" # ours: interrupted, or older than the lock
if [ -n "$UV" ] && echo "making $VENV with $python and uv" >&2 && with_uv "$@"; then
    :
else
    echo "making $VENV with $python and pip (about a minute)" >&2
    with_pip "$@"
fi
rm -f "$HALF"
touch "$STAMP"

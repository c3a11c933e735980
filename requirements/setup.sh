#!/bin/sh
# Make or extend the environment of a checkout from hashed locks: with uv when it is
# there, else with venv and pip. The Makefile calls it with VENV, STAMP, UV and LOCKS:
# what the demo needs, or what developers need, too.
set -eu
HALF=$VENV/.half-made-by-make
LOG=$VENV/setup.log

find_python() {
    # Each is asked, not only looked up: a version manager's shim may lead nowhere.
    for name in python3.14 python3.13 python3.12 python3.11 python3 python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "make: no Python >= 3.11 found. Install one (python.org, your package" >&2
    echo "manager, or: uv python install 3.13), then type the command again." >&2
    return 1
}

made_by_make() {
    [ -e "$HALF" ] || ls "$VENV"/.made-* >/dev/null 2>&1
}

if [ -e "$VENV" ] && ! made_by_make; then
    echo "make: $VENV exists and was not made by make. Remove it (make clean)," >&2
    echo "or choose another place: make VENV=.venv-piecework demo" >&2
    exit 1
fi

# A line in place on a terminal, else a line each few seconds: no step is silent.
show() {
    if [ -t 2 ]; then printf '\r\033[K%s' "$1" >&2; else echo "$1" >&2; fi
}

bar() { # done, total
    filled=$(($1 * 24 / $2))
    printf '%-24s' "$(printf '%*s' "$filled" '' | tr ' ' '#')"
}

# Run an installation, and show how far it is: what pip has found, then what is there.
watched() {
    total=$(cat $LOCKS | grep -c '==')
    had=$(installed)
    "$@" >"$LOG" 2>&1 &
    pid=$! seconds=0
    trap 'kill $pid 2>/dev/null; exit 130' INT TERM HUP
    while kill -0 $pid 2>/dev/null; do
        count=$(($(installed) - had)) doing=installing
        if [ "$count" -le 0 ]; then
            count=$(grep -c '^Collecting\|^Requirement already' "$LOG" || true) doing=collecting
        fi
        [ "$count" -gt "$total" ] && count=$total
        if [ -t 2 ] || [ $((seconds % 3)) -eq 0 ]; then
            show "  [$(bar "$count" "$total")] $doing $count of $total packages, $seconds s"
        fi
        sleep 1
        seconds=$((seconds + 1))
    done
    trap - INT TERM HUP
    if ! wait $pid; then
        show ""
        tail -n 15 "$LOG" >&2
        return 1
    fi
    show "  [$(bar 1 1)] $total packages, $seconds s"
    if [ -t 2 ]; then echo >&2; fi
}

installed() {
    find "$VENV"/lib/python*/site-packages -maxdepth 1 -name '*.dist-info' 2>/dev/null | wc -l
}

install_with_uv() {
    "$UV" pip install --python "$VENV/bin/python" --require-hashes $files &&
        "$UV" pip install --python "$VENV/bin/python" "$@"
}

install_with_pip() {
    "$VENV/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
        --require-hashes $files &&
        "$VENV/bin/python" -m pip install --disable-pip-version-check "$@"
}

make_with() { # uv or pip
    if [ ! -x "$VENV/bin/python" ]; then
        if [ "$1" = uv ]; then
            "$UV" venv --quiet --python "$python" "$VENV"
        else
            "$python" -m venv --clear "$VENV" || {
                echo "make: $python cannot make an environment." >&2
                echo "On Debian and Ubuntu: apt install python3-venv" >&2
                return 1
            }
        fi || return 1
    fi
    touch "$HALF" # so that an interrupted run may be repeated
    watched "install_with_$1" --no-deps --no-build-isolation --editable .
}

files=
for lock in $LOCKS; do files="$files -r $lock"; done
python=$(find_python)
# Only what the demo has made may be extended; the rest is interrupted, or older.
case $(ls -A "$VENV" 2>/dev/null | grep '^\.half\|^\.made-' | tr '\n' ' ') in
".made-for-demo ") [ "$STAMP" != "$VENV/.made-for-demo" ] || rm -rf "$VENV" ;;
*) rm -rf "$VENV" ;;
esac
if [ -n "$UV" ] && echo "making $VENV with $python and uv" >&2 && make_with uv; then
    :
else
    if [ -n "$UV" ]; then rm -rf "$VENV"; fi
    echo "making $VENV with $python and pip" >&2
    make_with pip
fi
rm -f "$HALF"
touch "$STAMP"

#!/bin/sh
# Resolve the locks again. Both pip and uv install them, with every hash.
set -eu

EXTRAS="--extra cli --extra documents --extra otel --extra prometheus"

compile() {
    # UV_CUSTOM_COMPILE_COMMAND keeps the header the same on every machine.
    UV_CUSTOM_COMPILE_COMMAND="make lock" "$UV" pip compile --quiet --upgrade \
        --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links "$@"
}

# The image has each extra that a process in a container may need.
compile pyproject.toml $EXTRAS --output-file requirements/runtime.txt
# With the extras beside the pins: an older pip looks for the newest version of a
# package that only another package's extra names, and then misses its hash.
compile pyproject.toml $EXTRAS --no-strip-extras --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt
compile --group build --constraint requirements/dev.txt --output-file requirements/build.txt
compile requirements/ministack.in --output-file requirements/ministack.txt
compile requirements/microburst.in --output-file requirements/microburst.txt
compile requirements/checkov.in --output-file requirements/checkov.txt
compile requirements/security.in --output-file requirements/security.txt
compile requirements/bench-sqs.in --output-file requirements/bench-sqs.txt
compile requirements/bench-postgres.in --output-file requirements/bench-postgres.txt
compile requirements/bench-temporal.in --output-file requirements/bench-temporal.txt
compile requirements/frameworks.in --output-file requirements/frameworks.txt

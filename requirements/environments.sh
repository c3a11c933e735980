#!/bin/sh
# Install Piecework into an environment of its own, which needs a package index:
#   lowest   the lowest version that each floor allows; run the unit tests there
#   beside   the newest instructor, langchain, fastapi and openai beside Piecework; the
#            batches of all providers through their newest and their oldest SDKs
#   frameworks   agents, LangGraph and Temporal; run their agents and examples there,
#                the agents also on the lowest versions that the extras allow
# Called by `make lowest`, `make beside` and `make frameworks` with VENV and UV set.
set -eu

tools=.tools
if [ -z "$UV" ]; then # from the index, in an environment of its own
    UV=$tools/uv/bin/uv
    [ -x "$UV" ] || {
        "$VENV/bin/python" -m venv "$tools/uv"
        "$tools/uv/bin/pip" install --quiet --disable-pip-version-check uv
    }
fi

make_environment() {
    "$UV" venv --quiet --clear --python "$VENV/bin/python" "$1"
    python=$1/bin/python
}

install() {
    "$UV" pip install --quiet --python "$python" "$@"
}

lowest() {
    make_environment "$tools/lowest"
    # Typer 0.15 fails with click 8.2, and does not say so.
    echo "click<8.2" >"$tools/lowest/constraints.txt"
    install --constraint "$tools/lowest/constraints.txt" \
        --resolution lowest-direct --editable ".[aioboto3,cli,data,documents,otel,prometheus]"
    # The tools of the tests have their newest versions; they are not what is tested.
    install --constraint "$tools/lowest/constraints.txt" \
        pytest pytest-asyncio pytest-timeout pytest-xdist hypothesis "moto[server]" \
        localstack-client types-aiobotocore grimp pypdf "opentelemetry-sdk<1.28"
    "$UV" pip list --quiet --python "$python" |
        grep -E '^(aio|boto|jinja2|opentelemetry|prometheus|pydantic|pypdfium2|python-docx|pyyaml|rich|structlog|typer)'
    # pypdf imports a cipher that cryptography is about to move. The tests left out
    # hold how Typer 0.29 loads and refuses, and what the runner of click 8.2 flushes.
    cli=tests/unit/orchestrator/cli
    "$python" -m pytest -q -n 2 -p no:cacheprovider \
        -W ignore::cryptography.utils.CryptographyDeprecationWarning \
        -W "ignore:'autocompletion' is renamed:DeprecationWarning" \
        --deselect $cli/test_results.py::test_an_invalid_folder_is_refused \
        --deselect $cli/test_run.py::test_help_loads_nothing_heavy \
        --deselect "tests/unit/test_imports.py::test_a_command_that_says_only_what_is_installed_loads_nothing_else[words1-libraries1]" \
        tests/unit "$@"
}

beside() {
    make_environment "$tools/beside"
    install ".[cli,data,documents,prices]" instructor langchain fastapi openai
    "$UV" pip check --python "$python"
    # pip takes the newest boto3 first: it must not have to try each older one.
    for pip in "pip<23.3" pip; do
        make_environment "$tools/pip"
        install "$pip"
        "$python" -m pip install --quiet --dry-run --report "$tools/pip.json" . boto3
        "$python" -m pip --version
        "$python" -c "
import json
rows = [row['metadata'] for row in json.load(open('$tools/pip.json'))['install']]
names = {row['name']: row['version'] for row in rows}
print(' '.join(f'{n}={names[n]}' for n in ('boto3', 'botocore', 'aiobotocore')))
"
    done
    python=$tools/beside/bin/python
    "$python" -c "
from importlib.metadata import version
import fastapi, genai_prices, instructor, langchain, openai
import piecework, piecework.client, piecework_orchestrator.cli.app, piecework_worker.__main__
for name in piecework.__all__:
    getattr(piecework, name)
names = ['piecework', 'fastapi', 'instructor', 'langchain', 'openai', 'pydantic', 'rich']
print(' '.join(f'{name}={version(name)}' for name in names))
"
    # The batches of each provider, through the newest SDKs and the oldest.
    install anthropic google-genai pytest pytest-asyncio pytest-timeout hypothesis \
        "moto[server]" localstack-client
    batches
    install "anthropic==1.13.0" "google-genai==3.0.0" "openai==3.22.0"
    batches
}

batches() {
    "$UV" pip list --quiet --python "$python" |
        grep -E '^(anthropic|google-genai|openai|boto3) '
    # google-genai 3.0 has an escape in a text that Python does not know.
    "$python" -m pytest -q -p no:cacheprovider \
        -W "ignore:invalid escape sequence:DeprecationWarning" \
        -W "ignore:invalid escape sequence:SyntaxWarning" \
        tests/scenarios/test_batch_providers.py
}

frameworks() {
    unset PYTHONDONTWRITEBYTECODE # each agent is started many times
    make_environment "$tools/frameworks"
    install --requirement requirements/frameworks.txt
    install --constraint requirements/frameworks.txt --editable ".[cli]"
    versions
    # Temporal's server needs the name of a user, which a container may not set.
    USER=${USER:-piecework} "$python" -m pytest -q -p no:cacheprovider verification/frameworks "$@"
    make_environment "$tools/frameworks-lowest"
    install --resolution lowest-direct --editable ".[cli,langgraph,openai-agents,pydantic-ai]"
    install pytest pytest-asyncio pytest-timeout
    versions
    # The plugin of an old anyio does not know the newest pytest.
    "$python" -m pytest -q -p no:cacheprovider -p no:anyio \
        verification/frameworks/test_agents.py verification/frameworks/test_drawn_anew.py "$@"
}

versions() {
    "$UV" pip list --quiet --python "$python" |
        grep -E '^(lang(chain-core|graph)|openai-agents|temporal(io|-bin)|pydantic(-ai-slim)?) '
}

command=$1
shift
"$command" "$@"

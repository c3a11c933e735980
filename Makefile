# All targets for developers and CI. `make` alone lists them.

VENV ?= .venv
BIN := $(VENV)/bin
# What the demo needs, and what developers need: the second extends the first.
DEMO_STAMP := $(VENV)/.made-for-demo
STAMP := $(VENV)/.made-by-make
UV := $(shell command -v uv 2>/dev/null)
CODE := piecework workers orchestrator simulation examples bench tests verification localstack docs/reference
# Four processes for two cores, because the suite mostly waits. The long tests come
# last, so that an idle process takes tests from the others.
WORKERS ?= 4
ARGS ?=
# Compiled modules are kept, whatever the environment says: the tests start many processes.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest

.DEFAULT_GOAL := help
.PHONY: help setup check format test test-verification test-fast clause test-under-load demo up down verify docs quality model mutants naive soak resume innocents outage storm flow drill deployments webhooks waits million cost-of-a-million retention on-aws page screens telemetry keys batch-lane cancel-large submit-large simulate crashpoints conformance \
	batches bench bench-full commands cores large-job infra-check iam scaling security attacks audit sbom secrets image image-rehearsal localstack conformance-localstack lock onboarding lowest beside frameworks house drawings ci clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create the environment of developers from the lock, once

# When entry points change in pyproject.toml: make clean setup.
$(STAMP): requirements/dev.txt requirements/setup.sh
	@VENV=$(VENV) STAMP=$(STAMP) UV=$(UV) LOCKS=requirements/dev.txt sh requirements/setup.sh

# A third of the packages; where the environment of developers is, it serves the demo.
DEMO_LOCKS := requirements/runtime.txt requirements/build.txt
$(DEMO_STAMP): $(DEMO_LOCKS) requirements/setup.sh
	@VENV=$(VENV) STAMP=$(DEMO_STAMP) UV=$(UV) LOCKS="$(DEMO_LOCKS)" sh requirements/setup.sh
RUNNABLE := $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))

check: setup ## format, lint, types, import contracts, template
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/cfn-lint infra/*.yaml

format: setup ## format the code
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

test: setup ## all tests of the product: no network, no container, no AWS account
	$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS)

# The tests of the programs under `verification/`, and of the bench.
PROGRAMS := bench deployments guards model mutants naive resume soak

test-verification: setup ## the tests of the programs: model, mutants, naive, soak, bench, deployments; the simulator without each guard
	$(PYTEST) -n $(WORKERS) --dist worksteal $(addprefix verification/,$(PROGRAMS)) $(ARGS)

# A row of docs/conformance.md.
ROW ?= 001-1.1

clause: setup ## run the tests of a row of docs/conformance.md (ROW=001-3.1)
	$(PYTEST) -v $(shell sed -n 's/^$(ROW) //p' tests/docs/clauses.txt)

test-fast: setup ## unit tests and pages, without the emulator: under two minutes on two cores
	$(PYTEST) -q -n 2 --dist worksteal -m "not slow" tests/unit tests/docs $(ARGS)

# Rounds of `make test-under-load`; its first line names the seed of a round.
ROUNDS ?= 5

test-under-load: setup ## the suite in random order beside six busy processes (ROUNDS=1 SEED=7)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.under_load --rounds $(ROUNDS) \
	$(if $(filter command environment,$(origin SEED)),--seed $(SEED)) -n $(WORKERS) --dist worksteal $(ARGS)

demo: $(RUNNABLE) ## review a contract under faults on this machine (ARGS="--seed 7")
	@$(BIN)/piecework demo $(ARGS)

up: $(RUNNABLE) ## start the embedded AWS
	@$(BIN)/piecework up $(ARGS)

down: $(RUNNABLE) ## stop the embedded AWS
	@$(BIN)/piecework down $(ARGS)

verify: setup ## fail if a generated page is older than its source
	@$(BIN)/python docs/reference/generate.py --check
	@for source in docs/drawings/*.dot; do \
		$(DRAW) "$$source" | diff -q "$${source%.dot}.svg" - >/dev/null \
		|| { echo "$${source%.dot}.svg is stale: run make drawings" >&2; exit 1; } \
	done
	@echo "the generated pages are fresh"

# The drawings of the pages; any Graphviz reads their sources.
DRAW := $(BIN)/graphviz-pure -Tsvg -Gbgcolor=white -Gpad=0.2 -Nshape=box -Nstyle=rounded -Nmargin=0.25,0.1 \
	-Nfontname=Arial -Nfontsize=12 -Efontname=Arial -Efontsize=10

drawings: setup ## draw docs/drawings/*.dot as SVG
	@for source in docs/drawings/*.dot; do $(DRAW) -o "$${source%.dot}.svg" "$$source" || exit 1; done

docs: setup drawings ## write the generated pages, build the site into site/ and check its links
	@$(BIN)/python docs/reference/generate.py
	@$(BIN)/python docs/reference/build_site.py
	@echo "the site is in site/"

bench: setup ## compare Piecework with other systems, short (ARGS="--only W1 --systems piecework,loop")
	@$(BIN)/python -m bench $(ARGS)

bench-full: setup ## the same in full sizes, written to docs/performance.md (hours; ARGS="--only W1" runs a part again)
	@$(BIN)/python -m bench --full --save $(ARGS)

commands: setup ## the CPU of what a person types: version, list, submit of one row (ARGS="--rounds 9")
	@$(BIN)/python -m bench.commands $(ARGS)

cores: setup ## drain with one and with two processes of a worker: chunks a second, ratios (ARGS="--chunks 200")
	@$(BIN)/python -m bench.cores $(ARGS)

large-job: setup ## what a person sees of a job of 1,000,000 chunks: CPU, memory, requests (ARGS="--chunks 100000")
	@$(BIN)/python -m bench.large_job $(ARGS)

quality: setup ## measure the example against its gold labels
	@$(BIN)/python -m piecework_examples.contract_review.quality $(ARGS)

# How many states `make model` explores: 1400000 takes some minutes.
STATES ?= 1400000

model: setup ## explore the protocol's states, with and without each guard (STATES=100000)
	@$(BIN)/python -m verification.model --states $(STATES)

# Schedules of `make simulate`, and the seed of the first.
SCHEDULES ?= 20000
SEED ?= 1

simulate: setup ## run the real code in virtual time under every fault (SCHEDULES=1000 SEED=1 ARGS=-v)
	@$(BIN)/python -m piecework_simulation --schedules $(SCHEDULES) --seed $(SEED) $(ARGS)

crashpoints: setup ## kill a process at each external call of a job (CHUNKS=3)
	@$(BIN)/python -m piecework_simulation.crash_points \
	$(if $(filter command environment,$(origin CHUNKS)),--chunks $(CHUNKS)) $(ARGS)

conformance: setup ## compare the models with the emulators and AWS
	@$(BIN)/python -m verification.conformance $(ARGS)

# Jobs of `make naive`; both designs run each of them.
JOBS ?= 3000

naive: setup ## run the published design and this one under the same faults (JOBS=300 SEED=1)
	@$(BIN)/python -m verification.naive --jobs $(JOBS) --seed $(SEED) $(ARGS)

mutants: setup ## plant one fault at a time: a test must fail (ARGS="--sample 12")
	@$(BIN)/python -m verification.mutants $(ARGS)

# Real processes under real signals; FREEZES and STOPS: a fifth of KILLS each.
CHUNKS ?= 1000
KILLS ?= 25

soak: setup ## kill, freeze and stop workers behind a faulty proxy (CHUNKS= KILLS= SEED= WORKERS=4)
	@$(BIN)/python -m verification.soak --chunks $(CHUNKS) --kills $(KILLS) \
	$(if $(FREEZES),--freezes $(FREEZES)) $(if $(STOPS),--stops $(STOPS)) \
	$(if $(findstring command,$(origin WORKERS)),--workers $(WORKERS)) \
	$(if $(SEED),--seed $(SEED)) $(ARGS)

resume: setup ## kill `piecework run` at 200 moments and start it again, beside DBOS; rows a second with its state file (needs the index; ARGS="--kills 20")
	@$(BIN)/python -m verification.resume $(ARGS)

batches: setup ## ask 2,000 calls of four providers in batches, 100 times, with a kill of the collector at another step each (RUNS=8)
	@CALLS=2000 RUNS=$(or $(RUNS),100) $(BIN)/pytest -q -n $(WORKERS) tests/scenarios/test_four_providers.py

innocents: setup ## put seven guilty chunks among forty: no other chunk may die of them
	@$(BIN)/python -m verification.innocents

outage: setup ## take a provider away for 30 s under 64 calls: no attempt may be spent
	@$(BIN)/python -m verification.outage $(ARGS)

flow: setup ## measure how work flows: limits, order, a poison input; fails if a figure exceeds its limit (ARGS=poison)
	@$(BIN)/python -m verification.flow $(ARGS)

drill: setup ## stop a job by each cause and explain it: the first finding must be right (ARGS=busy)
	@$(BIN)/python -m verification.drill $(ARGS)

deployments: setup ## deploy each change of a pipeline in the middle of a job: no act twice, none skipped, none in silence (ARGS="--only field-added")
	@$(BIN)/python -m verification.deployments $(ARGS)

webhooks: setup ## kill the process that sends events 50 times: none may be lost (ARGS="--kills 4")
	@$(BIN)/python -m verification.webhooks $(ARGS)

telemetry: setup ## measure the CPU and requests that traces and metrics add to a chunk (ARGS="--ratio 1")
	@$(BIN)/python -m verification.telemetry $(ARGS)

keys: setup ## draw pairs of calls that differ: their keys must differ (ARGS="--pairs 1000 --seed 2")
	@$(BIN)/python -m verification.keys $(ARGS)

million: setup ## run one large job to its last file: submit, two workers, certificate, Parquet; seconds and memory of each (CHUNKS=1000000)
	@$(BIN)/python -m bench.million \
	$(if $(filter command environment,$(origin CHUNKS)),--chunks $(CHUNKS)) $(ARGS)

cost-of-a-million: setup ## compare the bill of a million chunks by hand with `jobs cost`, line by line (ARGS="--only twenty")
	@$(BIN)/python -m verification.million $(ARGS)

on-aws: setup ## try it in an account: deploy, conformance, demo, 20,000 chunks, bill, removal (PROFILE=name BUDGET_USD=5; ARGS="--emulator --chunks 200")
	@$(BIN)/python -m verification.on_aws $(if $(PROFILE),--profile $(PROFILE)) $(if $(BUDGET_USD),--budget $(BUDGET_USD)) $(ARGS)

retention: setup ## compare the units that delete a job with those of its run; fails above 0.05 (ARGS="--only twenty")
	@$(BIN)/python -m verification.million.retention $(ARGS)

batch-lane: setup ## bring 100,000 rows of batches back: memory of the collector, requests a call (ARGS="--rows 1000")
	@$(BIN)/python -m verification.batch_lane $(ARGS)

waits: setup ## let 10,000 chunks wait for a day: requests, lateness, losses (ARGS="--chunks 200")
	@$(BIN)/python -m verification.waits $(ARGS)

cancel-large: setup ## cancel a large job beside two workers (ARGS="--chunks 2000")
	@$(BIN)/python -m bench.cancel_large $(ARGS)

submit-large: setup ## submit large jobs under conflicts and throttling, in virtual time (CHUNKS=100000 WRITERS=8 RUNS=10)
	@$(BIN)/python -m verification.submits \
	$(if $(filter command environment,$(origin CHUNKS)),--chunks $(CHUNKS)) \
	$(if $(WRITERS),--writers $(WRITERS)) $(if $(RUNS),--runs $(RUNS)) $(ARGS)

storm: setup ## measure the retries of 1,000 clients in virtual time
	@$(BIN)/python -m verification.outage.storm $(ARGS)

infra-check: setup ## check the templates: rules, cfn-lint, checkov, a deployment to the embedded AWS
	@$(BIN)/cfn-lint infra/*.yaml
	@$(BIN)/pytest -q verification/iam/test_registry.py
	@$(BIN)/pytest -q tests/infra/test_template_rules.py tests/infra/test_template_deploy.py
	@$(BIN)/python -m tests.infra.check

iam: setup ## compare what roles grant with what a recorded run uses
	@$(BIN)/pytest -q verification/iam/test_registry.py
	@$(BIN)/python -m verification.iam $(ARGS)

scaling: setup ## simulate the scaling policy of the template and simpler ones
	@$(BIN)/python -m verification.scaling $(ARGS)

# Fuzzed messages of `make security`.
MESSAGES ?= 10000

security: setup ## fuzz messages and names, plant canaries and payload bombs (MESSAGES=500)
	@$(BIN)/python -m verification.security --messages $(MESSAGES) $(ARGS)

attacks: setup ## attack one machine: certificates, answers, files, links, archives, markup, pages, secrets
	@$(BIN)/python -m verification.security.attacks $(ARGS)

audit: setup ## list known vulnerabilities of the locked dependencies (needs the index)
	@$(BIN)/python -m verification.security.supply audit

sbom: setup ## write the bill of materials: out/sbom.cdx.json
	@$(BIN)/python -m verification.security.supply sbom

secrets: setup ## find new strings that look like secrets
	@$(BIN)/python -m verification.security.supply secrets

image: setup ## build the image (needs a container engine; BASE_DIGEST=@sha256:... pins its base)
	docker build -f infra/Dockerfile -t piecework:local \
	--build-arg VERSION=$$($(BIN)/python -c "from importlib.metadata import version; print(version('piecework'))") \
	--build-arg REVISION=$$(git rev-parse HEAD) $(if $(BASE_DIGEST),--build-arg BASE_DIGEST=$(BASE_DIGEST)) .

image-rehearsal: setup ## the image's build and processes without an engine (root on Linux, python3.13)
	@$(BIN)/python -m tests.infra.image $(ARGS)

localstack: setup ## LocalStack with the data stack, a worker and a reconciler (needs a container engine)
	@$(BIN)/python localstack/up.py $(ARGS)

conformance-localstack: setup ## the conformance suite against LocalStack; skipped without an engine
	@$(BIN)/python localstack/up.py --conformance

lock: ## resolve the dependencies again (needs uv)
	@test -n "$(UV)" || { echo "make lock needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	UV=$(UV) sh requirements/lock.sh

page: setup ## measure the web page: first paint of a large job, reads of open pages (ARGS="--seconds 60")
	@$(BIN)/python -m verification.page $(ARGS)

screens: setup ## take the pictures of the web page's guide (needs Chromium)
	@$(BIN)/python -m verification.screens $(ARGS)

onboarding: setup ## measure a new program: lines, first result, imports; fails if a figure exceeds its limit
	@$(BIN)/python -m verification.onboarding

lowest: setup ## run the unit tests on the lowest versions of all dependencies (needs the index)
	@VENV=$(VENV) UV=$(UV) sh requirements/environments.sh lowest $(ARGS)

beside: setup ## import Piecework beside the newest instructor, langchain, fastapi, openai (needs the index)
	@VENV=$(VENV) UV=$(UV) sh requirements/environments.sh beside

frameworks: setup ## kill agents of other frameworks in each step; run the examples for LangGraph and Temporal (needs the index)
	@VENV=$(VENV) UV=$(UV) sh requirements/environments.sh frameworks $(ARGS)

house: setup ## measure files, circles, frames, words; fails if a figure exceeds its limit
	@$(BIN)/python -m verification.house

ci: check verify house test-verification test ## run what CI runs

clean: ## remove the environment and all build results
	rm -rf $(VENV) .tools .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

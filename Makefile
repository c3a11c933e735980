# Everything a person or CI asks of a checkout. `make` alone lists it.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-by-make
UV := $(shell command -v uv 2>/dev/null)
CODE := piecework workers orchestrator simulation examples bench tests localstack docs
# Three processes for two cores: the suite is mostly waiting. The long tests come last,
# so who is done takes from the others.
WORKERS ?= 3
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup check format test demo up down verify docs quality model mutants naive soak outage storm simulate crashpoints conformance \
	bench bench-full infra-check iam scaling security audit sbom secrets image image-rehearsal localstack conformance-localstack lock ci clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the environment from the hashed lock, once

# When entry points change in pyproject.toml: make clean setup.
$(STAMP): requirements/dev.txt requirements/setup.sh
	@VENV=$(VENV) STAMP=$(STAMP) UV=$(UV) sh requirements/setup.sh

check: setup ## format, lint, types, import contracts, template
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/cfn-lint infra/*.yaml

format: setup ## put the code into its form
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

test: setup ## the whole suite: no network, no container, no AWS account
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

demo: setup ## review a contract under faults, on this machine (ARGS="--seed 7")
	@$(BIN)/piecework demo $(ARGS)

up: setup ## start the embedded AWS
	@$(BIN)/piecework up $(ARGS)

down: setup ## stop the embedded AWS
	@$(BIN)/piecework down $(ARGS)

verify: setup ## generated pages are as fresh as their sources
	@$(BIN)/python -m piecework.codes | diff -u docs/error-codes.md - \
	|| { echo "docs/error-codes.md is stale: run make docs" >&2; exit 1; }
	@$(BIN)/python -m bench.limits | diff -u docs/limits.md - \
	|| { echo "docs/limits.md is stale: run make docs" >&2; exit 1; }
	@for page in settings command-line; do \
		$(BIN)/python docs/reference/generate.py $$page | diff -u docs/reference/$$page.md - \
		|| { echo "docs/reference/$$page.md is stale: run make docs" >&2; exit 1; } \
	done
	@echo "the generated pages are fresh"

docs: setup ## write the generated pages, build the site into site/ and check its links
	@$(BIN)/python -m piecework.codes > docs/error-codes.md
	@$(BIN)/python -m bench.limits > docs/limits.md
	@$(BIN)/python docs/reference/generate.py settings > docs/reference/settings.md
	@$(BIN)/python docs/reference/generate.py command-line > docs/reference/command-line.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --clean
	@echo "the site is in site/"

bench: setup ## Piecework beside its rivals, short (ARGS="--only W1 --systems piecework,loop")
	@$(BIN)/python -m bench $(ARGS)

bench-full: setup ## the same in full sizes, written to docs/performance.md (an hour and more)
	@$(BIN)/python -m bench --full --save $(ARGS)

quality: setup ## how well the example's analysts find what a person marked
	@$(BIN)/python -m examples.contract_review.quality $(ARGS)

# How many states `make model` looks at: 1400000 takes some minutes.
STATES ?= 1400000

model: setup ## the protocol's states, and what breaks without each guard (STATES=100000)
	@$(BIN)/python -m tests.model --states $(STATES)

# Schedules of `make simulate`, and the seed of the first.
SCHEDULES ?= 20000
SEED ?= 1

simulate: setup ## the real code in made-up time, through every fault (SCHEDULES=1000 SEED=1)
	@$(BIN)/python -m simulation --schedules $(SCHEDULES) --seed $(SEED) $(ARGS)

crashpoints: setup ## one death at each external call of a job, and nothing lost (CHUNKS=3)
	@$(BIN)/python -m simulation.crash_points \
	$(if $(filter command environment,$(origin CHUNKS)),--chunks $(CHUNKS)) $(ARGS)

conformance: setup ## where the models, the emulators and AWS differ
	@$(BIN)/python -m tests.conformance $(ARGS)

# Jobs of `make naive`, each done by both designs.
JOBS ?= 3000

naive: setup ## the design that this one repairs, and ours, under the same faults (JOBS=300 SEED=1)
	@$(BIN)/python -m tests.naive --jobs $(JOBS) --seed $(SEED) $(ARGS)

mutants: setup ## drop each guard of the protocol: a test must notice (ARGS="--sample 12")
	@$(BIN)/python -m tests.mutants $(ARGS)

# As real processes under real signals; FREEZES and STOPS: a fifth of KILLS each.
CHUNKS ?= 1000
KILLS ?= 25

soak: setup ## workers killed, frozen, stopped, lied to: all accounted for (CHUNKS= KILLS= SEED= WORKERS=4)
	@$(BIN)/python -m tests.soak --chunks $(CHUNKS) --kills $(KILLS) \
	$(if $(FREEZES),--freezes $(FREEZES)) $(if $(STOPS),--stops $(STOPS)) \
	$(if $(findstring command,$(origin WORKERS)),--workers $(WORKERS)) \
	$(if $(SEED),--seed $(SEED)) $(ARGS)

outage: setup ## a provider that is down for 30 s under 64 calls: waited for, and no attempt burned
	@$(BIN)/python -m tests.outage $(ARGS)

storm: setup ## what the retries of 1,000 clients come to, in made-up time
	@$(BIN)/python -m tests.outage.storm $(ARGS)

infra-check: setup ## the templates: rules, cfn-lint, checkov, and a deployment to the embedded AWS
	@$(BIN)/python -m tests.infra.check

iam: setup ## what roles are granted is what is used: a play and a soak past a door that denies (ARGS="--chunks 0")
	@$(BIN)/python -m tests.iam $(ARGS)

scaling: setup ## the scaling policy of the template, and simpler ones, on made-up work
	@$(BIN)/python -m tests.scaling $(ARGS)

# Fuzzed messages of `make security`.
MESSAGES ?= 10000

security: setup ## fuzzed messages, odd names, canaries, bombs: no harm done (MESSAGES=500)
	@$(BIN)/python -m tests.security --messages $(MESSAGES) $(ARGS)

audit: setup ## known vulnerabilities of the locked dependencies (77: nobody could be asked)
	@$(BIN)/python -m tests.security.supply audit

sbom: setup ## what the product is made of: out/sbom.cdx.json
	@$(BIN)/python -m tests.security.supply sbom

secrets: setup ## what looks like a secret, and is not in the baseline
	@$(BIN)/python -m tests.security.supply secrets

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

ci: check verify test ## what CI runs

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .tools .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

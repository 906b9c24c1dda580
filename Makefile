# Every target sets up what it needs: a fresh machine has to have only Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := env -u PYTHONWARNINGS $(BIN)/pip install --quiet --disable-pip-version-check
EXAMPLES := $(VENV)/.examples
DOCS := $(VENV)/docs/.ready
PADDLE := $(VENV)/paddle/.ready
TORCH := $(VENV)/torch/.ready
SEEDS ?= 2000
KILLS ?= 20
SOAK_S ?= 60
PYTHONS ?= 3.12 3.13
export PYTHONWARNINGS := error
# Tests start hundreds of processes: without bytecode each compiles every module that it loads.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test pythons check docs sim bench e2e testbed cluster cluster-down image release lock audit format clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml requirements/core.txt requirements/dev.txt
	@echo "Installing into $(VENV) (once, about a minute) ..." >&2
	@env -u PYTHONWARNINGS $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes --requirement requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(EXAMPLES): $(READY) requirements/examples.txt
	@echo "Installing what the examples train with (once, about 150 MB) ..." >&2
	@$(PIP) --require-hashes --requirement requirements/examples.txt
	@touch $@

$(DOCS): $(READY) requirements/docs.txt
	@echo "Installing what the site is made with, by itself (once, about 120 MB) ..." >&2
	@env -u PYTHONWARNINGS $(PYTHON) -m venv $(VENV)/docs
	@$(PIP:$(BIN)/%=$(VENV)/docs/bin/%) --require-hashes --requirement requirements/docs.txt
	@touch $@

$(PADDLE): $(READY) requirements/paddle.txt
	@echo "Installing PaddlePaddle, by itself: its pins are not ours (once, about 150 MB) ..." >&2
	@env -u PYTHONWARNINGS $(PYTHON) -m venv $(VENV)/paddle
	@$(PIP:$(BIN)/%=$(VENV)/paddle/bin/%) --require-hashes --requirement requirements/paddle.txt
	@touch $@

$(TORCH): $(READY) requirements/torch.txt
	@echo "Installing PyTorch, by itself: it is large (once, about 6 GB) ..." >&2
	@env -u PYTHONWARNINGS $(PYTHON) -m venv $(VENV)/torch
	@$(PIP:$(BIN)/%=$(VENV)/torch/bin/%) --require-hashes --requirement requirements/torch.txt
	@touch $@

demo: $(READY) ## see it work
	@$(BIN)/python -m swell.demo

test: $(READY) ## every test but the long ones; on the real control plane, too, if it is built
	@$(BIN)/python -m pytest -m 'not long' --ignore=tests/e2e --numprocesses 3 --no-loadscope-reorder

pythons: ## the unit tests with other Pythons that are on this machine: PYTHONS="3.12 3.13"
	@for version in $(PYTHONS); do \
		echo "python$$version" >&2; \
		env -u PYTHONWARNINGS python$$version -m venv $(VENV)/python$$version || exit 1; \
		env -u PYTHONWARNINGS $(VENV)/python$$version/bin/pip install --quiet \
			--disable-pip-version-check --require-hashes --requirement requirements/dev.txt || exit 1; \
		env -u PYTHONWARNINGS $(VENV)/python$$version/bin/pip install --quiet \
			--disable-pip-version-check --no-deps --no-build-isolation --editable . || exit 1; \
		$(VENV)/python$$version/bin/python -m pytest tests/unit --numprocesses 2 || exit 1; \
	done

check: $(READY) ## format, lint, types, import rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

docs: $(DOCS) ## a site from docs/, in dist/site
	@env -u PYTHONWARNINGS $(VENV)/docs/bin/python -m tools.site dist/site
	@echo "dist/site/index.html"

sim: $(READY) ## simulated faults and other large samples: SEEDS=n KILLS=n SOAK_S=n, SEED=n SCENARIO=name SUBJECT=name replays
	@$(BIN)/python -m tests.shown --seeds $(SEEDS) --kills $(KILLS) --soak-s $(SOAK_S) \
		$(if $(SEED),--seed $(SEED)) $(if $(SUBJECT),--subject "$(SUBJECT)") \
		$(if $(SCENARIO),--scenario "$(SCENARIO)")

bench: $(READY) ## figures of speed and memory
	@$(BIN)/python -m bench

e2e: $(EXAMPLES) $(DOCS) $(PADDLE) $(TORCH) ## the long tests: whole clusters, real processes, lives of jobs (apt: chromium chromium-driver prometheus)
	@$(BIN)/python -m pytest -m long tests/e2e tests/sim tests/contract tests/attack \
		--numprocesses 2 --no-loadscope-reorder

testbed: ## build the real Kubernetes for tests (Go; minutes the first time)
	@$(PYTHON) -m testbed.build

cluster: ## start a whole Kubernetes on this machine (root); prints its kubeconfig
	@$(PYTHON) -m testbed.build > /dev/null
	@$(PYTHON) -m testbed.cluster up

cluster-down: ## take it away again
	@$(PYTHON) -m testbed.cluster down

image: ## an image of Swell as a tar, made without a container engine
	@env -u PYTHONWARNINGS $(PYTHON) -m image.build

release: $(READY) ## what a release consists of, in dist: one manifest, packages, the plugin for krew; URL=where it will be
	@$(BIN)/python -m tools.release $(if $(URL),--url $(URL))

lock: $(READY) ## pin what is installed, with digests; UPGRADE=1 takes the newest versions
	@$(PIP) uv
	@$(BIN)/python -m tools.lock $(if $(UPGRADE),--upgrade)

audit: $(READY) ## known vulnerabilities in what is installed, or a line saying that there is no data
	@$(PIP) pip-audit
	@env -u PYTHONWARNINGS $(BIN)/python -m tools.audit

format: $(READY) ## format the code
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix .

clean: ## remove what make installed
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Everything a developer does by name. `make help` lists it.

VENV := .venv
BIN := $(VENV)/bin
SDKS := .sdk-venv
# The first that is new enough; a name alone proves nothing where a version manager puts shims.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
# Root's own directory is closed to others, and so is a Python in it.
define PRIVATE_PYTHON
import os, sys
from pathlib import Path
python = Path(sys.executable).resolve()
closed = [place for place in python.parents if not place.stat().st_mode & 0o001]
if os.getuid() == 0 and closed:
    print(f"Only root can run {python}: {closed[-1]} is closed to others. For a service of another "
        "user: make clean, then make PYTHON=/usr/bin/python3 install", file=sys.stderr)
endef
export PRIVATE_PYTHON
# Hundreds of processes import the same modules: compiled once, each starts in two thirds of the time.
unexport PYTHONDONTWRITEBYTECODE
PYTEST_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo demo-agent demo-sso test test-quick check lint types format tests bench bench-count bench-load bench-size quality-model screenshots lock clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Make .venv from requirements.lock; again only when that changes

install-dev: $(VENV)/.installed-dev ## The same, with what the checks and tests need

demo: install ## Serve the demo on loopback until Ctrl-C; no key and no service needed
	@exec $(BIN)/python manage.py demo

demo-agent: install ## Show an agent that runs elsewhere at the demo, which another terminal serves
	@exec $(BIN)/python scripts/demo-agent $(REFERENCE)

demo-sso: install-dev ## Serve the demo with single sign-on at a test provider until Ctrl-C
	@exec $(BIN)/python scripts/demo-sso

test: lint $(SDKS)/.installed ## Check and test everything, as CI does
	$(BIN)/python -m tests.suite --check $(PYTEST_ARGS)

test-quick: lint ## Lint, and what is quick on SQLite: no recorded cases, browser, crash or race
	$(BIN)/python -m pytest -q -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -m "not slow" --ignore tests/conformance $(PYTEST_ARGS)

check: lint types ## Lint, types, layers, migrations, deployment settings and documents

types: install-dev
	$(BIN)/mypy
	cd clients/python && $(CURDIR)/$(BIN)/mypy
	$(BIN)/lint-imports
	scripts/check-settings
	$(BIN)/python scripts/check-docs
	$(BIN)/python scripts/check-docs --screens
lint: install-dev ## Only the code's form
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: install-dev ## Put the code in its usual form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

tests: install-dev $(SDKS)/.installed ## Only the tests: on SQLite, then on PostgreSQL where there is one
	$(BIN)/python -m tests.suite $(PYTEST_ARGS)

bench: .bench-venv/.installed ## Measure the engine beside LangGraph and the bare driver
	.bench-venv/bin/python -m bench $(BENCH_ARGS)

bench-count: .bench-venv/.installed ## Count the instructions of a run beside them; needs valgrind
	.bench-venv/bin/python -m bench.instructions $(BENCH_ARGS)

bench-load: install ## Measure worker, web and live updates under load
	$(BIN)/python -m bench.load $(BENCH_ARGS)

bench-size: install ## Time every page with a hundred thousand runs
	$(BIN)/python -m bench.size $(BENCH_ARGS)

quality-model: install ## What the model at OPENAI_BASE_URL gets done at the desks that ship
	$(BIN)/python -m bench.quality $(BENCH_ARGS)

screenshots: install-dev ## Make the pictures under docs/images anew
	$(BIN)/python -m scripts.screenshots

lock: ## Write the lock files anew from requirements*.in
	scripts/lock

clean: ## Remove .venv and caches; the data in var/ stays
	rm -rf $(VENV) $(SDKS) .bench-venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "opsconsole needs Python 3.11 or newer and found none: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python cannot make a virtual environment here; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c "$$PRIVATE_PYTHON"

$(VENV)/.installed: requirements.lock | $(BIN)/python
	@echo "Installing from requirements.lock (about half a minute, once)"
	@$(PIP) -r requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock | $(BIN)/python
	@echo "Installing from requirements-dev.lock (about a minute, once)"
	@$(PIP) -r requirements-dev.lock
	@touch $@ $(VENV)/.installed

# What .venv has too is taken from there: it is the same version.
$(SDKS)/.installed: clients/python/requirements-sdks.lock $(VENV)/.installed-dev
	@echo "Installing the agent frameworks that the client is tested with (15 seconds, once)"
	@rm -rf $(SDKS) && $(BIN)/python -m venv --without-pip $(SDKS)
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> $$($(SDKS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/dev.pth
	@echo $(CURDIR)/clients/python/src \
		> $$($(SDKS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/client.pth
	@$(BIN)/python -m pip --python $(SDKS)/bin/python install --quiet --disable-pip-version-check \
		--require-hashes -r $<
	@touch $@

.bench-venv/.installed: requirements.lock requirements-bench.in | $(BIN)/python
	@echo "Installing what is compared (about half a minute, once)"
	@$(BIN)/python -m venv .bench-venv
	@.bench-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@.bench-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.in
	@touch $@

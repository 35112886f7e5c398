# Everything a newcomer types. `make demo` needs Python 3.11+ and pip; each target sets up what it needs first.

# some machines forbid to keep compiled code, and every process that a test starts compiles everything anew
unexport PYTHONDONTWRITEBYTECODE

# Every answer is written to the disk before it leaves, so tests wait for the disk most of their time. Where memory has
# room for some GB of files, and programs may run from there, their temporary folders lie there.
SPARE := $(shell grep -q ' /dev/shm .*noexec' /proc/mounts 2>/dev/null || df --output=avail /dev/shm 2>/dev/null | tail -1)
ifeq ($(shell [ "$(SPARE)" -gt 4000000 ] 2>/dev/null && echo yes),yes)
export PYTEST_DEBUG_TEMPROOT ?= /dev/shm
endif

PYTHON ?= python3
PKG ?= everhold
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# uv installs several times faster where it is present
INSTALL := $(shell command -v uv >/dev/null 2>&1 && echo 'uv pip install --quiet --python $(BIN)/python' || echo '$(BIN)/python -m pip install --quiet --disable-pip-version-check')
TESTS := $(wildcard packages/*/tests) tests
EXAMPLES := $(wildcard packages/*/src packages/*/README.md) docs README.md
PROJECTS := $(wildcard packages/*/pyproject.toml)

.PHONY: help setup demo services check test fast-tests test-all doctests studies durations lowest hunt lint format catalog docs walks bench peers coverage-study experiments sources clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: .venv/installed-dev ## create .venv and install the workspace for development

demo: .venv/installed-demo ## seal real flights, let an analyst climb, see what holds
	$(BIN)/everhold demo --output demo-output

services: ## install PostgreSQL, Chromium and Java from Debian packages, if they are missing
	@sh .ci/make-services

check: .venv/installed-dev ## the fast tests of one distribution: make check PKG=everhold-server
	$(PYTEST) packages/$(PKG) -m "not slow and not services and not study"

test: .venv/installed-dev ## lint, types, layers and all fast tests, beside each other; needs no services
	@$(MAKE) --no-print-directory --jobs 2 lint fast-tests

fast-tests: .venv/installed-dev # of make test
	$(PYTEST) $(TESTS) -m "not slow and not services and not study"

test-all: .venv/installed-dev ## what make test leaves out: examples, slow tests, and those that need services
	@$(MAKE) --no-print-directory --jobs 2 services walks
	$(PYTEST) $(EXAMPLES) $(TESTS) -m "(slow or services or example) and not study"

doctests: .venv/installed-dev ## the examples in docs and docstrings
	$(PYTEST) $(EXAMPLES)

studies: .venv/installed-dev ## games and enumerations that last minutes each, listed in tests/studies.txt
	$(PYTEST) -m study

durations: services .venv/installed-dev .venv-walks/installed ## run all tests and record which are slow in tests/slow.txt
	$(PYTEST) --record-slow

lowest: .venv-lowest/installed-lowest ## all tests on the lowest versions that the projects allow
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal

hunt: .venv/installed-dev ## the tests on new random examples, keys and noise, to look for counterexamples
	$(PYTEST) --hypothesis-profile=hunt --chance=$(shell date +%s)

lint: .venv/installed-dev ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

catalog: ## write which extra installs which extension
	$(PYTHON) .ci/catalog.py $(PROJECTS)

docs: .venv/installed-dev ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

walks: .venv-walks/installed ## environments as new users have them, in which docs/first-steps is followed

bench: .venv/installed-dev ## run the benchmarks and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

peers: ## install the peers of the benchmark into .venv-peers
	sh .ci/make-peers "$(PYTHON)"

coverage-study: .venv/installed-dev ## the long coverage studies; writes docs/theory/coverage.md, coverage-of-intervals.md and coverage-of-diagnosis.md
	cd packages/everhold-lab/tests && ../../../$(BIN)/python -m coverage_studies
	cd packages/everhold-lab/tests && ../../../$(BIN)/python -m coverage_studies.kinds_study
	cd packages/everhold-lab/tests && ../../../$(BIN)/python -m coverage_studies.diagnosis_study

experiments: .venv/installed-dev ## run the lab and write docs/experiments.md; some ten minutes
	$(BIN)/everhold lab run all --output lab-output
	$(BIN)/python docs/experiments_page.py lab-output

sources: .venv/installed-dev ## compute every number of the sources and write docs/theory/sources.md
	$(BIN)/python docs/sources_page.py

clean: ## remove everything that can be made again
	rm -rf .venv .venv-lowest .venv-peers .venv-walks site demo-output lab-output .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/bin/python:
	sh .ci/make-venv "$(PYTHON)" .venv

.venv/installed-demo: .venv/bin/python $(PROJECTS) requirements-demo.txt constraints.txt
	$(INSTALL) -c constraints.txt -r requirements-demo.txt
	@touch $@

.venv/installed-dev: .venv/bin/python $(PROJECTS) requirements-dev.txt requirements-test.txt constraints.txt
	$(INSTALL) -c constraints.txt -r requirements-dev.txt
	@touch $@ .venv/installed-demo

.venv-walks/installed: .venv/bin/python $(wildcard docs/first-steps/*.md) $(PROJECTS) $(shell find packages/*/src -type f -not -path '*/__pycache__/*')
	sh .ci/make-walks

.venv-lowest/installed-lowest: $(PROJECTS) .ci/make-lowest .ci/lower_bounds.py
	sh .ci/make-lowest "$(PYTHON)"
	@touch $@

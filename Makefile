# Everything a newcomer types. `make demo` needs Python 3.11+ and pip; each target sets up what it needs first.

PYTHON ?= python3
BIN := .venv/bin
# uv installs several times faster where it is present
INSTALL := $(shell command -v uv >/dev/null 2>&1 && echo 'uv pip install --quiet --python $(BIN)/python' || echo '$(BIN)/python -m pip install --quiet --disable-pip-version-check')

.PHONY: help setup demo services test lowest hunt lint format docs house walks bench peers coverage-study experiments sources clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: .venv/installed-dev ## create .venv and install everything for development

demo: .venv/installed-demo ## seal real flights, let an analyst climb, see what holds
	$(BIN)/everhold demo --output demo-output

services: ## install PostgreSQL, Chromium and Java from Debian packages, if they are missing
	@sh .ci/make-services

test: services .venv/installed-dev .venv-walks/installed lint ## all checks and tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lowest: .venv-lowest/installed-lowest ## all tests on the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal

hunt: .venv/installed-dev ## the tests on fresh random examples, to look for counterexamples
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile=hunt

lint: .venv/installed-dev ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev ## put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/installed-dev ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

house: .venv/installed-dev ## draw docs/images/house.svg from the imports
	$(BIN)/python docs/house.py

walks: .venv-walks/installed ## environments as new users have them, in which docs/first-steps is followed

bench: .venv/installed-dev ## run the benchmarks and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

peers: ## install the peers of the benchmark into .venv-peers
	sh .ci/make-peers "$(PYTHON)"

coverage-study: .venv/installed-dev ## the long coverage studies; writes docs/theory/coverage.md, coverage-of-intervals.md and coverage-of-diagnosis.md
	$(BIN)/python -m lab.tests.coverage_studies
	$(BIN)/python -m lab.tests.coverage_studies.kinds_study
	$(BIN)/python -m lab.tests.coverage_studies.diagnosis_study

experiments: .venv/installed-dev ## run the lab and write docs/experiments.md; some ten minutes
	$(BIN)/everhold lab run all --output lab-output
	$(BIN)/python docs/experiments_page.py lab-output

sources: .venv/installed-dev ## compute every number of the sources and write docs/theory/sources.md
	$(BIN)/python docs/sources_page.py

clean: ## remove everything that can be made again
	rm -rf .venv .venv-lowest .venv-peers .venv-walks site demo-output lab-output .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/bin/python:
	sh .ci/make-venv "$(PYTHON)" .venv

.venv/installed-demo: .venv/bin/python pyproject.toml lab/pyproject.toml constraints.txt
	$(INSTALL) -c constraints.txt -e '.[plots,sklearn]' -e lab
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml lab/pyproject.toml constraints.txt
	$(INSTALL) -c constraints.txt -e '.[dev]' -e 'lab[optuna]'
	@touch $@ .venv/installed-demo

.venv-walks/installed: .venv/installed-dev $(wildcard docs/first-steps/*.md) $(shell find src -name '*.py')
	sh .ci/make-walks "$(PYTHON)"

.venv-lowest/installed-lowest: pyproject.toml lab/pyproject.toml .ci/make-lowest .ci/lower_bounds.py
	sh .ci/make-lowest "$(PYTHON)"
	@touch $@

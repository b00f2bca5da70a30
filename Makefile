# Everything here needs Python 3.11 or newer and make, and nothing else. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: .types help run check lint types quick test test-slow bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedsim needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 12

run: .venv/installed ## install into .venv, and run the ready example
	$(BIN)/fedsim run

check: lint types ## formatting, lint and types

lint: .venv/installed ## formatting and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .types ## types
	$(BIN)/mypy

# mypy looks for packages by folder; pyproject.toml maps the four top-level folders into one package.
.types: .venv/installed
	rm -rf .types && mkdir -p .types/fedsim
	for f in fedsim/*; do ln -sfn "../../$$f" ".types/fedsim/$$(basename "$$f")"; done
	for d in actors scenarios dashboards; do ln -sfn "../../$$d" ".types/fedsim/$$d"; done

quick: .venv/installed ## tests that start neither Ray nor another process
	$(BIN)/python -m pytest -m 'not slow and not heavy' -n 2 --dist worksteal

# loadgroup: one process has the cluster and runs all tests on Ray, the other all the rest. With
# worksteal or loadfile both start a cluster and slow each other down.
test: .venv/installed ## the test suite
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadgroup

test-slow: .venv/installed ## longer drills and statistics, before a release
	$(BIN)/python -m pytest -m slow -n 2 --dist loadgroup

bench: .venv/installed ## benchmarks: ratios measured in one run
	$(BIN)/python -m tests.benchmarks

clean: ## remove .venv and everything that tools have cached
	rm -rf .venv .types build *.egg-info .mypy_cache .pytest_cache .ruff_cache

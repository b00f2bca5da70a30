# Everything here needs Python 3.11 or newer and make, and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: .types run quick test test-slow check bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedsim needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

run: .venv/installed
	$(BIN)/fedsim run

# Without Ray and without other processes: less than a minute.
quick: .venv/installed
	$(BIN)/python -m pytest -m 'not slow and not heavy' -n 2 --dist worksteal

# loadgroup: one process has the cluster and runs all tests on Ray, the other all the rest. With
# worksteal or loadfile both start a cluster and slow each other down.
test: .venv/installed
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadgroup

test-slow: .venv/installed
	$(BIN)/python -m pytest -m slow -n 2 --dist loadgroup

.types: .venv/installed
	mkdir -p .types/fedsim
	for f in fedsim/*; do ln -sfn "../../$$f" ".types/fedsim/$$(basename "$$f")"; done
	for d in actors scenarios dashboards; do ln -sfn "../../$$d" ".types/fedsim/$$d"; done

check: .types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf .venv .types build *.egg-info .mypy_cache .pytest_cache .ruff_cache

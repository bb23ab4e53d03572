# make demo   creates .venv, installs, checks real models on every platform that runs here
# make test   lint, strict types, all tests
# Both are quick when nothing changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint types cases roundtrip clean

demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/python -m pytest -n 2 -q

lint: $(INSTALLED)
	$(BIN)/ruff check src tests examples
	$(BIN)/ruff format --check src tests examples

types: $(INSTALLED)
	$(BIN)/mypy

# Over 40 real models: the share that becomes a program and gives the source's bits.
roundtrip: $(INSTALLED)
	$(BIN)/mindgap bench roundtrip

# Real divergences and controls whose truth is known: recall, precision and blame by class.
cases: $(INSTALLED)
	$(BIN)/mindgap bench cases

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache

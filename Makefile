# make demo   creates .venv, installs, checks real models on every platform that runs here
# make test   lint, strict types, all tests
# Both are quick when nothing changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint types cases roundtrip reference clean

# Exit code 1 of a check means that it found a difference: what the demo is for.
demo: $(INSTALLED)
	mkdir -p out
	@for model in timm:resnet18 transformers:bert examples/relative_position.py; do \
	  name=$$(basename $$model .py | tr ':' '-'); echo "\$$ mindgap check $$model"; \
	  $(BIN)/mindgap check $$model --json out/$$name.json --svg out/$$name.svg || test $$? -eq 1 || exit $$?; echo; \
	done
	@echo "The results are in out/: JSON documents and pictures of the tables."

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

# Pages of docs/ that are made from the code.
reference: $(INSTALLED)
	$(BIN)/python -m mindgap.cli.reference docs

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

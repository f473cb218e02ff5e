# `make help` lists the targets. They also work from other folders: `make -C path/to/here demo`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
# The interpreter for the environment: the first suitable one of these, or `make setup PYTHON=/path/to/python`.
PYTHON :=
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3)
SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))
# The pip of Python 3.11 takes twice as long to resolve the versions.
NEW_PIP := $(PY) -m pip install --no-input --disable-pip-version-check --quiet 'pip>=25' || echo "pip could not be updated, so the installation takes longer"
# Python compiles a module when it is first imported. Most modules of the dependencies never are.
INSTALL := $(PY) -m pip install --no-input --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
FIRST_IMPORT := $(PY) -c 'import matplotlib.pyplot, optuna, pytorch_lightning, sacrebleu, sentencepiece, wandb'
# Number of processes of the test suite, and further arguments for it: `make test WORKERS=8 ARGS='tests/models -k causal'`.
# Three for two cores: tests that wait for Slurm, Ray and leases leave a core to a third.
WORKERS := 3
ARGS :=

.PHONY: help setup docs demo test fast torture bench results lint format constraints clean
.PHONY: .claims .result_pages .readme_table .reports

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# The stamp records what was installed, so that a touched file, a switch of branches and back, or a second `make` costs
# nothing, and a changed pin or a moved checkout is noticed. It is written last. `.unfinished` remains after an interrupted
# installation, whose packages may be incomplete: the next `make setup` then starts over (from pip's cache).
setup:  ## make .venv and install everything, if pyproject.toml or constraints.txt changed
	@set -euo pipefail; \
	exec 9<Makefile; \
	flock --nonblock 9 || { echo "Waiting for another make that installs here"; flock 9; }; \
	wanted="$$(pwd) $$(cat pyproject.toml constraints.txt | cksum)"; \
	if [ "$$(cat $(VENV)/.installed 2>/dev/null || true)" = "$$wanted" ] && $(PY) -c '$(SUITABLE)' 2>/dev/null; then exit 0; fi; \
	if [ -e $(VENV)/.unfinished ] || ! $(PY) -c '$(SUITABLE); import pip' >/dev/null 2>&1; then \
	  found=; \
	  for candidate in $(PYTHONS); do \
	    if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then found="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "No usable Python found: variations needs Python 3.11 or 3.12 with its modules venv and ensurepip; tried: $(PYTHONS)." >&2; \
	    echo "Install one (Debian, Ubuntu: apt install python3 python3-venv) or name one: make setup PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$("$$found" --version) ($$found)"; \
	  "$$found" -m venv --clear $(VENV); \
	fi; \
	rm -f $(VENV)/.installed; \
	touch $(VENV)/.unfinished; \
	echo "Installing variations and its dependencies into $(VENV); the first time, this takes some minutes"; \
	if [ "$$(uname)" = Linux ] && ! command -v nvidia-smi >/dev/null && ! $(PY) -m pip config list | grep -E 'index-url|find-links' >/dev/null; then \
	  echo "No GPU was found here. Unless you start jobs here that use GPUs, save gigabytes by installing torch's CPU build: stop this with Ctrl-C,"; \
	  echo "type export PIP_EXTRA_INDEX_URL=URL with the URL that https://pytorch.org/get-started/locally shows for Pip and CPU, and make again."; \
	fi; \
	$(NEW_PIP); \
	$(INSTALL) --no-compile; \
	echo "Importing them once, so that every command starts quickly"; \
	$(FIRST_IMPORT); \
	rm -f $(VENV)/.unfinished; \
	printf '%s\n' "$$wanted" >$(VENV)/.installed.new; \
	mv -f $(VENV)/.installed.new $(VENV)/.installed

docs: setup  ## build the documentation as a site in build/site
	@NO_MKDOCS_2_WARNING=true $(PY) -m mkdocs build --quiet --strict
	@echo "build/site/index.html"
	@echo "Its search needs a server: $(PY) -m http.server -d build/site"

demo: setup  ## train two models that differ in one thing, print their table, write its HTML report (some 5 minutes on 2 cores)
	@echo "Does a Transformer need sinusoidal positions, or may it learn them? Two models of 1M parameters are trained side by"
	@echo "side on 20,000 English-German sentence pairs. Ctrl-C is safe: the same command continues."
	@$(PY) src/train.py --multirun sweep=demo || { status=$$?; echo "To continue: make demo"; exit $$status; }
	@$(PY) src/table.py sweep=demo
	@echo
	@echo "How to read it: the second row changes one thing in the first, its base row. Δ base is the difference in test BLEU. The"
	@echo "95 % interval covers chance in the test sentences but not in the seed, so one seed settles nothing. In the paper, the two"
	@echo "differ by 0.1 BLEU (25.8 and 25.7 on WMT14; Table 3, row E). Curves and translations of both are in the report:"
	@$(PY) src/table.py sweep=demo format=html
	@echo
	@echo "Next, the same runs in the browser, and a question of your own (are four attention heads better than one?):"
	@echo "  source $(VENV)/bin/activate"
	@echo "  python src/dashboard.py sweep=demo"
	@echo "  python src/new.py heads one_head"

# A file's tests stay in one process (loadfile), so that a model that they share is trained only once; tests/conftest.py
# decides which file comes first.
# Python may keep compiled modules: pytest prepares each test file only once.
PYTEST = PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
test: setup  ## the test suite
	@$(PYTEST) -m 'not exhaustive' $(ARGS)

fast: setup  ## the quick tests: some 4,600 in about a minute on two cores
	@$(PYTEST) -m 'not slow and not exhaustive' $(ARGS)

torture: setup  ## all cases that the suite only samples; kill runs and preparation, cut the power, fail each write, simulate 10,000 sweeps (over an hour)
	@$(PY) tests/torture.py --kills 50
	@VARIATIONS_TEST_FORK=0 $(PYTEST) -m exhaustive $(ARGS)

bench: setup  ## time training and decoding, in turn with other tools (some 25 minutes on an otherwise idle machine)
	@test -e build/peers/.installed || { \
	  $(PY) -m venv --clear build/peers && \
	  build/peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/speed/requirements.txt && \
	  touch build/peers/.installed; }
	@$(PY) benchmarks/bench.py --peers build/peers/bin/python --output docs/results/bench.md $(ARGS)

results: setup  ## rebuild docs/claims.md, the tables of docs/results and the README's table from the run records
	@$(MAKE) --no-print-directory --jobs=2 --output-sync .claims .result_pages .readme_table .reports

.claims:
	@$(PY) src/claims.py out=docs/claims.md

.result_pages:
	@$(PY) tools/result_pages.py

.readme_table:
	@$(PY) tools/readme_table.py

.reports:
	@$(PY) benchmarks/parsing_report.py --output docs/results/parsing.md
	@$(PY) benchmarks/branch_weights.py --output docs/results/branch_weights.md
	@$(PY) benchmarks/learning_curves.py --output docs/results/learning_curves.md

lint: setup  ## style, formatting, types, and which package may import which
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports

format: setup  ## let ruff format the code and fix what it can
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

# In a separate environment without the current pins: the newest versions that pyproject.toml allows.
constraints: setup  ## update constraints.txt
	@rm -rf build/constraints
	@$(PY) -m venv build/constraints
	@build/constraints/bin/python -m pip install --no-input --disable-pip-version-check --quiet --editable '.[dev]'
	@{ \
	  echo "# The exact versions that variations was tested with: its dependencies and theirs, and those of the extra \`dev\`."; \
	  echo "# Written by \`make constraints\` (the newest versions that pyproject.toml allows); do not edit by hand."; \
	  echo "# torch's CUDA build brings packages of its own and demands its version of triton: none of them is pinned."; \
	  build/constraints/bin/python -m pip freeze --all --exclude-editable | grep -vE "^(pip|triton)==" | sed -E 's/^([^ ]+==[^+ ]+)\+[^ ]+$$/\1/' | LC_ALL=C sort -f; \
	} >build/constraints.txt
	@if grep -vE '^(#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.]+)$$' build/constraints.txt; then echo "The lines above are not plain pins; constraints.txt is unchanged." >&2; exit 1; fi
	@mv -f build/constraints.txt constraints.txt
	@rm -rf build/constraints

clean:  ## remove caches and build products; .venv and runs/ stay
	@rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

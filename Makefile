# The contract: `make help` lists what is supported.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STAMP := $(VENV)/.setup
PREFIX ?= $(HOME)/.local
JOBS ?= 2

# Nothing here runs under a key of the caller's: rehearsals need none, and a real run uses the
# ChatGPT login. Inherited git variables would lead git elsewhere.
unexport OPENAI_API_KEY CODEX_API_KEY GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR
unexport GIT_OBJECT_DIRECTORY
export PATH := $(BIN):$(PATH)

.PHONY: help setup demo run smoke test soak lint docs bench install clean

help: ## list what is supported
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## install everything needed into .venv

$(STAMP): pyproject.toml constraints.txt $(wildcard bin/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	@echo "setup: installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --root-user-action=ignore \
	    -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -q lib
	@touch $@

demo: setup ## watch the real Codex work under a scripted model, be reviewed, and pass
	@demo/run

run: setup ## run TASK=task.yaml with your own login: packet, dispatch, review, check
	@test -n "$(TASK)" || { echo "run: TASK: give one, as in: make run TASK=task.yaml" >&2; exit 2; }
	@packet-make --write -- "$(TASK)" | dispatch | review | receipt-check --table

smoke: setup ## prove the chain offline; STRICT=1 proves it on the real service too
	@STRICT=$(STRICT) python tests/smoke/smoke.py

test: setup lint ## run the checks that CI runs
	@pytest -n $(JOBS) -m "not soak" tests </dev/null

soak: setup ## run the large counts: races, floods, crashes
	@pytest -n $(JOBS) -m soak tests </dev/null

lint: setup ## ruff, mypy, import rules
	@ruff check . && ruff format --check -q .
	@mypy
	@lint-imports --no-cache >/dev/null || lint-imports --no-cache

docs: setup ## write the generated parts of docs/ anew
	@python docs/generate.py

bench: setup ## measure, as ratios in one run, and print JSON
	@python tests/bench/bench.py

install: ## install the commands for yourself under PREFIX (~/.local)
	@$(PYTHON) -m venv "$(PREFIX)/lib/waybill"
	@"$(PREFIX)/lib/waybill/bin/python" -m pip install -q --disable-pip-version-check \
	    --root-user-action=ignore -c constraints.txt .
	@mkdir -p "$(PREFIX)/bin"
	@for command in bin/*; do \
	    ln -sf "../lib/waybill/bin/$${command##*/}" "$(PREFIX)/bin/$${command##*/}"; done
	@echo "install: commands are in $(PREFIX)/bin"

clean: ## remove what was built, but not .venv
	@rm -rf build dist lib/*.egg-info .mypy_cache .ruff_cache .hypothesis .pytest_cache
	@find lib tests -name __pycache__ -type d -prune -exec rm -rf {} +

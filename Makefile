# Everything a person does with this project, from a bare clone. `make help` lists it.
SHELL := /bin/bash
BIN := .venv/bin
ARGS ?=
MINUTES ?= 15
SEED ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup up down demo test test-full check bench soak constraints hooks

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv, install everything, fetch the JVM parts (quick when done)
	@firn_local/setup.sh

up: setup ## Start the embedded stack
	@$(BIN)/firn up

down: ## Stop the embedded stack; its data stays
	@if [ -x $(BIN)/firn ]; then $(BIN)/firn down; else echo "Nothing runs: not set up yet."; fi

demo: setup ## The whole pipeline from nothing: orders from Kafka to typed tables
	@$(BIN)/firn up
	@$(BIN)/firn pipeline $(ARGS)
	@echo "The stack is still up. Stop it: make down" >&2

test: setup ## All quick tests, on a stack of their own, in two processes (ARGS="-k name" chooses; ARGS="-n 0": in one)
	@$(BIN)/python -m pytest -n 2 -m "not full" $(ARGS)

test-full: setup ## All tests, with the long fault matrices
	@$(BIN)/python -m pytest $(ARGS)

check: setup ## ruff, mypy, import contracts, sqlfluff, terraform fmt
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/sqlfluff lint --disable-progress-bar dbt/models
	@if [ -n "$$(find infra -name '*.tf' -print -quit 2> /dev/null)" ] && command -v terraform > /dev/null; then \
		terraform fmt -check -recursive infra; fi

bench: setup ## Measure the sink, warm and cold, beside its yardsticks (starts the stack; about 10 minutes)
	@$(BIN)/python -m benchmarks.sink $(ARGS)

soak: setup ## Chaos: a real sink under faults, then duplicates and losses in SQL (MINUTES=15 SEED=1)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(ARGS)

constraints: setup ## Resolve constraints.txt anew from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --no-annotate --no-emit-index-url \
		--custom-compile-command "make constraints" -o constraints.txt

hooks: ## Let git run `make check` before each commit
	@git config core.hooksPath .githooks

# Everything you do with this project, from a fresh clone. `make help` lists the targets.
SHELL := /bin/bash
BIN := .venv/bin
ARGS ?=
MINUTES ?= 15
SEED ?= 1
METHOD ?= SNOWPIPE

.DEFAULT_GOAL := help
.PHONY: help setup up down demo test test-full check bench soak constraints hooks

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create .venv, install everything, download the JVM parts (quick if already done)
	@firn_local/setup.sh

up: setup ## Start the embedded stack
	@$(BIN)/firn up

down: ## Stop the embedded stack and keep its data
	@if [ -x $(BIN)/firn ]; then $(BIN)/firn down; else echo "Nothing to stop: run make setup first."; fi

demo: setup ## Run the whole pipeline: orders from Kafka to typed tables
	@$(BIN)/firn up
	@$(BIN)/firn deploy > /dev/null
	@$(BIN)/firn pipeline $(ARGS)
	@echo "The stack is still running. Stop it with: make down" >&2

test: setup ## Run all quick tests on a stack of their own, in three processes (ARGS="-k name" selects; ARGS="-n 0": one process)
	@$(BIN)/python -m pytest -n 3 -m "not full" $(ARGS)

test-full: setup ## Run all tests, including the long fault matrices
	@$(BIN)/python -m pytest $(ARGS)

check: setup ## Run ruff, mypy, import contracts, sqlfluff, terraform fmt
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/sqlfluff lint --disable-progress-bar dbt/models
	@if [ -n "$$(find infra -name '*.tf' -print -quit 2> /dev/null)" ] && command -v terraform > /dev/null; then \
		terraform fmt -check -recursive infra; fi

bench: setup ## Measure the sink, warm and cold, beside reference loops (starts the stack; about 10 minutes)
	@$(BIN)/python -m benchmarks.sink $(ARGS)

soak: setup ## Run a real sink under faults, then check for duplicates and losses in SQL (MINUTES=15 SEED=1 METHOD=SNOWPIPE)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) --method $(METHOD) $(ARGS)

constraints: setup ## Resolve constraints.txt again from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --no-annotate --no-emit-index-url \
		--custom-compile-command "make constraints" -o constraints.txt

hooks: ## Install git hooks that run `make check` before each commit
	@git config core.hooksPath .githooks

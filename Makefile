# Every target sets up what it needs in $(VENV). `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV ?= .venv
export PYTHON
LOCK := requirements-dev.lock
BIN := $(VENV)/bin
# Constraints, not requirements: what is installed follows from pyproject.toml, its version from the lock.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK)
PACKAGES := fleetscope ingest processors simulator views grafana

DEMO_ARGS ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
ACCURACY_ARGS ?=
FUZZ_SECONDS ?= 600

.PHONY: help setup demo test check lint types arch bench accuracy fuzz env up down clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1: \2/p' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.runtime ## install what the demo needs into .venv
demo: $(VENV)/.runtime ## simulated fleet and this host through the whole pipeline (DEMO_ARGS="--seconds 20")
	@$(BIN)/fleetscope demo $(DEMO_ARGS)

test: $(VENV)/.dev ## all tests (PYTEST_ARGS="tests/unit -k codec")
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: ## what CI runs: lint, types, architecture, tests
	@$(MAKE) lint
	@$(MAKE) types
	@$(MAKE) arch
	@$(MAKE) test

lint: $(VENV)/.dev ## ruff
	@$(BIN)/ruff check .

types: $(VENV)/.dev ## mypy --strict
	@$(BIN)/mypy

arch: $(VENV)/.dev ## who may import whom (import-linter)
	@$(BIN)/lint-imports

bench: $(VENV)/.dev ## measure; writes bench/results/latest.json
	@$(BIN)/python bench/run.py $(BENCH_ARGS)

accuracy: $(VENV)/.dev ## grade every scenario against its ground truth; writes docs/accuracy.md (ACCURACY_ARGS="--seeds 7")
	@$(BIN)/python -m bench.accuracy $(ACCURACY_ARGS)

fuzz: $(VENV)/.dev ## damaged messages against the codec for FUZZ_SECONDS
	@$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

env: ## write .env with random passwords, if there is none
	@test -e .env && echo ".env is there already" || bash deploy/make-env.sh .env.example .env

up: ## Kafka, ClickHouse, Grafana and the services in containers (COMPOSE_PROFILES=agent)
	@docker compose version >/dev/null 2>&1 || { echo "make up needs Docker with the compose plugin" >&2; exit 2; }
	@test -e .env || { echo "no .env: run 'make env', or copy .env.example to .env and fill it in" >&2; exit 2; }
	docker compose up --build --detach

down: ## stop the containers; their volumes stay
	@docker compose version >/dev/null 2>&1 || { echo "make down needs Docker with the compose plugin" >&2; exit 2; }
	docker compose --profile '*' down

clean: ## remove caches and .venv; data folders stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find $(PACKAGES) tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@bash deploy/make-venv.sh $(VENV)

$(VENV)/.runtime: pyproject.toml $(LOCK) | $(BIN)/python
	@echo "installing into $(VENV)" >&2
	@$(PIP_INSTALL) --editable '.[embedded]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(LOCK) | $(BIN)/python
	@echo "installing the development tools into $(VENV)" >&2
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/.runtime $@

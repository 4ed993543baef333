# Onefold: `make demo` shows it, `make test` proves it. Both install what is missing on the machine
# (with apt-get as root or through sudo; otherwise they say what to install) and leave nothing in
# this folder: builds, the tests' Python and Kafka live in ~/.cache/onefold.

SHELL := /bin/bash
.DEFAULT_GOAL := help

cache := $(or $(ONEFOLD_CACHE),$(HOME)/.cache/onefold)
export CARGO_TARGET_DIR ?= $(cache)/target
onefold := $(CARGO_TARGET_DIR)/debug/onefold

.PHONY: help
help: ## Lists these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 16

.PHONY: demo
demo: build ## Kills a stream at every step of its protocol and counts every event at the end
	$(onefold) demo

.PHONY: build
build: setup-build ## Builds the onefold command
	cargo build --locked --package onefold-cli --features crash-points

.PHONY: test
test: setup ## Every check and every test, as CI runs them
	cargo xtask ci

.PHONY: quick
quick: setup-build ## The checks and tests that need neither Python nor Java
	cargo xtask ci --quick

.PHONY: e2e
e2e: setup ## The end-to-end tests alone; ARGS='-k golden' picks some
	cargo xtask e2e $(ARGS)

.PHONY: bench
bench: setup-build ## Throughput and cost of a batch, beside plain DataFusion
	cargo xtask bench files

.PHONY: bench-state
bench-state: setup ## Stateful queries, beside PySpark on the same input
	cargo xtask bench state

.PHONY: bench-connect
bench-connect: setup ## What programs of PySpark wait for, against onefold serve
	cargo xtask bench connect

.PHONY: bench-kafka
bench-kafka: setup ## Kafka's source, a pipeline from Kafka to Kafka beside PySpark, and its latency
	cargo xtask bench kafka

.PHONY: bench-databases
bench-databases: setup ## Into PostgreSQL, beside its own COPY and beside PySpark
	cargo xtask bench databases

.PHONY: setup
setup: setup-build ## Installs all that building and testing need
	@scripts/setup-test.sh

.PHONY: setup-build
setup-build: ## Installs what building needs
	@scripts/setup-build.sh

.PHONY: clean
clean: ## Removes builds, the tests' Python and Kafka from ~/.cache/onefold
	rm -rf -- "$(cache)"/target "$(cache)"/venv-* "$(cache)"/kafka-*

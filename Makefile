# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash -o errexit -o nounset -o pipefail -c
.DEFAULT_GOAL := help

BIN     := _output/bin
VERSION ?= v0.1.0
LDFLAGS := -s -w -X inferencecache.io/inferencecache/pkg/version.version=$(VERSION)

# Flags for our own processes on the local cluster, for example APISERVER_ARGS="-v=4".
APISERVER_ARGS  ?=
CONTROLLER_ARGS ?=

.PHONY: help
help: ## Print this help.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Bring up a cluster, apply the samples and show them.
	@$(MAKE) up APISERVER_ARGS='--kvevent-subscriber-image=registry.example.com/kvevent-subscriber:v0.1.0 $(APISERVER_ARGS)'
	@hack/demo.sh

.PHONY: build
build: ## Build our binaries into _output/bin.
	@mkdir -p $(BIN)
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/inferencecache-apiserver ./cmd/apiserver
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/inferencecache-controller ./cmd/controller

.PHONY: cluster-programs
cluster-programs: ## Build the local cluster's programs (about 10 minutes when the Go build cache is cold).
	@mkdir -p $(BIN)
	cd hack/cluster && go build -o ../../$(BIN)/cluster .
	$(BIN)/cluster build

.PHONY: up
up: build cluster-programs ## Start a Kubernetes control plane with our processes and leave it running.
	@$(BIN)/cluster up --apiserver-bin $(BIN)/inferencecache-apiserver --apiserver-args '$(APISERVER_ARGS)' \
		--controller-bin $(BIN)/inferencecache-controller --controller-args '$(CONTROLLER_ARGS)'

.PHONY: down
down: ## Stop what 'make up' started.
	@if [ -x $(BIN)/cluster ]; then $(BIN)/cluster down; fi

.PHONY: test
test: verify build cluster-programs ## Run all checks and tests.
	hack/test.sh

.PHONY: soak
soak: build cluster-programs ## Run the long forms of the durability tests and fuzz every fuzz target.
	hack/soak.sh

.PHONY: bench
bench: build cluster-programs ## Run the benchmarks, those on a real control plane included.
	go test -run '^$$' -bench . -benchmem ./pkg/... ./test/wiring

.PHONY: generate
generate: ## Regenerate all generated code.
	hack/update-codegen.sh

.PHONY: verify
verify: ## Check that the tree is in order: generated code, formatting, vet, lint, modules.
	hack/verify.sh

.PHONY: lint
lint: ## Run the linters alone.
	hack/lint.sh

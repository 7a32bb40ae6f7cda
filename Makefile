# Taskbus: `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CONFIG  ?= config/agents.yaml
TASKS   ?= examples/tasks.jsonl
# How long each fuzz target runs.
FUZZTIME ?= 20s

# The broker's URL holds a password: it goes to the program by its environment
# and is never part of a line that make prints.
WITH_BROKER = url=$$(scripts/find-broker.sh); export RABBITMQ_URL="$$url"

# How long random faults strike, and which (empty: new ones, whose seed is printed).
SOAK ?= 10m
SEED ?=

.PHONY: help setup build demo run test faults soak bench fuzz broker broker-stop lint clean

help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: build ## build the program and see that there is a broker
	@scripts/find-broker.sh >/dev/null

build: ## build bin/taskbus
	@scripts/need-go.sh
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/taskbus ./cmd/taskbus

demo: build ## run the main job end to end: broker, coordinator, agents, tasks, a summary
	@$(WITH_BROKER); exec bin/taskbus demo --config "$(CONFIG)" "$(TASKS)"

run: build ## run the coordinator in the foreground (Ctrl-C ends it)
	@$(WITH_BROKER); exec bin/taskbus serve --config "$(CONFIG)"

test: ## run every check on a private broker: format, vet, staticcheck, all tests, most with the race detector
	@scripts/test.sh

faults: ## run the whole matrix of faults on a private broker (about 10 minutes)
	@scripts/faults.sh

soak: ## let random faults strike for SOAK (default 10m); SEED repeats one
	@scripts/soak.sh "$(SOAK)" "$(SEED)"

bench: build ## measure throughput and latency beside a bare relay; table and .run/bench.json
	@scripts/bench.sh

fuzz: ## fuzz every target for FUZZTIME each (default 20s)
	@scripts/fuzz.sh "$(FUZZTIME)"

broker: ## start the private broker in .run/broker and say how to reach it
	@scripts/find-broker.sh --ensure-rabbitmq
	@scripts/broker.sh start
	@scripts/broker.sh status
	@echo 'its URL, password included: scripts/broker.sh url'

broker-stop: ## stop the broker that demo, run or broker started
	@scripts/find-broker.sh --stop

lint: ## gofmt, go vet and staticcheck only
	@scripts/need-go.sh
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted (run: gofmt -w .):" >&2; echo "$$files" >&2; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

clean: broker-stop ## stop the private broker and remove everything that was built or stored
	@for dir in .run/*-broker; do [ ! -d "$$dir" ] || scripts/broker.sh stop --dir "$$dir"; done
	rm -rf bin .run

# Taskbus: `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CONFIG  ?= config/agents.yaml
TASKS   ?= examples/tasks.jsonl
# Without paths in what is compiled, another checkout, and every target here, finds it compiled already.
# (The release that go.mod asks for is not fetched here, where nothing would be said of it.)
export GOFLAGS := $(shell GOTOOLCHAIN=local go env GOFLAGS 2>/dev/null) -trimpath
# How long each fuzz target runs.
FUZZTIME ?= 20s

# The broker's URL holds a password: it goes to the program by its environment
# and is never part of a line that make prints.
WITH_BROKER = url=$$(scripts/find-broker.sh); export RABBITMQ_URL="$$url"

# How long random faults strike, and which (empty: new ones, whose seed is printed).
SOAK ?= 10m
SEED ?=

# For `make flakes`: the packages, how often, and since which commit (see scripts/flakes.sh).
PKG  ?=
RUNS ?=
BASE ?=

.PHONY: help ready setup build demo clean-demo run check test flakes faults soak bench fuzz broker broker-stop lint clean

help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

# What can fail or has to be installed is looked for before minutes go into building.
ready:
	@scripts/need-go.sh
	@scripts/find-broker.sh --look

setup: ready build ## build the program and see that there is a broker
	@scripts/find-broker.sh >/dev/null

build: ## build bin/taskbus
	@scripts/need-go.sh
	@mkdir -p bin
	@[ -e bin/taskbus ] || echo 'building bin/taskbus (the first time on a machine everything is compiled: about two minutes on 2 cores)'
	CGO_ENABLED=0 go build -ldflags "-X main.version=$(VERSION)" -o bin/taskbus ./cmd/taskbus

demo: ready build ## run the main job end to end: broker, coordinator, agents, tasks, a summary
	@$(WITH_BROKER); exec bin/taskbus demo --config "$(CONFIG)" "$(TASKS)"

clean-demo: ready build ## delete what the demo, or anything of Taskbus, has left on the broker; asks first
	@$(WITH_BROKER); exec bin/taskbus topology delete --config "$(CONFIG)"

run: ready build ## run the coordinator in the foreground (Ctrl-C ends it)
	@$(WITH_BROKER); exec bin/taskbus serve --config "$(CONFIG)"

check: lint ## format, vet, staticcheck and every test that needs no server (about a minute)
	@echo '== go test: what needs a broker, PostgreSQL, nginx, promtool or pika is left to make test'
	@GOGC=400 TASKBUS_TEST_SERVERS=none go test -vet=off -p 4 ./... # some packages wait more than they work

test: ## run every check on a private broker: format, vet, staticcheck, all tests, many with the race detector
	@scripts/test.sh

flakes: ## run the tests of the packages that a change touches many times under load (PKG, RUNS, BASE)
	@scripts/flakes.sh --base "$(BASE)" --runs "$(RUNS)" $(PKG)

faults: ## run the whole matrix of faults on a private broker (about 6 minutes)
	@scripts/faults.sh

soak: ## let random faults strike for SOAK (default 10m); SEED repeats one
	@scripts/need-go.sh
	@scripts/ensure.sh test-tools
	@# The time limit is the soak's own: it ends by itself, whatever it finds.
	@exec go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./tests/faults "-faults.soak=$(SOAK)" $(if $(SEED),"-faults.seed=$(SEED)")

bench: build ## measure throughput and latency beside a bare relay
	@scripts/bench.sh

fuzz: ## fuzz every target for FUZZTIME each (default 20s)
	@scripts/need-go.sh
	@# What a target finds is kept by Go in its package's testdata/fuzz.
	@grep -roHE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func /:/' | while IFS=: read -r file target; do \
		echo "== $$target in $$(dirname "$$file") for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime "$(FUZZTIME)" "$$(dirname "$$file")" </dev/null; \
	done

broker: ## start the private broker in .run/broker and say how to reach it
	@scripts/ensure.sh rabbitmq
	@scripts/broker.sh start
	@scripts/broker.sh status
	@echo 'its URL, password included: scripts/broker.sh url'

broker-stop: ## stop the broker that demo, run or broker started
	@scripts/find-broker.sh --stop

lint: ## gofmt, go vet and staticcheck only
	@scripts/need-go.sh
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted (run: gofmt -w .):" >&2; echo "$$files" >&2; exit 1; fi
	@echo '== go vet'; go vet ./...
	@echo '== staticcheck'; go tool staticcheck ./...

clean: broker-stop ## stop the private broker and remove everything that was built or stored
	@for dir in .run/*-broker; do [ ! -d "$$dir" ] || scripts/broker.sh stop --dir "$$dir"; done
	rm -rf bin .run

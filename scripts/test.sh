#!/usr/bin/env bash
# All checks of the project, on a private broker that is started for them and
# ended with them, also after a failure or Ctrl-C. `make test` runs this;
# arguments go to `go test` in place of ./... (e.g. scripts/test.sh ./config/...).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
broker_dir=$PWD/.run/test-broker
begun=$SECONDS

# Packages that start no goroutine, nor do what they import of this module, nor their
# tests: there is nothing for the race detector to see, and it makes them ten times slower.
# tests/race_guard_test.go fails should one of these start a goroutine; a test that does it
# has AnotherGoroutine in its name, and runs with the race detector as well. Whatever is not
# listed has the race detector.
one_goroutine=(
	agent/balance
	config/formula
	coordinator
	coordinator/auction
	coordinator/breaker
	coordinator/capacity
	coordinator/engine
	coordinator/fairshare
	coordinator/journal
	coordinator/learning
	coordinator/pull
	coordinator/replay
	coordinator/simulator
	coordinator/simulator/chart
	coordinator/simulator/pulling
	coordinator/simulator/sharing
	coordinator/strategy
	messages
	schemas
)
# Long tests in which nothing is concurrent, of packages in which something is.
one_goroutine_tests=(
	config:TestQuotaNodesAreBounded
	config:TestQuotasSchemaBoundsAreTheLoaders
	config:TestQuotasSchemaLimitsAreTheLoaders
	cmd/taskbus:TestSimulatePulling
	cmd/taskbus:TestSimulateSharing
	tests:TestChartsAreWhatTheirCommandsDraw
	tests/bench:TestPastIsWhatALeaderWouldHaveWritten
	tests/bench:TestWindowMemory
)

step() { printf '== %s (%d s)\n' "$*" "$((SECONDS - begun))"; }

finish() {
	local code=$?
	trap - EXIT
	# Ctrl-C reaches the whole group: the clean-up must not be cut short by a second one.
	trap '' INT TERM
	scripts/broker.sh stop --dir "$broker_dir" || true
	[ "$code" -eq 0 ] && step "all tests passed" || step "FAILED"
	exit "$code"
}

main() {
	scripts/need-go.sh
	mkdir -p .run
	exec 8>.run/test.lock
	flock -n 8 || { echo "another make test runs in this checkout: wait for it" >&2; exit 1; }
	step "gofmt"
	local unformatted
	unformatted=$(gofmt -l .)
	if [ -n "$unformatted" ]; then
		printf 'not formatted (run: gofmt -w .):\n%s\n' "$unformatted" >&2
		exit 1
	fi
	step "go vet"
	go vet ./...
	step "staticcheck"
	go tool staticcheck ./...

	scripts/find-broker.sh --ensure-test-tools
	trap finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# A node that an earlier run left behind when it was killed may be anything.
	[ ! -d "$broker_dir" ] || scripts/broker.sh stop --dir "$broker_dir"
	rm -rf "$broker_dir"
	step "private broker"
	scripts/broker.sh start --dir "$broker_dir" --until-gone $$ 8>&-
	eval "$(scripts/broker.sh env --dir "$broker_dir")"

	if [ $# -gt 0 ]; then
		step "go test -race $*"
		go test -race -p 2 -timeout 6m "$@"
		return
	fi
	# Two packages at a time: on two cores more would only wait for each other,
	# and the broker wants its share. Those that run whole programs against the clock
	# have the machine to themselves.
	# go vet has seen everything above already.
	local failed=false others alone packages
	alone="^($(printf '%s\n' "${one_goroutine_tests[@]#*:}" | paste -sd '|'))\$"
	packages=$(printf './%s\n' "${one_goroutine_tests[@]%:*}" | sort -u)
	step "go test, what starts no goroutine"
	go test -vet=off -p 2 -timeout 6m "${one_goroutine[@]/#/./}" || failed=true
	# shellcheck disable=SC2086 # names of packages have no blanks
	go test -vet=off -p 2 -timeout 6m -run "$alone" $packages || failed=true
	step "go test -race, all other packages but tests"
	others=$(go list ./... | grep -v '^taskbus/tests' | grep -vxF "$(printf 'taskbus/%s\n' "${one_goroutine[@]}")")
	# shellcheck disable=SC2086
	go test -race -vet=off -p 2 -timeout 6m -skip "$alone" $others || failed=true
	go test -race -vet=off -timeout 6m -run AnotherGoroutine ./coordinator/engine || failed=true
	step "go test -race ./tests/..., one package at a time"
	go test -race -vet=off -p 1 -timeout 8m -skip "$alone" ./tests/... || failed=true
	! $failed
}

main "$@"; exit

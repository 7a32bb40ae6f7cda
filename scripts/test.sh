#!/usr/bin/env bash
# All checks of the project, on a private broker that is started for them and
# ended with them, also after a failure or Ctrl-C. `make test` runs this;
# arguments go to `go test` in place of ./... (e.g. scripts/test.sh ./config/...).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/own-broker.sh
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
	coordinator/agentset
	coordinator/auction
	coordinator/breaker
	coordinator/capacity
	coordinator/credential
	coordinator/criteria
	coordinator/engine
	coordinator/engine/internal/audit
	coordinator/engine/internal/choice
	coordinator/engine/internal/claims
	coordinator/engine/internal/dedupe
	coordinator/engine/internal/ejection
	coordinator/engine/internal/ends
	coordinator/engine/internal/fleet
	coordinator/engine/internal/isolation
	coordinator/engine/internal/market
	coordinator/engine/internal/questions
	coordinator/engine/internal/queue
	coordinator/engine/internal/state
	coordinator/engine/internal/unresolved
	coordinator/fairshare
	coordinator/fairshare/arith
	coordinator/fairshare/billing
	coordinator/fairshare/calendar
	coordinator/fairshare/estimates
	coordinator/fairshare/fairqueue
	coordinator/fairshare/health
	coordinator/fairshare/rates
	coordinator/fairshare/seats
	coordinator/gateway
	coordinator/hash
	coordinator/heard
	coordinator/invariant
	coordinator/journal
	coordinator/learning
	coordinator/llmcalls
	coordinator/nearest
	coordinator/pull
	coordinator/quotacontrol
	coordinator/replay
	coordinator/simulator
	coordinator/simulator/chart
	coordinator/simulator/pulling
	coordinator/simulator/sharing
	coordinator/strategy
	coordinator/usage
	messages
	messages/internal/jsontext
	schemas
	tests/gateways
	tests/support/openapi
)
# Long tests in which nothing is concurrent, of packages in which something is.
one_goroutine_tests=(
	config/quotas:TestQuotaNodesAreBounded
	config/quotas:TestQuotasSchemaBoundsAreTheLoaders
	config/quotas:TestQuotasSchemaLimitsAreTheLoaders
	cmd/taskbus/internal/sim:TestSimulatePulling
	cmd/taskbus/internal/sim:TestSimulateSharing
	tests:TestChartsAreWhatTheirCommandsDraw
)
# These wait for a broker, most of the time: they begin first.
waiting=(
	tests/clients
	tests/history
	coordinator/bus/amqpbus
	tests/support/brokertest
	agent
	coordinator/service
)
# These run whole programs against the clock.
against_the_clock=(
	tests/faults
	tests/integration
	tests/failover
)

step() { printf '== %s (%d s)\n' "$*" "$((SECONDS - begun))"; }

last_words() { if [ "$1" -eq 0 ]; then step "all tests passed"; else step "FAILED"; fi; }

main() {
	scripts/need-go.sh
	only_one test
	[ $# -gt 0 ] || echo "== every check and test: 10 to 25 minutes on 2 cores, the longest the first time on a machine, when everything is compiled"
	# What is missing is installed, or told, before minutes go into compiling.
	scripts/ensure.sh test-tools
	# Without paths in what is compiled, another checkout finds it compiled already.
	GOFLAGS="$(go env GOFLAGS) -trimpath"
	export GOFLAGS
	# What has ended does not wait a full second for one more race.
	export GORACE="${GORACE:-} atexit_sleep_ms=100"
	step "gofmt"
	local unformatted
	unformatted=$(gofmt -l .)
	if [ -n "$unformatted" ]; then
		printf 'not formatted (run: gofmt -w .):\n%s\n' "$unformatted" >&2
		exit 1
	fi
	step "go vet (the first time on a machine everything is compiled for it: about two minutes)"
	go vet ./...
	step "staticcheck (the first time about a minute)"
	go tool staticcheck ./...

	step "private broker"
	own_broker test
	eval "$(scripts/broker.sh env --dir "$broker_dir")"

	if [ $# -gt 0 ]; then
		step "go test -race $*"
		go test -race -p 2 -timeout 6m "$@"
		return
	fi
	run_all
}

# run_all runs every test once. go vet has seen everything before.
run_all() {
	local failed=false alone packages others
	alone="^($(printf '%s\n' "${one_goroutine_tests[@]#*:}" | paste -sd '|'))\$"
	packages=$(printf './%s\n' "${one_goroutine_tests[@]%:*}" | sort -u)
	others=$(go list ./... | grep -vxF "$(printf 'taskbus/%s\n' "${one_goroutine[@]}" "${waiting[@]}" "${against_the_clock[@]}")")
	# shellcheck disable=SC2086 # names of packages have no blanks
	{
		step "go test, what starts no goroutine (half a minute)"
		# A collector that runs less often: a quarter of the time for some hundred megabytes.
		GOGC=400 go test -vet=off -p 2 -timeout 6m "${one_goroutine[@]/#/./}" || failed=true
		go test -vet=off -p 2 -timeout 6m -run "$alone" $packages || failed=true
		# Four packages at a time on two cores: most of them wait for the broker.
		step "go test -race, all others but those against the clock (two minutes; the first time four, two of them in silence while it compiles)"
		go test -race -vet=off -p 4 -timeout 12m -skip "$alone" "${waiting[@]/#/./}" $others || failed=true
		go test -race -vet=off -timeout 6m -run AnotherGoroutine ./coordinator/engine/internal/dedupe || failed=true
	}
	# Without the race detector: it takes several times the processor's time, and what is held to
	# a time is late. One package at a time for the same reason.
	# With it: scripts/test.sh ./tests/integration.
	step "go test, whole programs against the clock, one package at a time (five to ten minutes)"
	go test -vet=off -p 1 -timeout 12m "${against_the_clock[@]/#/./}" || failed=true
	! $failed
}

main "$@"; exit

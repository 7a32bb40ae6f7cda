#!/usr/bin/env bash
# Measures Taskbus beside a bare relay on a private broker of its own, without the management plugin: its statistics
# would be measured too. `make bench` runs this. The samples go to .run/bench.txt (for benchstat). A missed target is no
# failure; a task that was lost is.
#
#   --only PART,...   these parts alone: what comes before the slash in tests/bench/scenarios_test.go, or engine
#   --quick           a look in some minutes
#   --rounds N, --tasks N, --profile DIR      see the flags in tests/bench/driver_test.go
#   --against COMMIT  that commit's program and engine in turn with this tree's; benchstat prints how they differ
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/own-broker.sh

benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# Benchmarks beside their packages: part, package, benchmark, time of each, rounds.
others='
engine ./coordinator/engine    ^BenchmarkApply$/^agents=(100|1000|100000)$            40000x 3
engine ./coordinator/engine    ^BenchmarkChoose$/^(load_balanced|reward_rate)$        500ms  3
engine ./coordinator/simulator ^BenchmarkPlay$/^(herding|ten-thousand)$/^reward_rate$ 500ms  1
engine ./coordinator/engine    ^BenchmarkAuctions$/^all$                              500ms  3
engine ./coordinator/engine    ^BenchmarkWaitingClaims$                               500ms  3
engine ./coordinator/httpapi   ^BenchmarkReserve$                                     500ms  3
quotas ./coordinator/engine    ^BenchmarkQuotas$                                      50000x 3
quotas ./coordinator/fairshare ^BenchmarkCheck$                                       500ms  3
'

# of_others TREE COUNT: those of the wanted part in a source tree; COUNT, if not empty, is the rounds.
of_others() {
	local part package bench time count
	while read -r part package bench time count; do
		[ -n "$part" ] || continue
		[[ -z $only || "|$only|" == *"|$part|"* ]] || continue
		[ -z "$quick" ] || { count=1; time=${time/50000x/5000x}; }
		(cd "$1" && go test -run '^$' -bench "$bench" -benchmem -benchtime "$time" -count "${2:-$count}" "$package") ||
			return 1
	done <<<"$others"
}

# on_broker ARGS...: the scenarios of the wanted part.
on_broker() {
	[ "$only" != engine ] || return 0
	(cd tests/bench && ../../.run/bench.test -test.run '^$' -test.bench "^BenchmarkBroker\$/^(${only:-.*})\$" \
		-test.benchtime 1x -test.timeout 0 $quick "${args[@]}" "$@")
}

# against COMMIT: both programs take turns in each scenario, and the packages' benchmarks in as many rounds, or six.
against() {
	local tree=$PWD/.run/against out=.run/against.txt which
	git worktree remove --force "$tree" 2>/dev/null || true
	git worktree add --quiet --detach "$tree" "$1"
	(cd "$tree" && go build -o "$OLDPWD/.run/old" ./cmd/taskbus)
	go build -o .run/new ./cmd/taskbus
	on_broker -program "$PWD/.run/old,$PWD/.run/new" | tee "$out"
	for _ in $(seq "$rounds"); do
		for which in old new; do
			of_others "$([ $which = old ] && echo "$tree" || echo .)" 1 |
				sed -E "s|^(Benchmark[^[:space:]]*)-([0-9]+)|\1/program=$which-\2|" | tee -a "$out"
		done
	done
	git worktree remove --force "$tree"
	sed -E -i 's/^(Benchmark[^[:space:]]*)#[0-9]+(-[0-9]+)?/\1\2/' "$out"
	go run "$benchstat" -col '/program@(old new)' "$out"
}

main() {
	only='' quick='' args=() base='' rounds=6
	while [ $# -gt 0 ]; do
		case $1 in
		--only) only=${2//,/|}; shift ;;
		--quick) quick=-quick ;;
		--rounds | --tasks)
			[ "$1" = --tasks ] || rounds=$2
			args+=("-${1#--}" "$2")
			shift
			;;
		--profile) mkdir -p "$2"; args+=(-profile "$(realpath "$2")"); shift ;;
		--against) base=$2; shift ;;
		*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' scripts/bench.sh; [ "$1" = -h ] || [ "$1" = --help ]; exit ;;
		esac
		shift
	done
	parts="engine $(sed -nE 's/.*[{(](name: )?"([a-z]+)\/.*/\2/p' tests/bench/scenarios_test.go | uniq | xargs)"
	local part
	for part in ${only//|/ }; do
		[[ " $parts " == *" $part "* ]] || { echo "bench: no part $part; there are: $parts" >&2; exit 2; }
	done
	only_one bench
	scripts/ensure.sh rabbitmq
	own_broker bench --no-management
	TASKBUS_BENCH_BROKER=$(scripts/broker.sh url --dir "$broker_dir")
	export TASKBUS_BENCH_BROKER
	go test -c -o .run/bench.test ./tests/bench
	if [ -n "$base" ]; then against "$base"; exit; fi
	local status=0
	{ on_broker -program "$PWD/bin/taskbus" && of_others . ''; } 2>&1 | tee .run/bench.txt || status=1
	go run ./tests/bench <.run/bench.txt
	exit "$status"
}

main "$@"; exit

#!/usr/bin/env bash
# Measures Taskbus beside a bare relay on a private broker of their own, without
# the management plugin: its statistics would be measured too. `make bench` runs
# this; arguments go to the measuring program (see: go run ./tests/bench -h).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
broker_dir=$PWD/.run/bench-broker

finish() {
	local code=$?
	trap - EXIT
	trap '' INT TERM
	scripts/broker.sh stop --dir "$broker_dir" || true
	exit "$code"
}

main() {
	mkdir -p .run
	exec 8>.run/bench.lock
	flock -n 8 || { echo "another make bench runs in this checkout: wait for it" >&2; exit 1; }
	scripts/find-broker.sh --ensure-rabbitmq
	trap finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	[ ! -d "$broker_dir" ] || scripts/broker.sh stop --dir "$broker_dir"
	rm -rf "$broker_dir"
	scripts/broker.sh start --dir "$broker_dir" --no-management --until-gone $$ 8>&-
	RABBITMQ_URL=$(scripts/broker.sh url --dir "$broker_dir")
	export RABBITMQ_URL
	go run ./tests/bench --program bin/taskbus --json .run/bench.json "$@"
}

main "$@"; exit

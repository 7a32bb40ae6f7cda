#!/usr/bin/env bash
# Measures Taskbus beside a bare relay on a private broker of their own, without
# the management plugin: its statistics would be measured too. `make bench` runs
# this; arguments go to the measuring program (see: go run ./tests/bench -h).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/own-broker.sh

main() {
	only_one bench
	scripts/ensure.sh rabbitmq
	scripts/ensure.sh redis
	own_broker bench --no-management
	RABBITMQ_URL=$(scripts/broker.sh url --dir "$broker_dir")
	export RABBITMQ_URL
	go run ./tests/bench --program bin/taskbus --json .run/bench.json "$@"
}

main "$@"; exit

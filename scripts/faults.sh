#!/usr/bin/env bash
# The whole matrix of faults (tests/faults) on a private broker that is started for
# it and ended with it, also after a failure or Ctrl-C. `make faults` runs this;
# arguments go to `go test`, e.g.
#
#   scripts/faults.sh -run 'TestMatrix$/SIGKILL' -v
#   scripts/faults.sh -faults.seed=7
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
broker_dir=$PWD/.run/faults-broker

finish() {
	local code=$?
	trap - EXIT
	# Ctrl-C reaches the whole group: the clean-up must not be cut short by a second one.
	trap '' INT TERM
	scripts/broker.sh stop --dir "$broker_dir" || true
	exit "$code"
}

main() {
	scripts/need-go.sh
	mkdir -p .run
	exec 8>.run/faults.lock
	flock -n 8 || { echo "another make faults runs in this checkout: wait for it" >&2; exit 1; }
	scripts/find-broker.sh --ensure-test-tools
	trap finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# A node that an earlier run left behind when it was killed may be anything.
	[ ! -d "$broker_dir" ] || scripts/broker.sh stop --dir "$broker_dir"
	rm -rf "$broker_dir"
	scripts/broker.sh start --dir "$broker_dir" --until-gone $$ 8>&-
	eval "$(scripts/broker.sh env --dir "$broker_dir")"
	go test -count=1 -timeout 60m ./tests/faults -faults.all "$@"
}

main "$@"; exit

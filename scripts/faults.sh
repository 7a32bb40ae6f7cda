#!/usr/bin/env bash
# The whole matrix of faults (tests/faults) on a private broker that is started for
# it and ended with it, also after a failure or Ctrl-C. `make faults` runs this;
# arguments go to `go test`, e.g.
#
#   scripts/faults.sh -run 'TestMatrix$/SIGKILL' -v
#   scripts/faults.sh -faults.seed=7
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/own-broker.sh

main() {
	scripts/need-go.sh
	only_one faults
	scripts/ensure.sh test-tools
	own_broker faults
	eval "$(scripts/broker.sh env --dir "$broker_dir")"
	go test -count=1 -timeout 60m ./tests/faults -faults.all "$@"
}

main "$@"; exit

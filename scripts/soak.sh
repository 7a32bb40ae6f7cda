#!/usr/bin/env bash
# Random faults, one after the other, on a private node that the test starts and
# stops by itself. `make soak` runs this.
#
#   scripts/soak.sh [DURATION [SEED]]    e.g. scripts/soak.sh 2h 7
#
# Without a seed one is chosen and printed: it gives the same faults again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

main() {
	local last=${1:-10m} seed=${2:-}
	scripts/need-go.sh
	scripts/ensure.sh test-tools
	# The time limit is the soak's own: it ends by itself, whatever it finds.
	exec go test -count=1 -timeout 0 -v -run '^TestSoak$' ./tests/faults "-faults.soak=$last" ${seed:+"-faults.seed=$seed"}
}

main "$@"

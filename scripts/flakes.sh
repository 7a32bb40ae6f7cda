#!/usr/bin/env bash
# Looks for tests that do not pass every time: runs the tests of some packages many
# times with the race detector, in random order, with 1, 2 and 4 processors, while busy
# loops take the machine's processors. `make flakes` runs this.
#
#   scripts/flakes.sh [--runs N] [--base COMMIT] [PACKAGE...]
#
# Without packages: those with files that differ from COMMIT (default: the last commit
# while there are uncommitted changes, else the one before it). N is 50 for packages
# whose tests need no broker and 10 for the others, unless it is given. The seed of the
# order of a run that fails is in what go test prints: -shuffle=SEED gives it again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/own-broker.sh

# What tests call that need servers.
servers='brokertest\.(Vhost|Private)\(|postgrestest\.(Start|Shared)\('

die() { printf 'flakes: %s\n' "$*" >&2; exit 1; }

# changed_packages BASE: those with Go files, or test data, that differ from BASE.
changed_packages() {
	local base=$1 file dir
	if [ -z "$base" ]; then
		base=HEAD
		[ -n "$(git status --porcelain)" ] || base=HEAD^
	fi
	git rev-parse --quiet --verify "$base^{commit}" >/dev/null || die "there is no commit $base"
	{ git diff --name-only "$base" --; git ls-files --others --exclude-standard; } | while read -r file; do
		dir=$(dirname "${file%%/testdata/*}")
		case $file in */testdata/*) dir=${file%%/testdata/*} ;; *.go) ;; *) continue ;; esac
		if compgen -G "$dir/*_test.go" >/dev/null; then echo "./$dir"; fi
	done | sort -u
}

needs_server() { # PACKAGE, by its import path
	local dir=${1#taskbus}
	grep -qE "$servers" ".$dir"/*_test.go 2>/dev/null
}

busy=()
last_words() { [ "${#busy[@]}" -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true; }

main() {
	local runs='' base='' failed=() package packages n begun
	while [ $# -gt 0 ]; do
		case $1 in
		--runs) runs=${2-}; shift 2 ;;
		--base) base=${2-}; shift 2 ;;
		-*) die "unknown option $1; usage: scripts/flakes.sh [--runs N] [--base COMMIT] [PACKAGE...]" ;;
		*) break ;;
		esac
	done
	case $runs in *[!0-9]*) die "--runs wants a number, not $runs" ;; esac
	scripts/need-go.sh
	only_one flakes
	# What fails in an assignment ends the script, and in an argument it does not.
	if [ $# -eq 0 ]; then
		packages=$(changed_packages "$base")
		[ -n "$packages" ] || die "no package with tests was changed; name some, e.g. make flakes PKG=./coordinator/webhook"
		# shellcheck disable=SC2086 # paths of packages have no blanks
		set -- $packages
	fi
	packages=$(go list "$@")
	# shellcheck disable=SC2086
	set -- $packages
	export GOFLAGS="${GOFLAGS:-} -trimpath" GORACE="${GORACE:-} atexit_sleep_ms=100"
	trap last_words EXIT
	for package in "$@"; do
		if needs_server "$package"; then
			scripts/ensure.sh test-tools
			own_broker flakes
			eval "$(scripts/broker.sh env --dir "$broker_dir")"
			break
		fi
	done
	for _ in $(seq "$(nproc)"); do
		# It ends with this script, however that ends.
		(while kill -0 $$ 2>/dev/null; do for ((n = 0; n < 100000; n++)); do :; done; done) 8>&- &
		busy+=($!)
	done
	for package in "$@"; do
		n=$runs
		if [ -z "$n" ]; then
			n=50
			! needs_server "$package" || n=10
		fi
		begun=$SECONDS
		# Three processor counts, so a third of the runs with each.
		printf '== %s: %d runs\n' "$package" "$(((n + 2) / 3 * 3))"
		go test -race -vet=off -shuffle=on -cpu 1,2,4 -count "$(((n + 2) / 3))" -timeout 60m "$package" || failed+=("$package")
		printf '== %s took %d s\n' "$package" "$((SECONDS - begun))"
	done
	[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"
	echo '== every run passed'
}

main "$@"; exit

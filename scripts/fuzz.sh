#!/usr/bin/env bash
# Runs every fuzz target of the project for the given time each (default 20s).
# What a target finds is kept by Go in its package's testdata/fuzz.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

main() {
	local fuzztime=${1:-20s} found=no package target
	scripts/need-go.sh
	while IFS=: read -r file target; do
		found=yes
		package=./$(dirname "$file")
		printf '== %s in %s for %s\n' "$target" "$package" "$fuzztime"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package"
	done < <(grep -roHE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func /:/; s#^\./##')
	[ "$found" = yes ] || { echo "no fuzz targets found" >&2; exit 1; }
}

main "$@"; exit

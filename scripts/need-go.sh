#!/bin/sh
# Fails with one clear line unless a usable Go toolchain is at hand: 1.21 or
# newer, which fetches the release that go.mod asks for by itself: later, and not here, where
# nothing would be said of the download.
version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) # e.g. go1.26.8
case $version in
"") problem="no Go toolchain found" ;;
go1.[0-9] | go1.[0-9].* | go1.1[0-9] | go1.1[0-9].* | go1.20 | go1.20.*) problem="$version is too old" ;;
*) exit 0 ;;
esac
echo "$problem: install Go 1.21 or newer (https://go.dev/dl/) and put it on PATH" >&2
exit 1

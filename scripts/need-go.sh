#!/bin/sh
# Fails with one clear line unless a Go toolchain is at hand. An older one is
# fine: it fetches the version that go.mod asks for by itself.
command -v go >/dev/null && exit 0
echo "no Go toolchain found: install Go (https://go.dev/dl/, or Debian: apt-get install golang-go) and put it on PATH" >&2
exit 1

#!/usr/bin/env bash
# Sees to it that the programs are there which a script is about to need, and installs
# with apt what is missing, if we may. Nothing is built and no service is started.
#
#   scripts/ensure.sh rabbitmq      for a private node
#   scripts/ensure.sh test-tools    for `make test`: RabbitMQ, a C compiler for the race
#                                   detector, pika and aio-pika for the clients in Python, nginx for
#                                   the gateway of the examples, PostgreSQL for the
#                                   history, and promtool (in prometheus) for the alerts
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# How long another package manager may hold its lock, in seconds.
lock_patience=${TASKBUS_LOCK_PATIENCE:-900}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

have_rabbitmq() { [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || PATH="$PATH:/usr/sbin" command -v rabbitmq-server >/dev/null; }
have_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; }

# as_root CMD...: runs it as root without asking for a password, or fails.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}
may_be_root() { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }

# policy-rc.d is how Debian is told not to start the services of new packages:
# exit 101 means "not allowed". Ours is there only during the installation; one
# that was there before stays as it is.
policy=${TASKBUS_POLICY_RC:-/usr/sbin/policy-rc.d}
policy_is_ours=no
forbid_services() {
	[ ! -e "$policy" ] || return 0
	policy_is_ours=yes
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
	as_root chmod 755 "$policy"
}
remove_policy() {
	[ "$policy_is_ours" = no ] || as_root rm -f "$policy"
	policy_is_ours=no
}

log=.run/apt.log

# apt ARGS...: apt-get, tried again as long as another package manager holds its lock:
# a fresh machine often updates itself.
apt() {
	local begun=$SECONDS attempt=.run/apt.attempt holder
	while :; do
		if as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
			apt-get -q -y -o DPkg::Lock::Timeout=60 "$@" >"$attempt" 2>&1; then
			cat "$attempt" >>"$log"
			return 0
		fi
		cat "$attempt" >>"$log"
		grep -qE 'Could not get lock|Unable to lock|dpkg frontend lock' "$attempt" || return 1
		[ $((SECONDS - begun)) -lt "$lock_patience" ] || {
			say "another package manager has held its lock for $lock_patience s"
			return 1
		}
		holder=$(sed -n 's/.*held by process \([0-9]* ([^)]*)\).*/ (process \1)/p' "$attempt" | head -n 1)
		say "another package manager is at work$holder: waiting for it ($((SECONDS - begun)) s)"
		sleep "${TASKBUS_LOCK_PAUSE:-5}"
	done
}

# install PACKAGE...: with apt, without starting any service, now or at the next boot.
install() {
	say "installing with apt: $* (usually one to two minutes; system services stay off)"
	mkdir -p .run
	: >"$log"
	forbid_services
	local ok=yes
	{ apt update && apt install --no-install-recommends "$@"; } || ok=no
	remove_policy
	if [ "$ok" = no ]; then
		tail -n 5 "$log" >&2
		die "apt could not install $* (all it said: $log): install it by hand, then try again"
	fi
	local service
	for service in "$@"; do
		case $service in rabbitmq-server | postgresql | nginx | prometheus)
			if command -v systemctl >/dev/null; then as_root systemctl disable --quiet "$service" >/dev/null 2>&1 || true; fi ;;
		esac
	done
	say "installed"
}

# ensure WHY PACKAGE...: installs these, or says what to do.
ensure() {
	local why=$1
	shift
	[ $# -gt 0 ] || return 0
	command -v apt-get >/dev/null && may_be_root || die "$why: install $* first (Debian: sudo apt-get install $*)"
	install "$@"
}

main() {
	trap remove_policy EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	local missing=()
	case ${1:-} in
	rabbitmq)
		have_rabbitmq || missing+=(rabbitmq-server)
		ensure "no RabbitMQ on this machine, nor RABBITMQ_URL=amqp://user:password@host:5672/, nor a Docker engine" "${missing[@]}"
		;;
	test-tools)
		have_rabbitmq || missing+=(rabbitmq-server)
		command -v "$(go env CC)" >/dev/null || missing+=(gcc libc6-dev)
		[ "${TASKBUS_TEST_NO_PIKA:-}" = 1 ] || /usr/bin/python3 -c 'import pika' 2>/dev/null || missing+=(python3-pika)
		[ "${TASKBUS_TEST_NO_PIKA:-}" = 1 ] || /usr/bin/python3 -c 'import aio_pika' 2>/dev/null || missing+=(python3-aio-pika)
		[ "${TASKBUS_TEST_NO_NGINX:-}" = 1 ] || [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null || missing+=(nginx)
		have_postgres || missing+=(postgresql)
		command -v promtool >/dev/null || missing+=(prometheus)
		ensure "the tests need more than is here (without the Python clients: TASKBUS_TEST_NO_PIKA=1, without nginx: TASKBUS_TEST_NO_NGINX=1)" "${missing[@]}"
		;;
	*) die "usage: scripts/ensure.sh rabbitmq | test-tools" ;;
	esac
}

main "$@"; exit

#!/usr/bin/env bash
# Finds a RabbitMQ to work with, or makes one, and prints its AMQP URL (and
# nothing else) on stdout; progress goes to stderr. In this order:
#
#   1. RABBITMQ_URL, if set and something listens there;
#   2. a Docker engine that answers: the container "taskbus-broker";
#   3. a private node from the system's rabbitmq-server (scripts/broker.sh), which
#      is installed with apt first if it is missing and we may.
#
# The URL holds a password: capture it, do not show it.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
container=taskbus-broker
image=${TASKBUS_RABBITMQ_IMAGE:-rabbitmq:3.13-management}
# The ./.run folder, shared with scripts/broker.sh.
run_dir=$(dirname "$scripts")/.run

say() { printf 'broker: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# reachable URL: does something accept a TCP connection there within 3 s?
reachable() {
	local rest=${1#*://} host port=5672
	case $1 in amqps://*) port=5671 ;; amqp://*) ;; *) return 1 ;; esac
	rest=${rest%%[/?]*}  # user:password@host:port
	rest=${rest##*@}     # host:port
	case $rest in
	\[*\]:*) host=${rest%%\]*}; host=${host#\[}; port=${rest##*\]:} ;;
	\[*\]) host=${rest#\[}; host=${host%\]} ;;
	*:*) host=${rest%:*}; port=${rest##*:} ;;
	*) host=$rest ;;
	esac
	place="$host:$port"
	case $port in '' | *[!0-9]*) return 1 ;; esac
	# Host and port as arguments, never as part of the command.
	# shellcheck disable=SC2016
	timeout 3 bash -c 'exec 3<>"/dev/tcp/$1/$2"' _ "${host:-localhost}" "$port" 2>/dev/null
}

from_environment() {
	[ -n "${RABBITMQ_URL:-}" ] || return 1
	local place='no host'
	if reachable "$RABBITMQ_URL"; then
		say "using RABBITMQ_URL ($place)"
		printf '%s\n' "$RABBITMQ_URL"
		return 0
	fi
	say "RABBITMQ_URL is set, but nothing answers there ($place); looking for another broker"
	return 1
}

# --- Docker ------------------------------------------------------------------------

docker_answers() { command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1; }

# The password is in a file of ours (0600) and reaches Docker by the environment,
# not by a command line that `ps` shows.
from_docker() {
	docker_answers || return 1
	local password_file=$run_dir/docker-password address url i
	mkdir -p "$run_dir"
	if ! docker inspect "$container" >/dev/null 2>&1; then
		say "starting the container $container from $image (Docker may have to download it first)"
		(umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$password_file")
		RABBITMQ_DEFAULT_USER=taskbus-admin RABBITMQ_DEFAULT_PASS=$(cat "$password_file") \
			docker run --detach --name "$container" --hostname "$container" \
			--publish 127.0.0.1::5672 --publish 127.0.0.1::15672 \
			--env RABBITMQ_DEFAULT_USER --env RABBITMQ_DEFAULT_PASS \
			--env RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-rabbit consumer_timeout 86400000" \
			"$image" >/dev/null || { docker rm --force "$container" >/dev/null 2>&1 || true; return 1; }
	elif [ ! -s "$password_file" ]; then
		say "a container $container exists, but its password ($password_file) does not: remove it with: docker rm -f $container"
		return 1
	fi
	docker start "$container" >/dev/null || return 1
	address=$(docker port "$container" 5672/tcp | head -n 1)
	url="amqp://taskbus-admin:$(cat "$password_file")@127.0.0.1:${address##*:}/"
	for i in $(seq 60); do
		if docker exec "$container" rabbitmq-diagnostics -q check_port_connectivity >/dev/null 2>&1; then
			say "using the container $container (127.0.0.1:${address##*:})"
			printf '%s\n' "$url"
			return 0
		fi
		[ $((i % 5)) -ne 0 ] || say "waiting for the container $container ($i tries)"
		sleep 1
	done
	say "the container $container does not get ready; see: docker logs $container"
	return 1
}

# --- a private node ------------------------------------------------------------------

have_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; }
have_rabbitmq() { [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || PATH="$PATH:/usr/sbin" command -v rabbitmq-server >/dev/null; }

# as_root CMD...: run it as root without asking for a password, or fail.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}
may_be_root() { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }

# policy-rc.d is how Debian is told not to start the services of new packages:
# exit 101 means "not allowed". Ours is there only during the installation; one
# that was there before stays as it is.
policy=/usr/sbin/policy-rc.d
policy_is_ours=no
remove_policy() {
	[ "$policy_is_ours" = no ] || as_root rm -f "$policy"
	policy_is_ours=no
}

# install PACKAGE...: with apt, without starting any service.
install() {
	say "installing with apt: $* (system services stay off; about a minute)"
	if [ ! -e "$policy" ]; then
		policy_is_ours=yes
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	# No service may start at the next boot either.
	local log=$run_dir/apt.log ok=yes
	mkdir -p "$run_dir"
	{
		as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
			as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
	} >"$log" 2>&1 || ok=no
	remove_policy
	if [ "$ok" = no ]; then
		tail -n 5 "$log" >&2
		die "apt could not install $* (all it said: $log); install it by hand"
	fi
	local service
	for service in "$@"; do
		case $service in rabbitmq-server | postgresql | nginx | redis-server | prometheus)
			if command -v systemctl >/dev/null; then as_root systemctl disable --quiet "$service" >/dev/null 2>&1 || true; fi ;;
		esac
	done
	say "installed"
}

from_private_node() {
	if ! have_rabbitmq; then
		if command -v apt-get >/dev/null && may_be_root; then
			install rabbitmq-server
		else
			die "no broker: install RabbitMQ (Debian: sudo apt-get install rabbitmq-server) or start Docker, or set RABBITMQ_URL=amqp://user:password@host:5672/"
		fi
	fi
	"$scripts/broker.sh" start >&2 || exit 1
	"$scripts/broker.sh" url
}

main() {
	case ${1:-} in
	'')
		trap remove_policy EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM
		from_environment || from_docker || from_private_node
		;;
	# For `make test`, which runs a node of its own and only needs the programs:
	# besides RabbitMQ a C compiler, for the race detector, pika, for the clients
	# written in Python, nginx for the gateway of the examples, PostgreSQL for the history, and
	# promtool, which is in prometheus, for the alerts and the dashboard.
	--ensure-test-tools)
		trap remove_policy EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM
		local missing=()
		have_rabbitmq || missing+=(rabbitmq-server)
		command -v "$(go env CC)" >/dev/null || missing+=(gcc libc6-dev)
		[ "${TASKBUS_TEST_NO_PIKA:-}" = 1 ] || /usr/bin/python3 -c 'import pika' 2>/dev/null || missing+=(python3-pika)
		[ "${TASKBUS_TEST_NO_NGINX:-}" = 1 ] || [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null || missing+=(nginx)
		have_postgres || missing+=(postgresql)
		command -v promtool >/dev/null || missing+=(prometheus)
		[ "${#missing[@]}" -gt 0 ] || return 0
		command -v apt-get >/dev/null && may_be_root ||
			die "the tests need ${missing[*]}: install them first (Debian: sudo apt-get install ${missing[*]}), or do without the Python clients (TASKBUS_TEST_NO_PIKA=1) and nginx (TASKBUS_TEST_NO_NGINX=1)"
		install "${missing[@]}"
		;;
	--ensure-rabbitmq)
		trap remove_policy EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM
		have_rabbitmq && return
		command -v apt-get >/dev/null && may_be_root ||
			die "a private RabbitMQ needs the program: install it first (Debian: sudo apt-get install rabbitmq-server)"
		install rabbitmq-server
		;;
	# For the benchmark only: what calls are compared with.
	--ensure-redis)
		trap remove_policy EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM
		command -v redis-server >/dev/null && return
		command -v apt-get >/dev/null && may_be_root ||
			die "the benchmark compares with Redis: install it first (Debian: sudo apt-get install redis-server)"
		install redis-server
		;;
	# What this script may have started, and nothing else.
	--stop)
		"$scripts/broker.sh" stop
		if docker_answers && docker inspect "$container" >/dev/null 2>&1; then
			docker stop "$container" >/dev/null && say "stopped the container $container"
		fi
		;;
	*) die "usage: scripts/find-broker.sh [--ensure-rabbitmq | --ensure-test-tools | --ensure-redis | --stop]" ;;
	esac
}

main "$@"; exit

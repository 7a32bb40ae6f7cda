#!/usr/bin/env bash
# Finds a RabbitMQ to work with, or makes one, and prints its AMQP URL (and
# nothing else) on stdout; progress goes to stderr. In this order:
#
#   1. RABBITMQ_URL, if set and something listens there;
#   2. a Docker engine that answers: the container "taskbus-broker";
#   3. a private node from the system's rabbitmq-server (scripts/broker.sh), which
#      is installed with apt first if it is missing and we may (scripts/ensure.sh).
#
# With --look it only sees whether there is one, or the program for it, and installs
# that; with --stop it ends what it may have started.
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

from_private_node() {
	"$scripts/ensure.sh" rabbitmq || exit 1
	"$scripts/broker.sh" start >&2 || exit 1
	"$scripts/broker.sh" url
}

main() {
	case ${1:-} in
	'') from_environment || from_docker || from_private_node ;;
	# Before anything is built, which takes minutes the first time. Nothing is started.
	--look) from_environment >/dev/null || docker_answers || "$scripts/ensure.sh" rabbitmq ;;
	# What this script may have started, and nothing else.
	--stop)
		"$scripts/broker.sh" stop
		if docker_answers && docker inspect "$container" >/dev/null 2>&1; then
			docker stop "$container" >/dev/null && say "stopped the container $container"
		fi
		;;
	*) die "usage: scripts/find-broker.sh [--look | --stop]" ;;
	esac
}

main "$@"; exit

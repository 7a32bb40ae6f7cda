#!/usr/bin/env bash
# A private PostgreSQL for tests: its own port, data and password, bound to 127.0.0.1. It never
# touches a system-wide one. PostgreSQL refuses to run as root; root's runs as the user
# postgres of Debian's package. `postgres.sh help` shows the usage.
set -euo pipefail
umask 077

say() { printf 'postgres: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

usage() {
	cat <<'USAGE'
usage: postgres.sh VERB --dir DIR [--until-gone PID]

  start   start it and wait until it answers; fine if it runs already. It keeps its port
          (--until-gone: stop it when the process PID has ended, however)
  stop    end it, by its pid file only, and wait until it is gone
  kill    end it as a crash would (for tests of faults)
  status  say whether it runs; exit 0 if it does, 3 if not
  url     print its URL, password included

DIR holds everything it has; delete it after a stop to begin anew. DIR/log is the log.
USAGE
}

verb=${1:-help}
[ $# -gt 0 ] && shift
dir=
owner=
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=${2:?--dir wants a directory}; shift 2 ;;
	--dir=*) dir=${1#--dir=}; shift ;;
	--until-gone) owner=${2:?--until-gone wants a process id}; shift 2 ;;
	*) usage >&2; die "unknown argument: $1" ;;
	esac
done
case $dir in '' | /*) ;; *) dir=$PWD/$dir ;; esac

# as_server CMD...: as the user that the server runs as.
as_server() {
	if [ "$(id -u)" -ne 0 ]; then "$@"; else runuser -u postgres -- "$@"; fi
}

find_bin() {
	local candidate
	for candidate in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5,5nr); do
		if [ -x "$candidate/pg_ctl" ] && [ -x "$candidate/initdb" ]; then printf '%s' "$candidate"; return; fi
	done
	candidate=$(command -v pg_ctl || true)
	[ -n "$candidate" ] && [ -x "$(dirname "$(readlink -f "$candidate")")/initdb" ] ||
		die "no PostgreSQL found; install the package postgresql (Debian: sudo apt-get install postgresql)"
	dirname "$(readlink -f "$candidate")"
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: one below the kernel's ephemeral range (32768), where no client's local port can
# get in the way between two starts.
free_port() {
	local port try
	for try in $(seq 100); do
		port=$((20000 + (RANDOM * 32768 + RANDOM + try) % 12000))
		port_open "$port" || { printf '%s' "$port"; return; }
	done
	die "no free port between 20000 and 32000 on 127.0.0.1"
}

# server_pid is the number in the server's own pid file, if that is this server.
server_pid() {
	local pid=
	[ -d "$dir/data" ] || return 1
	pid=$(as_server head -n 1 "$dir/data/postmaster.pid" 2>/dev/null) || return 1
	case $pid in '' | *[!0-9]*) return 1 ;; esac
	{ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF -- "$dir/data" && printf '%s' "$pid"
}

create() {
	local bin=$1 as=
	mkdir -p "$dir"
	od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/password"
	if [ "$(id -u)" -eq 0 ]; then
		id postgres >/dev/null 2>&1 || die "PostgreSQL does not run as root, and there is no user postgres: install the package postgresql, or run the tests as another user"
		chmod 711 "$dir" # the server looks into what is below
		as=postgres
		chown postgres "$dir/password"
	fi
	install -d -m 700 ${as:+-o "$as"} "$dir/data" "$dir/socket"
	# Its log says why it does not start.
	: >"$dir/log"
	[ -z "$as" ] || chown "$as" "$dir/log"
	(cd / && as_server "$bin/initdb" --pgdata="$dir/data" --username=taskbus --pwfile="$dir/password" --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-sync) >"$dir/initdb.log" 2>&1 ||
		{ tail -n 5 "$dir/initdb.log" >&2; die "initdb failed; all it said is in $dir/initdb.log"; }
	free_port >"$dir/port"
}

cmd_start() {
	local bin
	bin=$(find_bin)
	if server_pid >/dev/null; then return; fi
	[ -s "$dir/port" ] || create "$bin"
	# Nothing of it must outlive the machine: no fsync.
	(cd / && as_server "$bin/pg_ctl" --pgdata="$dir/data" --log="$dir/log" --wait --timeout=60 --silent \
		-o "-c listen_addresses=127.0.0.1 -c port=$(cat "$dir/port") -c unix_socket_directories='$dir/socket' -c fsync=off -c shared_buffers=16MB -c max_connections=50" start) >/dev/null 2>&1 </dev/null || {
		as_server tail -n 10 "$dir/log" >&2 || true
		die "it did not start; all it said is in $dir/log"
	}
	if [ -n "$owner" ]; then stop_with_owner </dev/null >/dev/null 2>&1 & fi
}

# stop_with_owner ends it, if it is still the same one, and deletes what it had.
stop_with_owner() {
	local pid
	pid=$(server_pid) || return 0
	while kill -0 "$owner" 2>/dev/null; do
		sleep 1
		[ "$(server_pid || true)" = "$pid" ] || return 0
	done
	cmd_stop immediate
	rm -rf "$dir"
}

cmd_stop() {
	local bin
	server_pid >/dev/null || return 0
	bin=$(find_bin)
	(cd / && as_server "$bin/pg_ctl" --pgdata="$dir/data" --mode="$1" --wait --timeout=30 --silent stop) >/dev/null
}

main() {
	case $verb in
	start | stop | kill | status | url) [ -n "$dir" ] || { usage >&2; die "--dir is missing"; } ;;
	esac
	case $verb in
	start) cmd_start ;;
	stop) cmd_stop fast ;;
	kill) cmd_stop immediate ;;
	status) if server_pid >/dev/null; then say "runs (127.0.0.1:$(cat "$dir/port"))"; else say "does not run"; exit 3; fi ;;
	url)
		[ -s "$dir/port" ] || die "none in $dir; start one with: postgres.sh start --dir $dir"
		printf 'postgres://taskbus:%s@127.0.0.1:%s/postgres?sslmode=disable\n' "$(cat "$dir/password")" "$(cat "$dir/port")"
		;;
	help | -h | --help) usage ;;
	*) usage >&2; die "unknown verb: $verb" ;;
	esac
}

main "$@"; exit

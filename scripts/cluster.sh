#!/usr/bin/env bash
# A private RabbitMQ cluster on this machine: several nodes of scripts/broker.sh,
# each with its own ports and data, that share a cookie, a password and an epmd.
# Bound to 127.0.0.1, run by the current user; it never touches a system-wide
# broker. `scripts/cluster.sh help` shows the usage.
set -euo pipefail
umask 077

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

say() { printf 'cluster: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

usage() {
	cat <<'USAGE'
usage: scripts/cluster.sh VERB [--dir DIR] [...]

  start [--nodes N] [--conf FILE] [--until-gone PID]
                start N nodes (default 3) and wait until they are one cluster; fine
                for those that run already (--conf: more lines for rabbitmq.conf,
                kept for later starts; --until-gone: stop all of them when the
                process PID has ended, however)
  stop          end all nodes, by their pid files only, and wait until they are gone
  status        say which nodes run
  env           print the nodes' URLs, passwords included, and directories:
                eval "$(scripts/cluster.sh env)"
  start-node I  start one node again; I counts from 1
  stop-node I   end one node in order
  kill-node I   end one node with SIGKILL, as a crash would
  ctl I ARGS... run rabbitmqctl on one node, e.g. ctl 1 cluster_status

DIR (default .run/cluster in the project) holds everything; DIR/n1, DIR/n2, … are
the nodes' own directories, with which scripts/broker.sh works, too. The nodes
have no management plugin.
USAGE
}

# --- arguments ---------------------------------------------------------------

verb=${1:-help}
[ $# -gt 0 ] && shift
dir=$(dirname "$scripts")/.run/cluster
count=3
conf=
owner=
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=${2:?--dir wants a directory}; shift 2 ;;
	--dir=*) dir=${1#--dir=}; shift ;;
	--nodes) count=${2:?--nodes wants a number}; shift 2 ;;
	--conf) conf=${2:?--conf wants a file}; shift 2 ;;
	--until-gone) owner=${2:?--until-gone wants a process id}; shift 2 ;;
	*) break ;; # the rest belongs to the verb
	esac
done
case $verb in
start-node | stop-node | kill-node | ctl) ;;
*) [ $# -eq 0 ] || { usage >&2; die "unknown argument: $1"; } ;;
esac
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
case $count in [1-9]) ;; *) die "--nodes $count: give 1 to 9" ;; esac

# --- what belongs to the cluster -----------------------------------------------

epmd_port_file=$dir/epmd.port
epmd_pid_file=$dir/epmd.pid

nodes() { # the numbers of all nodes
	local n
	for n in "$dir"/n[1-9]; do [ -d "$n" ] && printf '%s\n' "${n##*/n}"; done
}

must_have() { # NUMBER
	case ${1:-} in [1-9]) ;; *) die "which node? give a number from 1" ;; esac
	[ -d "$dir/n$1" ] || die "no node $1 in $dir"
}

broker() { # NUMBER VERB ARGS...
	local n=$1 what=$2
	shift 2
	"$scripts/broker.sh" "$what" --dir "$dir/n$n" "$@"
}

# each VERB NUMBER...: run it for these nodes side by side, and fail if one fails.
each() {
	local what=$1 n pids=() ok=yes pid
	shift
	for n in "$@"; do
		"$what" "$n" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || ok=no; done
	[ "$ok" = yes ]
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_ports N: as many different ones, below the kernel's ephemeral range. All are
# chosen at once: nodes that chose theirs while they start side by side could meet.
free_ports() {
	local port found=' ' left=$1 try
	for try in $(seq 1000); do
		[ "$left" -gt 0 ] || break
		port=$((20000 + (RANDOM * 32768 + RANDOM + try) % 12000))
		case $found in *" $port "*) continue ;; esac
		port_open "$port" || { found+="$port "; left=$((left - 1)); }
	done
	[ "$left" -eq 0 ] || die "not enough free ports between 20000 and 32000 on 127.0.0.1"
	printf '%s' "$found"
}

random_hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# --- epmd: by which the nodes find each other ------------------------------------

epmd_pid() {
	local pid=
	[ -r "$epmd_pid_file" ] && read -r pid <"$epmd_pid_file" || return 1
	case $pid in '' | *[!0-9]*) return 1 ;; esac
	# It is ours, and not a stranger that got the number of a process long gone.
	{ tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qxF "TASKBUS_CLUSTER=$dir" || return 1
	printf '%s' "$pid"
}

start_epmd() {
	local program port i
	epmd_pid >/dev/null && return
	program=$(command -v epmd) || die "no epmd found; it belongs to Erlang (Debian: apt-get install erlang-base)"
	port=$(cat "$epmd_port_file")
	port_open "$port" && die "port $port is taken by another program: delete $dir and start anew"
	env -i PATH="$PATH" TASKBUS_CLUSTER="$dir" setsid "$program" -port "$port" -address 127.0.0.1 \
		>>"$dir/epmd.log" 2>&1 </dev/null 9>&- &
	echo $! >"$epmd_pid_file"
	for i in $(seq 50); do
		port_open "$port" && return
		sleep 0.1
	done
	die "epmd does not listen on port $port; see $dir/epmd.log"
}

stop_epmd() {
	local pid
	if pid=$(epmd_pid); then kill "$pid" 2>/dev/null || true; fi
	rm -f "$epmd_pid_file"
}

# --- files -------------------------------------------------------------------------

# lay_out writes what the nodes have in common, before the first start: scripts/broker.sh
# keeps what it finds.
lay_out() {
	local id n ports port
	mkdir -p "$dir"
	id=$(printf '%s' "$dir" | cksum | cut -d' ' -f1)
	read -ra ports <<<"$(free_ports $((2 * count + 1)))"
	random_hex 16 >"$dir/cookie"
	random_hex 16 >"$dir/password"
	{
		echo "cluster_formation.peer_discovery_backend = classic_config"
		for n in $(seq "$count"); do echo "cluster_formation.classic_config.nodes.$n = taskbus$n-$id@localhost"; done
		echo "# The first to look finds nobody who has a cluster, and begins one: waiting for the others,"
		echo "# ten times half a second by default, would be for nothing, because they wait for its lock."
		echo "cluster_formation.discovery_retry_limit = 1"
		echo "cluster_formation.discovery_retry_interval = 100"
		echo "# A node that cannot see most of the others stops serving, instead of going its own way."
		echo "cluster_partition_handling = pause_minority"
		[ -z "$conf" ] || cat "$conf"
	} >"$dir/cluster.conf"
	for n in $(seq "$count"); do
		mkdir -p "$dir/n$n"
		cp "$dir/cookie" "$dir/n$n/.erlang.cookie"
		chmod 400 "$dir/n$n/.erlang.cookie"
		cp "$dir/password" "$dir/n$n/password"
		port=$((2 * n))
		printf '%s\n' "node=taskbus$n-$id@localhost" "amqp=${ports[$((port - 1))]}" "mgmt=0" "dist=${ports[$port]}" \
			"epmd=${ports[0]}" "shared_epmd=yes" "management=no" >"$dir/n$n/node"
	done
	echo "${ports[0]}" >"$epmd_port_file" # the last: from now on there is a cluster
}

# --- verbs ---------------------------------------------------------------------------

start_node() { broker "$1" start --no-management --conf "$dir/cluster.conf" 9>&-; }

# in_cluster NUMBER: how many nodes it sees running.
in_cluster() {
	broker "$1" ctl -q cluster_status --formatter json |
		grep -o '"running_nodes":\[[^]]*\]' | grep -o '@' | wc -l
}

cmd_start() {
	local seen all
	[ -z "$conf" ] || [ -r "$conf" ] || die "cannot read --conf $conf"
	[ -s "$epmd_port_file" ] || lay_out
	start_epmd
	mapfile -t all < <(nodes)
	each start_node "${all[@]}" || { cmd_stop; die "not all nodes started; see the lines above"; }
	seen=$(in_cluster 1)
	[ "$seen" = "${#all[@]}" ] || { cmd_stop; die "node 1 sees $seen of ${#all[@]} nodes: they did not become one cluster"; }
	say "ready: ${#all[@]} nodes in $dir"
	if [ -n "$owner" ]; then stop_with_owner </dev/null >/dev/null 2>&1 9>&- & fi
}

# stop_with_owner waits in the background, so that a test that is killed before its
# clean-up leaves no broker behind. It ends with the cluster it was started for.
stop_with_owner() {
	local pid
	pid=$(epmd_pid) || return
	while kill -0 "$owner" 2>/dev/null; do
		[ "$(epmd_pid || true)" = "$pid" ] || return 0
		sleep 1
	done
	cmd_stop
}

stop_node() { broker "$1" stop; }

cmd_stop() {
	local all
	mapfile -t all < <(nodes)
	[ "${#all[@]}" -gt 0 ] || { say "no cluster in $dir"; return; }
	each stop_node "${all[@]}" || true
	stop_epmd
}

cmd_status() {
	local n
	for n in $(nodes); do broker "$n" status || true; done
}

cmd_env() {
	local n
	for n in $(nodes); do
		printf 'export TASKBUS_TEST_CLUSTER_URL_%s=%q\n' "$n" "$(broker "$n" url)"
		printf 'export TASKBUS_TEST_CLUSTER_DIR_%s=%q\n' "$n" "$dir/n$n"
	done
}

locked() {
	mkdir -p "$dir"
	exec 9>"$dir/lock"
	if command -v flock >/dev/null; then
		flock -w 120 9 || die "another cluster.sh is busy in $dir"
	fi
	"$@"
}

main() {
	case $verb in
	start) locked cmd_start ;;
	stop) if [ -d "$dir" ]; then locked cmd_stop; else say "no cluster in $dir"; fi ;;
	status) cmd_status ;;
	env) cmd_env ;;
	start-node) must_have "${1:-}"; start_node "$1" ;;
	stop-node) must_have "${1:-}"; stop_node "$1" ;;
	kill-node) must_have "${1:-}"; broker "$1" kill ;;
	ctl) must_have "${1:-}"; n=$1; shift; broker "$n" ctl "$@" ;;
	help | -h | --help) usage ;;
	*) usage >&2; die "unknown verb: $verb" ;;
	esac
}

main "$@"; exit

#!/usr/bin/env bash
# A private RabbitMQ node: its own ports, cookie, data and password, bound to
# 127.0.0.1, run by the current user. It never touches a system-wide broker.
# `scripts/broker.sh help` shows the usage.
set -euo pipefail
umask 077
exec 8>&- # the caller's lock (own-broker.sh): a node is not to hold it

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
start_timeout=90 # seconds until a start counts as failed
stop_timeout=30  # seconds until a stop turns to SIGKILL

say() { printf 'broker: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

usage() {
	cat <<'USAGE'
usage: scripts/broker.sh VERB [--dir DIR] [...]

  start [--no-management] [--conf FILE] [--until-gone PID]
                start the node and wait until it is ready; fine if it runs already
                (--conf: more lines for its rabbitmq.conf, kept for later starts;
                --until-gone: stop it when the process PID has ended, however)
  stop          end it, by its pid file only, and wait until it is gone
  kill          end it with SIGKILL, as a crash would (for tests of faults)
  status        say whether it runs; exit 0 if it does, 3 if not
  url           print its AMQP URL, password included
  env           print the variables the tests want: eval "$(scripts/broker.sh env)"
  ctl ARGS...   run rabbitmqctl on it, e.g. scripts/broker.sh ctl list_queues

DIR (default .run/broker in the project) holds everything the node has; delete
it after a stop to begin anew. DIR/log holds the logs.
USAGE
}

# --- arguments ---------------------------------------------------------------

verb=${1:-help}
[ $# -gt 0 ] && shift
dir=$root/.run/broker
management=yes
extra_conf=
owner=
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=${2:?--dir wants a directory}; shift 2 ;;
	--dir=*) dir=${1#--dir=}; shift ;;
	--no-management) management=no; shift ;;
	--conf) extra_conf=${2:?--conf wants a file}; shift 2 ;;
	--until-gone) owner=${2:?--until-gone wants a process id}; shift 2 ;;
	--) shift; break ;;
	*) break ;; # the rest belongs to ctl
	esac
done
if [ "$verb" != ctl ] && [ $# -gt 0 ]; then
	usage >&2
	die "unknown argument: $1"
fi
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
case $extra_conf in '' | /*) ;; *) extra_conf=$PWD/$extra_conf ;; esac

# --- what belongs to the node --------------------------------------------------

state=$dir/node         # name and ports, written at the first start
pid_file=$dir/pid       # the Erlang VM's, written by RabbitMQ itself
epmd_pid_file=$dir/epmd.pid
password_file=$dir/password
user=taskbus-admin
node= amqp=0 mgmt=0 dist=0 epmd=0 with_mgmt=yes
shared_epmd=no # yes: somebody else started it, and ends it (scripts/cluster.sh)

load_state() {
	[ -r "$state" ] || return 1
	local key value
	while IFS='=' read -r key value; do
		case $key in
		node) node=$value ;;
		amqp) amqp=$value ;;
		mgmt) mgmt=$value ;;
		dist) dist=$value ;;
		epmd) epmd=$value ;;
		management) with_mgmt=$value ;;
		shared_epmd) shared_epmd=$value ;;
		esac
	done <"$state"
	[ -n "$node" ] && [ "$epmd" -gt 0 ]
}

save_state() {
	printf '%s\n' "node=$node" "amqp=$amqp" "mgmt=$mgmt" "dist=$dist" "epmd=$epmd" "shared_epmd=$shared_epmd" "management=$management" >"$state.new"
	mv "$state.new" "$state"
	with_mgmt=$management
}

must_load_state() { load_state || die "no node in $dir; start one with: scripts/broker.sh start"; }

# environ_has PID LINE: does the process have LINE in its environment?
environ_has() {
	[ -r "/proc/$1/environ" ] || return 1
	# A process may end while it is read: that is a "no".
	{ tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | grep -qxF -- "$2"
}

read_pid() { # the number in a pid file, or nothing
	local pid=
	[ -r "$1" ] && read -r pid <"$1" 2>/dev/null || true
	case $pid in '' | *[!0-9]*) return 1 ;; esac
	printf '%s' "$pid"
}

# is_ours PID PROGRAM: is PID this node's PROGRAM (beam or epmd), and not a
# stranger that got the number of a process long gone?
is_ours() {
	kill -0 "$1" 2>/dev/null || return 1
	{ tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -q "$2" || return 1
	environ_has "$1" "RABBITMQ_NODENAME=$node" && environ_has "$1" "ERL_EPMD_PORT=$epmd"
}

beam_pid() { local pid; pid=$(read_pid "$pid_file") && is_ours "$pid" beam && printf '%s' "$pid"; }
epmd_pid() { local pid; pid=$(read_pid "$epmd_pid_file") && is_ours "$pid" epmd && printf '%s' "$pid"; }

# --- finding the programs and the ports ------------------------------------------

# The wrappers in /usr/sbin refuse every user but root and rabbitmq; the real
# scripts do not.
find_bin() {
	local candidate
	for candidate in /usr/lib/rabbitmq/bin /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin /opt/rabbitmq/sbin; do
		if [ -x "$candidate/rabbitmq-server" ]; then printf '%s' "$candidate"; return; fi
	done
	candidate=$(command -v rabbitmq-server || true)
	[ -n "$candidate" ] || die "no rabbitmq-server found; install the package rabbitmq-server (Debian: apt-get install rabbitmq-server)"
	dirname "$(readlink -f "$candidate")"
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: one below the kernel's ephemeral range (32768), where no client's
# local port can get in the way between two starts.
free_port() {
	local port try
	for try in $(seq 100); do
		port=$((20000 + (RANDOM * 32768 + RANDOM + try) % 12000))
		case " $amqp $mgmt $dist $epmd " in *" $port "*) continue ;; esac
		port_open "$port" || { printf '%s' "$port"; return; }
	done
	die "no free port between 20000 and 32000 on 127.0.0.1"
}

# choose_ports keeps the known ones unless somebody else took one meanwhile.
choose_ports() {
	local port
	for port in $amqp $mgmt $dist $([ "$shared_epmd" = yes ] || echo "$epmd"); do
		if [ "$port" -gt 0 ] && port_open "$port"; then
			say "port $port is taken by another program; choosing new ports"
			amqp=0 mgmt=0 dist=0
			[ "$shared_epmd" = yes ] || epmd=0
			break
		fi
	done
	[ "$amqp" -gt 0 ] || amqp=$(free_port)
	[ "$mgmt" -gt 0 ] || mgmt=$(free_port)
	[ "$dist" -gt 0 ] || dist=$(free_port)
	[ "$epmd" -gt 0 ] || epmd=$(free_port)
}

# set_clean_env fills clean_env: `"${clean_env[@]}" PROGRAM ARGS...` runs a program
# with the node's environment and nothing else of the caller's, so that no
# RABBITMQ_* setting of the machine leaks in. (An array and not a function: a
# function in the background would put a shell between us and the pid we want.)
clean_env=()
set_clean_env() {
	# The node uses the epmd started below; rabbitmqctl must not start another.
	local erl_args="+sbwt none +sbwtdcpu none +sbwtdio none -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
	clean_env=(
		env -i PATH="$PATH:/usr/sbin:/sbin" LANG=C.UTF-8 HOME="$dir" TMPDIR="${TMPDIR:-/tmp}"
		ERL_EPMD_PORT="$epmd" ERL_EPMD_ADDRESS=127.0.0.1 ERL_CRASH_DUMP="$dir/log/erl_crash.dump"
		RABBITMQ_NODENAME="$node" RABBITMQ_DIST_PORT="$dist"
		RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir/log"
		RABBITMQ_PID_FILE="$pid_file" RABBITMQ_ENABLED_PLUGINS_FILE="$dir/enabled_plugins"
		RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" RABBITMQ_CONFIG_FILES="$dir/conf.d"
		RABBITMQ_ADVANCED_CONFIG_FILE="$dir/advanced.config"
		RABBITMQ_GENERATED_CONFIG_DIR="$dir/generated" RABBITMQ_FEATURE_FLAGS_FILE="$dir/feature_flags"
		RABBITMQ_CONF_ENV_FILE="$dir/rabbitmq-env.conf"
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="$erl_args" RABBITMQ_CTL_ERL_ARGS="$erl_args"
		RABBITMQ_CTL_DIST_PORT_MIN=35672 RABBITMQ_CTL_DIST_PORT_MAX=35772
	)
}

# --- files -------------------------------------------------------------------------

random_hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

write_files() {
	mkdir -p "$dir/data" "$dir/log" "$dir/conf.d" "$dir/generated"
	: >"$dir/rabbitmq-env.conf" # hides the machine's /etc/rabbitmq/rabbitmq-env.conf
	[ -z "$extra_conf" ] || cat "$extra_conf" >"$dir/extra.conf"
	[ -s "$password_file" ] || random_hex 16 >"$password_file"
	if [ ! -s "$dir/.erlang.cookie" ]; then
		random_hex 16 >"$dir/.erlang.cookie"
		chmod 400 "$dir/.erlang.cookie"
	fi
	if [ "$management" = yes ]; then
		echo '[rabbitmq_management].' >"$dir/enabled_plugins"
	else
		echo '[].' >"$dir/enabled_plugins"
	fi
	{
		echo "# Written by scripts/broker.sh at every start."
		echo "listeners.tcp.private = 127.0.0.1:$amqp"
		if [ "$management" = yes ]; then
			echo "management.tcp.ip = 127.0.0.1"
			echo "management.tcp.port = $mgmt"
		fi
		echo "default_user = $user"
		echo "default_pass = $(cat "$password_file")"
		echo "default_user_tags.administrator = true"
		echo "loopback_users.$user = true"
		echo "# A worker may hold a message for a day; the default of 30 minutes closes its channel."
		echo "consumer_timeout = 86400000"
		echo "# A small write-ahead log: 512 MiB by default, of which a node wants three times as much."
		echo "raft.wal_max_size_bytes = 64000000"
		echo "vm_memory_high_watermark.relative = 0.4"
		echo "disk_free_limit.absolute = 50MB"
		if [ -s "$dir/extra.conf" ]; then
			echo "# given with --conf"
			cat "$dir/extra.conf"
		fi
	} >"$dir/rabbitmq.conf"
}

# --- verbs ---------------------------------------------------------------------------

start_epmd() {
	# In the foreground of a process of ours, so that its pid is known: the
	# daemon that erl starts by itself would leave no pid behind.
	[ "$shared_epmd" = no ] || return 0
	local program
	program=$(command -v epmd || true)
	[ -n "$program" ] || die "no epmd found; it belongs to Erlang (Debian: apt-get install erlang-base)"
	epmd_pid >/dev/null && return
	"${clean_env[@]}" setsid "$program" -port "$epmd" >>"$dir/log/epmd.log" 2>&1 </dev/null 9>&- &
	echo $! >"$epmd_pid_file"
}

stop_epmd() {
	[ "$shared_epmd" = no ] || return 0
	local pid
	if pid=$(epmd_pid); then
		kill "$pid" 2>/dev/null || true
		wait_gone "$pid" 5 || kill -9 "$pid" 2>/dev/null || true
	fi
	rm -f "$epmd_pid_file"
}

wait_gone() { # PID SECONDS
	local i
	for i in $(seq $(($2 * 10))); do
		kill -0 "$1" 2>/dev/null || return 0
		case $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) in '' | Z*) return 0 ;; esac
		[ $((i % 100)) -ne 0 ] || say "still waiting for the node to end ($((i / 10)) s)"
		sleep 0.1
	done
	return 1
}

fail_start() {
	say "$1"
	say "from $dir/log:"
	local pid lines
	# Erlang's crash reports are long; the lines that matter are the first errors.
	lines=$(cat "$dir/log/startup.log" 2>/dev/null; tail -c +$((log_size + 1)) "$dir/log/$node.log" 2>/dev/null || true)
	{ grep -iE 'error|fail|denied|not ' <<<"$lines" | grep -vE '> *$|<[0-9.]+> {3,}' | head -n 12 || tail -n 12 <<<"$lines"; } |
		cut -c1-240 | sed 's/^/    /' >&2 || true
	if pid=$(beam_pid); then kill "$pid" 2>/dev/null || true; wait_gone "$pid" 10 || kill -9 "$pid" 2>/dev/null || true; fi
	stop_epmd
	die "what to do: read the lines above; if the data is damaged, delete $dir and start again"
}

cmd_start() {
	local bin pid server i log log_size=0
	[ -z "$extra_conf" ] || [ -r "$extra_conf" ] || die "cannot read --conf $extra_conf"
	bin=$(find_bin)
	mkdir -p "$dir"
	if load_state && pid=$(beam_pid); then
		say "already running (pid $pid, AMQP 127.0.0.1:$amqp)"
		return
	fi
	if [ -e "$pid_file" ]; then
		say "removing a stale pid file: the node it names is gone"
		rm -f "$pid_file"
	fi
	stop_epmd # one left over from a crash would hold its port
	choose_ports
	# @localhost, so that nothing depends on how the host's own name resolves.
	[ -n "$node" ] || node="taskbus-$(printf '%s' "$dir" | cksum | cut -d' ' -f1)@localhost"
	save_state
	set_clean_env
	write_files
	cd "$dir" # where the VM drops what it writes when it crashes
	start_epmd
	log=$dir/log/$node.log
	[ ! -e "$log" ] || log_size=$(wc -c <"$log")
	printf 'broker: starting a private RabbitMQ in %s ' "$dir" >&2
	"${clean_env[@]}" setsid "$bin/rabbitmq-server" >"$dir/log/startup.log" 2>&1 </dev/null 9>&- &
	server=$!
	# Now, and not when the node is ready: if the owner ends meanwhile, so may the reader of this script's
	# output, and the next line ends the script.
	if [ -n "$owner" ]; then stop_with_owner "$server" </dev/null >/dev/null 2>&1 9>&- & fi
	for i in $(seq $((start_timeout * 5))); do
		# Asking the log costs nothing; every rabbitmqctl costs a second of CPU.
		if tail -c +$((log_size + 1)) "$log" 2>/dev/null | grep -q 'Server startup complete' && port_open "$amqp"; then
			printf '\n' >&2
			say "ready after $(((i + 4) / 5)) s (pid $(beam_pid || echo '?'), AMQP 127.0.0.1:$amqp)"
			return
		fi
		if ! kill -0 "$server" 2>/dev/null; then
			printf '\n' >&2
			fail_start "the node ended while it was starting"
		fi
		[ $((i % 5)) -ne 0 ] || printf '.' >&2
		sleep 0.2
	done
	printf '\n' >&2
	fail_start "the node is not ready after $start_timeout s"
}

# stop_with_owner waits in the background, so that a test that is killed before
# its clean-up leaves no broker behind. It ends with the node that SERVER starts.
stop_with_owner() { # SERVER
	local pid=
	while kill -0 "$owner" 2>/dev/null || [ -z "$pid" ]; do
		if [ -n "$pid" ]; then
			[ "$(beam_pid || true)" = "$pid" ] || return 0
		else
			pid=$(beam_pid) || kill -0 "$1" 2>/dev/null || return 0
		fi
		sleep 1
	done
	locked cmd_stop
}

# quiet_management takes the management plugin's observer of events off the node. When
# RabbitMQ 3.10 stops, that observer wants to change settings of the VM's applications,
# which wait for its end meanwhile: each stop would take five seconds more.
quiet_management() {
	[ "$with_mgmt" = yes ] && command -v erl_call >/dev/null || return 0
	# The cookie is in HOME, and so in no list of processes.
	env -i PATH="$PATH" HOME="$dir" ERL_EPMD_PORT="$epmd" timeout 5 \
		erl_call -n "$node" -a 'gen_event delete_handler [rabbit_event, rabbit_mgmt_db_handler, stop]' >/dev/null 2>&1 9>&- || true
}

# SIGTERM makes the VM shut RabbitMQ down in order, as `rabbitmqctl stop` does,
# but can only reach the process whose identity was checked a moment ago.
cmd_stop() {
	local pid
	if ! load_state; then say "no node in $dir"; return; fi
	if pid=$(beam_pid); then
		quiet_management
		kill "$pid"
		if ! wait_gone "$pid" "$stop_timeout"; then
			say "not gone after $stop_timeout s: killing pid $pid"
			kill -9 "$pid" 2>/dev/null || true
			wait_gone "$pid" 5 || die "pid $pid does not end; look at it with: ps -fp $pid"
		fi
		say "stopped"
	else
		say "not running"
	fi
	rm -f "$pid_file"
	stop_epmd
}

cmd_kill() {
	local pid
	must_load_state
	pid=$(beam_pid) || die "not running"
	kill -9 "$pid"
	wait_gone "$pid" 10 || die "pid $pid does not end"
	rm -f "$pid_file"
	say "killed"
}

cmd_status() {
	local pid
	if load_state && pid=$(beam_pid); then
		echo "running: pid $pid, node $node, AMQP 127.0.0.1:$amqp$([ "$with_mgmt" = yes ] && echo ", management http://127.0.0.1:$mgmt (user $user)"), directory $dir"
	else
		echo "not running: $dir"
		exit 3
	fi
}

amqp_url() { printf 'amqp://%s:%s@127.0.0.1:%s/' "$user" "$(cat "$password_file")" "$amqp"; }

cmd_env() {
	must_load_state
	printf 'export TASKBUS_TEST_AMQP_URL=%q\n' "$(amqp_url)"
	[ "$with_mgmt" != yes ] || printf 'export TASKBUS_TEST_MGMT_URL=%q\n' "http://$user:$(cat "$password_file")@127.0.0.1:$mgmt"
	printf 'export TASKBUS_TEST_BROKER_DIR=%q\n' "$dir"
}

cmd_ctl() {
	must_load_state
	local bin
	bin=$(find_bin)
	beam_pid >/dev/null || die "not running; start it with: scripts/broker.sh start"
	[ $# -gt 0 ] || set -- help
	set_clean_env
	"${clean_env[@]}" "$bin/rabbitmqctl" -n "$node" "$@"
}

# Two starts at once would fight over one directory: the second waits for the
# first and then finds the node running.
locked() {
	mkdir -p "$dir"
	exec 9>"$dir/lock"
	if command -v flock >/dev/null; then
		flock -w "$((start_timeout + stop_timeout))" 9 || die "another broker.sh is busy in $dir"
	fi
	"$@"
}

main() {
	case $verb in
	start) locked cmd_start ;;
	stop) if [ -d "$dir" ]; then locked cmd_stop; else say "no node in $dir"; fi ;;
	kill) locked cmd_kill ;;
	status) cmd_status ;;
	url) must_load_state; amqp_url; echo ;;
	env) cmd_env ;;
	ctl) cmd_ctl "$@" ;;
	help | -h | --help) usage ;;
	*) usage >&2; die "unknown verb: $verb" ;;
	esac
}

main "$@"; exit

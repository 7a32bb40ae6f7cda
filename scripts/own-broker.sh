# To be sourced by scripts that want a private broker for themselves, which is started for
# them and ended with them, also after a failure or Ctrl-C. They stand in the project's root.

# only_one NAME: ends the script if another `make NAME` runs in this checkout.
only_one() {
	mkdir -p .run
	exec 8>".run/$1.lock"
	flock -n 8 || { echo "another make $1 runs in this checkout: wait for it" >&2; exit 1; }
}

# own_broker NAME [ARGS...]: starts it in .run/NAME-broker ($broker_dir), with these arguments
# of scripts/broker.sh start.
own_broker() {
	broker_dir=$PWD/.run/$1-broker
	shift
	trap finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# A node that an earlier run left behind when it was killed may be anything.
	[ ! -d "$broker_dir" ] || scripts/broker.sh stop --dir "$broker_dir"
	rm -rf "$broker_dir"
	scripts/broker.sh start --dir "$broker_dir" --until-gone $$ "$@"
}

# finish ends it with the script; the script may define a function last_words, which is told
# the exit code.
finish() {
	local code=$?
	trap - EXIT
	# Ctrl-C reaches the whole group: the clean-up must not be cut short by a second one.
	trap '' INT TERM
	scripts/broker.sh stop --dir "$broker_dir" || true
	if declare -F last_words >/dev/null; then last_words "$code"; fi
	exit "$code"
}

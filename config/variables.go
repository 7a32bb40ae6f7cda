package config

// Variable describes an environment variable, for the documentation.
type Variable struct {
	Name string
	// Default is what counts when it is not set, as Markdown; empty: nothing.
	Default string
	// Meaning is Markdown.
	Meaning string
	// File: the same can be in the file that the variable with _FILE behind its name names. Only one
	// of the two may be set.
	File bool
}

// Variables lists every variable that the command reads.
func Variables() []Variable {
	return []Variable{
		{Name: "RABBITMQ_URL", Default: "`amqp://guest:guest@localhost:5672/`", File: true,
			Meaning: "The broker: `amqp://` or `amqps://user:password@host:port/vhost`, special characters percent-encoded."},
		{Name: "COORDINATOR_PORT", Default: "`8551`", Meaning: "The HTTP port; 0 takes any free one."},
		{Name: "LOG_LEVEL", Default: "`INFO`",
			Meaning: "`DEBUG`, `INFO`, `WARN` (or `WARNING`), `ERROR`, in any case."},
		{Name: "LOG_FORMAT",
			Meaning: "`json`, or `console` for people. Without it: `console` on a terminal, else `json`."},
		{Name: "NO_COLOR", Meaning: "If set, console logs have no colours."},
		{Name: "ASSIGNMENT_STRATEGY", Meaning: "Replaces the default strategy of agents.yaml."},
		{Name: "TASKBUS_CONFIG", Meaning: "The path of agents.yaml."},
		{Name: "TASKBUS_QUOTAS", Default: "beside agents.yaml", Meaning: "The path of quotas.yaml."},
		{Name: "TASKBUS_HISTORY", Default: "a file", File: true,
			Meaning: "The history of usage: `off`, the absolute path of a SQLite file, or " +
				"`postgres://user:password@host:5432/database`. Without it, where there are quotas: `history.db` in " +
				"`$STATE_DIRECTORY`, else in `${XDG_STATE_HOME:-$HOME/.local/state}/taskbus/<broker>/`."},
		{Name: "TASKBUS_WEBHOOK_URL", File: true,
			Meaning: "The receiver of events about quotas: an `http://` or `https://` URL."},
		{Name: "TASKBUS_WEBHOOK_SECRET", File: true,
			Meaning: "Signs them: `whsec_` and base64, from `echo whsec_$(openssl rand -base64 32)`."},
		{Name: "TASKBUS_WEBHOOK_FORMAT", Default: "`standard`",
			Meaning: "`standard`, or `slack` for text, which need not be signed."},
		{Name: "TASKBUS_HTTP_BIND", Meaning: "Replaces `http.bind`."},
		{Name: "TASKBUS_ADVERTISE_URL", Meaning: "Replaces `http.advertise_url`."},
		{Name: "TASKBUS_HTTP_URL", Default: "`http://127.0.0.1:$COORDINATOR_PORT`",
			Meaning: "Where the commands find the coordinators: URLs, divided by commas. The leader is asked."},
		{Name: "TASKBUS_ADMIN_TOKEN", File: true,
			Meaning: "The secret that allows changes over HTTP, for `serve` and the commands that change something: " +
				"32 to 4,096 printable ASCII characters without spaces. Without it nothing can be changed."},
		{Name: "TASKBUS_AGENT_SECRET", File: true,
			Meaning: "The same for agents: `taskbus agents token ID` derives each one's token from it."},
		{Name: "TASKBUS_GATEWAY_TOKEN", File: true,
			Meaning: "The same for gateways, which ask for quota on behalf of every agent."},
		{Name: "TASKBUS_GATEWAY_NAMES",
			Meaning: "Common names of certificates whose holders are gateways, divided by commas."},
		{Name: "TASKBUS_RLS",
			Meaning: "Where Envoy's rate-limit service listens, as host:port; without it, it is off."},
		{Name: "TASKBUS_TLS_CERT", Meaning: "A PEM file with the certificate of both servers."},
		{Name: "TASKBUS_TLS_KEY", Meaning: "A PEM file with its key."},
		{Name: "TASKBUS_CLIENT_CA", Meaning: "A PEM file with the authority of agents' and gateways' certificates."},
		{Name: "TASKBUS_CA",
			Meaning: "A PEM file with the authority of the coordinators' certificates, for the commands and for standbys."},
	}
}

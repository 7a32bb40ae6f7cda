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
			Meaning: "[Where the history of usage is kept](../howto/usage-history.md#where-it-is-kept)."},
		{Name: "TASKBUS_WEBHOOK_URL", File: true,
			Meaning: "The [webhook](../howto/quota-alerts.md#webhook)."},
		{Name: "TASKBUS_WEBHOOK_SECRET", File: true,
			Meaning: "Its secret."},
		{Name: "TASKBUS_WEBHOOK_FORMAT", Default: "`standard`",
			Meaning: "`standard` or `slack`."},
		{Name: "TASKBUS_HTTP_BIND", Meaning: "Replaces `http.bind`."},
		{Name: "TASKBUS_ADVERTISE_URL", Meaning: "Replaces `http.advertise_url`."},
		{Name: "TASKBUS_HTTP_URL", Default: "`http://127.0.0.1:$COORDINATOR_PORT`",
			Meaning: "The coordinators, for commands: URLs, divided by commas. The leader is asked."},
		{Name: "TASKBUS_ADMIN_TOKEN", File: true,
			Meaning: "Allows changes over HTTP, for `serve` and commands: 32 to 4,096 printable ASCII characters without " +
				"spaces. Without it nothing can be changed."},
		{Name: "TASKBUS_AGENT_SECRET", File: true,
			Meaning: "The same for agents: `taskbus agents token ID` derives tokens from it."},
		{Name: "TASKBUS_GATEWAY_TOKEN", File: true,
			Meaning: "The same for gateways."},
		{Name: "TASKBUS_PRODUCER_TOKEN", File: true,
			Meaning: "The same for producers: tasks over HTTP."},
		{Name: "TASKBUS_GATEWAY_NAMES",
			Meaning: "Common names of gateways' certificates, divided by commas."},
		{Name: "TASKBUS_RLS",
			Meaning: "Where Envoy's rate-limit service listens: host:port."},
		{Name: "TASKBUS_TLS_CERT", Meaning: "Certificate of both servers, a PEM file."},
		{Name: "TASKBUS_TLS_KEY", Meaning: "Its key, likewise."},
		{Name: "TASKBUS_CLIENT_CA", Meaning: "Authority of agents' and gateways' certificates, likewise."},
		{Name: "TASKBUS_CA",
			Meaning: "Authority of the coordinators' certificates, for commands and standbys, likewise."},
	}
}

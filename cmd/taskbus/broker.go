package main

import (
	"cmp"
	"net/url"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// environment reads the variables and checks the broker's URL once more as the
// AMQP client will read it, so that nothing starts that could never connect.
func (a *app) environment() (config.Environment, error) {
	env, err := config.ReadEnvironment(a.getenv)
	if err == nil {
		err = amqpbus.CheckURL(env.RabbitMQURL.Reveal())
	}
	return env, configError(err)
}

// loadConfig finds agents.yaml and reads it.
func (a *app) loadConfig(flag string, env config.Environment) (string, *config.Config, error) {
	path, err := config.Search(flag, a.getenv)
	if err != nil {
		return "", nil, configError(err)
	}
	cfg, err := config.Load(path, env)
	return path, cfg, configError(err)
}

// brokerAddress is what people may see of the broker's URL: scheme, host and
// virtual host.
func brokerAddress(secret config.Secret) string {
	return cmp.Or(amqpbus.Address(secret.Reveal()), "the broker")
}

// brokerUnset reports whether the environment names no broker, so that the one of this machine is meant.
func (a *app) brokerUnset() bool {
	return a.getenv("RABBITMQ_URL") == "" && a.getenv("RABBITMQ_URL_FILE") == ""
}

// setBroker says what to set where it names none.
const setBroker = "RABBITMQ_URL is not set; set it to amqp://user:password@host:5672/vhost, or RABBITMQ_URL_FILE to a file that holds that"

// brokerAdvice is what to look at when the broker cannot be reached.
func (a *app) brokerAdvice() string {
	if a.brokerUnset() {
		return setBroker + ", or start a broker there"
	}
	return "check RABBITMQ_URL and that the broker runs"
}

// virtualHost is the broker's virtual host as rabbitmqctl wants it.
func virtualHost(secret config.Secret) string {
	u, err := url.Parse(secret.Reveal())
	if err != nil || strings.TrimPrefix(u.Path, "/") == "" {
		return "/"
	}
	return strings.TrimPrefix(u.Path, "/")
}

// openQuietBus is for the commands that say themselves what they find.
func (a *app) openQuietBus(env config.Environment) bus.Bus {
	return a.openBus(env.RabbitMQURL.Reveal(), zerolog.Nop())
}

// sessionName is how this process appears in the broker's list of connections.
func sessionName(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return "taskbus " + command + "@" + host
}

// stringFlags takes flags of commands.
type stringFlags interface {
	StringVar(p *string, name, value, usage string)
}

func configFlag(flags stringFlags, into *string) {
	flags.StringVar(into, "config", "",
		"path of agents.yaml (default $TASKBUS_CONFIG, else config/agents.yaml, agents.yaml, /etc/taskbus/agents.yaml)")
}

func quotasFlag(flags stringFlags, into *string) {
	flags.StringVar(into, "quotas", "",
		"path of quotas.yaml (default $TASKBUS_QUOTAS, else quotas.yaml beside agents.yaml, if there is one)")
}

// brokerUser is the user of the broker's URL; empty when it names none.
func brokerUser(secret config.Secret) string {
	u, err := url.Parse(secret.Reveal())
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}

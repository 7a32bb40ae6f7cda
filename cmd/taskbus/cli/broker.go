package cli

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

// Environment reads the variables and checks the broker's URL once more as the
// AMQP client will read it, so that nothing starts that could never connect.
func (a *App) Environment() (config.Environment, error) {
	env, err := config.ReadEnvironment(a.Getenv)
	if err == nil {
		err = amqpbus.CheckURL(env.RabbitMQURL.Reveal())
	}
	return env, ConfigError(err)
}

// LoadConfig finds agents.yaml and reads it.
func (a *App) LoadConfig(flag string, env config.Environment) (string, *config.Config, error) {
	path, err := config.Search(flag, a.Getenv)
	if err != nil {
		return "", nil, ConfigError(err)
	}
	cfg, err := config.Load(path, env)
	return path, cfg, ConfigError(err)
}

// Configuration is the environment with the agents.yaml that it, or the flag, names.
func (a *App) Configuration(flag string) (env config.Environment, path string, cfg *config.Config, err error) {
	if env, err = a.Environment(); err == nil {
		path, cfg, err = a.LoadConfig(flag, env)
	}
	return env, path, cfg, err
}

// BrokerAddress is what people may see of the broker's URL: scheme, host and
// virtual host.
func BrokerAddress(secret config.Secret) string {
	return cmp.Or(amqpbus.Address(secret.Reveal()), "the broker")
}

// BrokerUnset reports whether the environment names no broker, so that the one of this machine is meant.
func (a *App) BrokerUnset() bool {
	return a.Getenv("RABBITMQ_URL") == "" && a.Getenv("RABBITMQ_URL_FILE") == ""
}

// SetBroker says what to set where it names none.
const SetBroker = "RABBITMQ_URL is not set; set it to amqp://user:password@host:5672/vhost, or RABBITMQ_URL_FILE " +
	"to a file that holds that"

// BrokerAdvice is what to look at when the broker cannot be reached.
func (a *App) BrokerAdvice() string {
	if a.BrokerUnset() {
		return SetBroker + ", or start a broker there"
	}
	return "check RABBITMQ_URL and that the broker runs"
}

// VirtualHost is the broker's virtual host as rabbitmqctl wants it.
func VirtualHost(secret config.Secret) string {
	u, err := url.Parse(secret.Reveal())
	if err != nil || strings.TrimPrefix(u.Path, "/") == "" {
		return "/"
	}
	return strings.TrimPrefix(u.Path, "/")
}

// OpenQuietBus is for the commands that say themselves what they find.
func (a *App) OpenQuietBus(env config.Environment) bus.Bus {
	return a.OpenBus(env.RabbitMQURL.Reveal(), zerolog.Nop())
}

// SessionName is how this process appears in the broker's list of connections.
func SessionName(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return "taskbus " + command + "@" + host
}

// BrokerUser is the user of the broker's URL; empty when it names none.
func BrokerUser(secret config.Secret) string {
	u, err := url.Parse(secret.Reveal())
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}

package config

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"taskbus/config/yamlconf"
	"taskbus/coordinator/strategy"
)

// environment is the Source of faults in variables.
const environment = "environment"

// The variables that are read. An empty variable counts as unset, because that
// is what compose files and unit files make of one that is not given.
const (
	envURL       = "RABBITMQ_URL"
	envURLFile   = "RABBITMQ_URL_FILE"
	envPort      = "COORDINATOR_PORT"
	envLogLevel  = "LOG_LEVEL"
	envLogFormat = "LOG_FORMAT"
	envStrategy  = "ASSIGNMENT_STRATEGY"
	envAdvertise = "TASKBUS_ADVERTISE_URL"
	envConfig    = "TASKBUS_CONFIG"
	envQuotas    = "TASKBUS_QUOTAS"
	envToken     = "TASKBUS_ADMIN_TOKEN"
	envTokenFile = "TASKBUS_ADMIN_TOKEN_FILE"

	envHistory     = "TASKBUS_HISTORY"
	envHistoryFile = "TASKBUS_HISTORY_FILE"
)

// LogLevel is the least severe level that is logged.
type LogLevel string

// The levels.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is how log lines look.
type LogFormat string

// The formats.
const (
	LogAuto    LogFormat = "" // console where the log goes to a terminal, else json
	LogJSON    LogFormat = "json"
	LogConsole LogFormat = "console" // for people at a terminal
)

// Environment is what the environment variables say.
type Environment struct {
	// RabbitMQURL is RABBITMQ_URL, or the content of the file RABBITMQ_URL_FILE
	// names; amqp://guest:guest@localhost:5672/ if neither is set.
	RabbitMQURL Secret
	// Port is COORDINATOR_PORT, 0 to 65535; 8551 if not set. 0 asks the system
	// for a free port, which is meant for tests.
	Port int
	// LogLevel is LOG_LEVEL (any case; WARNING is WARN); info if not set.
	LogLevel LogLevel
	// LogFormat is LOG_FORMAT (any case); LogAuto if not set.
	LogFormat LogFormat
	// Strategy is ASSIGNMENT_STRATEGY, the name of a strategy that exists; empty
	// if not set. Whether agents.yaml enables it is for [Load] to say.
	Strategy string
	// AdvertiseURL is TASKBUS_ADVERTISE_URL; empty if not set.
	AdvertiseURL string
	// AdminToken is what [ReadAdminToken] gives.
	AdminToken Secret
	// History is TASKBUS_HISTORY, or the content of the file TASKBUS_HISTORY_FILE names: where
	// the history of usage is kept, as [HistoryOff], an absolute path, or the URL of a PostgreSQL
	// database. Empty if neither is set.
	History Secret
}

// HistoryOff says that no history of usage is kept.
const HistoryOff = "off"

// ReadEnvironment reads and checks all variables but TASKBUS_CONFIG, which is
// [Search]'s, and TASKBUS_QUOTAS, which is [SearchQuotas]'s. The error is a *Faults with every one that is wrong;
// it never
// holds a part of the broker's URL or of the admin token.
func ReadEnvironment(getenv func(string) string) (Environment, error) {
	env := Environment{
		RabbitMQURL: NewSecret("amqp://guest:guest@localhost:5672/"),
		Port:        8551,
		LogLevel:    LogInfo,
	}
	v := variableReader{getenv: getenv}
	v.read(envURL, env.setURL)
	v.readFile(envURLFile, envURL, env.setURLFromFile)
	v.read(envPort, env.setPort)
	v.read(envLogLevel, env.setLogLevel)
	v.read(envLogFormat, env.setLogFormat)
	v.read(envStrategy, env.setStrategy)
	v.read(envAdvertise, func(value string) error {
		if fault := badURL(value); fault != "" {
			return errors.New("must be the URL at which the other coordinators reach this one, such as http://taskbus-1:8551: " +
				fault)
		}
		env.AdvertiseURL = value
		return nil
	})
	v.readSecret(&env.AdminToken, envToken, envTokenFile, "token")
	v.read(envHistory, env.setHistory)
	v.readFile(envHistoryFile, envHistory, env.setHistoryFromFile)
	if err := yamlconf.ErrorOf(v.faults); err != nil {
		return Environment{}, err
	}
	return env, nil
}

// variableReader reads environment variables and collects what is wrong with them.
type variableReader struct {
	getenv func(string) string
	faults []Fault
}

// read hands a variable that is set to set.
func (v *variableReader) read(name string, set func(value string) error) {
	value := v.getenv(name)
	if value == "" {
		return
	}
	if err := set(value); err != nil {
		v.faults = append(v.faults, Fault{Source: environment, Path: name, Text: err.Error()})
	}
}

// readFile is read for a variable that names a file with what could also stand
// in the variable other.
func (v *variableReader) readFile(name, other string, set func(path string) error) {
	v.read(name, func(path string) error {
		if v.getenv(other) != "" {
			return errors.New(other + " is set too; unset one of the two, so that it is clear which counts")
		}
		return set(path)
	})
}

// setURL checks the broker's URL. What net/url says about a bad one quotes it,
// with the password, and is therefore not passed on.
func (e *Environment) setURL(value string) error {
	const want = "; write amqp://user:password@host:5672/vhost (amqps:// for TLS), with special characters in user, " +
		"password and vhost percent-encoded"
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return errors.New("is not a URL" + want)
	case u.Scheme != "amqp" && u.Scheme != "amqps":
		return errors.New("does not begin with amqp:// or amqps://" + want)
	case u.Hostname() == "":
		return errors.New("names no host" + want)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("has a port that is not from 1 to 65535" + want)
		}
	}
	e.RabbitMQURL = NewSecret(value)
	return nil
}

// setHistory checks where the history is to be kept. The value is not repeated: it may hold a
// password.
func (e *Environment) setHistory(value string) error {
	const want = "; write off, the absolute path of a file such as /var/lib/taskbus/history.db, or " +
		"postgres://user:password@host:5432/database"
	if strings.Contains(value, "://") {
		u, err := url.Parse(value)
		switch {
		case err != nil:
			return errors.New("is not a URL" + want)
		case u.Scheme != "postgres" && u.Scheme != "postgresql":
			return errors.New("is a URL, but of no PostgreSQL database" + want)
		}
	} else if value != HistoryOff && !filepath.IsAbs(value) {
		return errors.New("is neither off, nor an absolute path, nor a URL" + want)
	}
	e.History = NewSecret(value)
	return nil
}

// setHistoryFromFile takes it from a file, as secret stores mount it.
func (e *Environment) setHistoryFromFile(path string) error {
	text, err := readSecretFile(path, "URL")
	if err != nil {
		return err
	}
	if err := e.setHistory(strings.TrimSpace(text)); err != nil {
		return errors.New("the text in the file " + err.Error())
	}
	return nil
}

// setURLFromFile takes the URL from a file, as secret stores mount it.
func (e *Environment) setURLFromFile(path string) error {
	text, err := readSecretFile(path, "URL")
	if err != nil {
		return err
	}
	if err := e.setURL(strings.TrimSpace(text)); err != nil {
		return errors.New("the URL in the file " + err.Error())
	}
	return nil
}

// maxSecret bounds the file of a secret, in bytes.
const maxSecret = 4096

// readSecretFile reads a file as secret stores mount it. The error repeats
// neither the content nor the path: the secret itself may stand where
// the file's name belongs.
func readSecretFile(path, what string) (string, error) {
	data, err := readAtMost(path, maxSecret+1)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("names a file that does not exist; mount the secret or correct the path")
	case err != nil:
		return "", errors.New("names a file that cannot be read: " + rootCause(err).Error())
	case len(data) > maxSecret:
		return "", errors.New("names a file that is too large for a " + what + "; it must hold the " + what + " alone")
	}
	return string(data), nil
}

// rootCause drops the path from a file error.
func rootCause(err error) error {
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func (e *Environment) setPort(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > 65535 {
		return errors.New("must be a port from 1 to 65535, or 0 for any free one, not " + yamlconf.Echo(value))
	}
	e.Port = n
	return nil
}

func (e *Environment) setLogLevel(value string) error {
	switch strings.ToUpper(value) {
	case "DEBUG":
		e.LogLevel = LogDebug
	case "INFO":
		e.LogLevel = LogInfo
	case "WARN", "WARNING":
		e.LogLevel = LogWarn
	case "ERROR":
		e.LogLevel = LogError
	default:
		return errors.New("must be one of DEBUG, INFO, WARN, WARNING, ERROR, not " + yamlconf.Echo(value))
	}
	return nil
}

func (e *Environment) setLogFormat(value string) error {
	switch f := LogFormat(strings.ToLower(value)); f {
	case LogJSON, LogConsole:
		e.LogFormat = f
		return nil
	default:
		return errors.New("must be json or console, not " + yamlconf.Echo(value))
	}
}

func (e *Environment) setStrategy(value string) error {
	if !strategy.Known(value) {
		return errors.New(unknownStrategy(value))
	}
	e.Strategy = value
	return nil
}

func unknownStrategy(name string) string {
	return "no strategy is called " + yamlconf.Echo(name) + yamlconf.DidYouMean(name, strategy.Names())
}

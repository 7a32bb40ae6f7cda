package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"taskbus/config"
)

// ConfigFiles are the files that a coordinator is configured by.
type ConfigFiles struct {
	Agents, Quotas string
	// Limited: there are quotas, at the path Quotas, and so there must be some in future. A
	// file that has gone must not mean that nothing is limited any more.
	Limited bool
	env     config.Environment
}

// FindFiles finds agents.yaml and quotas.yaml, and reads them.
func (a *App) FindFiles(agents, quotas string, env config.Environment) (ConfigFiles, *config.Config, error) {
	f := ConfigFiles{env: env}
	var err error
	if f.Agents, err = config.Search(agents, a.Getenv); err != nil {
		return f, nil, ConfigError(err)
	}
	if f.Quotas, f.Limited, err = config.SearchQuotas(quotas, a.Getenv, f.Agents); err != nil {
		return f, nil, ConfigError(err)
	}
	cfg, err := f.Load()
	return f, cfg, ConfigError(err)
}

// Load reads the files. Quotas that were not there before may have come; those that were
// there must still be.
func (f *ConfigFiles) Load() (*config.Config, error) {
	quotas := f.Quotas
	if !f.Limited {
		_, found, err := config.SearchQuotas("", func(string) string { return "" }, f.Agents)
		if err != nil {
			return nil, err
		}
		if !found {
			quotas = ""
		}
	}
	cfg, err := config.LoadWithQuotas(f.Agents, quotas, f.env)
	switch {
	case f.Limited && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; to do without quotas write `{}` into %s", err, f.Quotas)
	case err == nil && quotas != "":
		f.Limited = true
	}
	return cfg, err
}

// Names are the files that were looked at, for people; paths for a command line.
func (f *ConfigFiles) Names() string { return strings.Join(f.looked(), " and ") }
func (f *ConfigFiles) Paths() string { return strings.Join(f.looked(), " ") }

func (f *ConfigFiles) looked() []string {
	if f.Limited {
		return []string{f.Agents, f.Quotas}
	}
	return []string{f.Agents}
}

// QuotasName is where the quotas are read from, for the log; empty: there are none.
func (f *ConfigFiles) QuotasName() string {
	if f.Limited {
		return f.Quotas
	}
	return ""
}

// unsafe are the characters that have no place in the name of a directory.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// HistoryFile is the default place of the history; "" if there is no place.
func HistoryFile(getenv func(string) string, env config.Environment) string {
	// systemd names several directories with colons between them: the first is ours.
	if dir, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "history.db")
	}
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	_, where, _ := strings.Cut(BrokerAddress(env.RabbitMQURL), "://")
	name := strings.Trim(unsafe.ReplaceAllString(where, "-"), "-.")
	if name == "" {
		name = "broker"
	}
	return filepath.Join(state, "taskbus", name, "history.db")
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"taskbus/config"
)

// configFiles are the files that a coordinator is configured by.
type configFiles struct {
	agents, quotas string
	// limited: there are quotas, at the path quotas, and so there must be some in future. A
	// file that has gone must not mean that nothing is limited any more.
	limited bool
	env     config.Environment
}

// findFiles finds agents.yaml and quotas.yaml, and reads them.
func (a *app) findFiles(agents, quotas string, env config.Environment) (configFiles, *config.Config, error) {
	f := configFiles{env: env}
	var err error
	if f.agents, err = config.Search(agents, a.getenv); err != nil {
		return f, nil, configError(err)
	}
	if f.quotas, f.limited, err = config.SearchQuotas(quotas, a.getenv, f.agents); err != nil {
		return f, nil, configError(err)
	}
	cfg, err := f.load()
	return f, cfg, configError(err)
}

// load reads the files. Quotas that were not there before may have come; those that were
// there must still be.
func (f *configFiles) load() (*config.Config, error) {
	quotas := f.quotas
	if !f.limited {
		_, found, err := config.SearchQuotas("", func(string) string { return "" }, f.agents)
		if err != nil {
			return nil, err
		}
		if !found {
			quotas = ""
		}
	}
	cfg, err := config.LoadWithQuotas(f.agents, quotas, f.env)
	switch {
	case f.limited && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; to do without quotas write `{}` into %s", err, f.quotas)
	case err == nil && quotas != "":
		f.limited = true
	}
	return cfg, err
}

// names are the files that were looked at, for people; paths for a command line.
func (f *configFiles) names() string { return strings.Join(f.looked(), " and ") }
func (f *configFiles) paths() string { return strings.Join(f.looked(), " ") }

func (f *configFiles) looked() []string {
	if f.limited {
		return []string{f.agents, f.quotas}
	}
	return []string{f.agents}
}

// quotasName is where the quotas are read from, for the log; empty: there are none.
func (f *configFiles) quotasName() string {
	if f.limited {
		return f.quotas
	}
	return ""
}

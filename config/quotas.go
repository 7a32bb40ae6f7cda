package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"taskbus/config/quotas"
	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

//go:embed quotas.schema.json
var quotasSchema []byte

// QuotasSchema is the JSON Schema (draft-07) of quotas.yaml, for editors and for
// `taskbus check --schema quotas`. The caller owns the copy.
func QuotasSchema() []byte { return bytes.Clone(quotasSchema) }

// LoadQuotas reads quotas.yaml from path. The error is a *Faults, or says why the file cannot
// be read.
func LoadQuotas(path string) (*coordinator.Quotas, error) {
	data, err := readRegular(path, quotas.MaxBytes+1)
	if err != nil {
		return nil, fmt.Errorf("read the quotas: %w", err)
	}
	return quotas.Parse(data, path)
}

// quotasName is the file that is looked for beside agents.yaml.
const quotasName = "quotas.yaml"

// SearchQuotas finds quotas.yaml: the flag --quotas if it is not empty, else the variable
// TASKBUS_QUOTAS if it is not empty, else quotas.yaml beside the agents.yaml at beside. A place
// that was named must exist. Without a name there need not be a file: path is then where it
// would be, and found is false.
func SearchQuotas(flag string, getenv func(string) string, beside string) (path string, found bool, err error) {
	named, by := flag, "--quotas"
	if named == "" {
		named, by = getenv(envQuotas), envQuotas
	}
	if named != "" {
		if err := readableFile(named); err != nil {
			return "", false, fmt.Errorf("find the quotas named by %s: %w", by, err)
		}
		return named, true, nil
	}
	path = filepath.Join(filepath.Dir(beside), quotasName)
	switch err := readableFile(path); {
	case err == nil:
		return path, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	default:
		return "", false, fmt.Errorf("find the quotas: %w", err)
	}
}

// WithQuotas is this configuration with these quotas, nil for none, in the place of those
// that it has.
func (c *Config) WithQuotas(q *coordinator.Quotas) *Config {
	changed := *c
	changed.policy.Quotas = q
	changed.lanesOf(q)
	changed.lanesAbove(q)
	changed.setVersion()
	changed.setSource()
	return &changed
}

// WithChangedQuotas is WithQuotas for the quotas of the files with standing changes to them: the
// configuration stays one of the same files.
func (c *Config) WithChangedQuotas(q *coordinator.Quotas) *Config {
	changed := c.WithQuotas(q)
	changed.fileVersion, changed.quotas = c.fileVersion, c.quotas
	return changed
}

// LoadWithQuotas is Load together with LoadQuotas; quotasPath is that of quotas.yaml, empty
// for none. A *Faults has the faults of both files.
func LoadWithQuotas(path, quotasPath string, env Environment) (_ *Config, err error) {
	c, err := Load(path, env)
	if quotasPath == "" {
		return c, err
	}
	q, quotasErr := LoadQuotas(quotasPath)
	if err := both(err, quotasErr); err != nil {
		return nil, err
	}
	defer yamlconf.RefusePanic(quotasPath, &err)
	return c.WithQuotas(q), nil
}

// both makes one error of two. Faults stay faults: together, in the order of the files.
func both(first, second error) error {
	var a, b *Faults
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	case errors.As(first, &a) && errors.As(second, &b):
		return &Faults{List: append(append([]Fault(nil), a.List...), b.List...)}
	default:
		return errors.Join(first, second)
	}
}

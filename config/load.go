package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"taskbus/config/yamlconf"
	"taskbus/coordinator/strategy"
)

// Keys, types, ranges, words and defaults of both schemas are written out of the readers; descriptions, and conditions
// between keys, by hand.
//
//go:generate go test . -run TestSchemasAreWhatIsRead -update

//go:embed agents.schema.json
var schema []byte

// Schema is the JSON Schema (draft-07) of agents.yaml, for editors and for
// `taskbus check --schema`. The caller owns the copy.
func Schema() []byte { return bytes.Clone(schema) }

// Parse reads the text of an agents.yaml. source names it in faults. The error
// is always a *Faults.
func Parse(data []byte, source string) (*Config, error) {
	return parse(data, source, "")
}

// Load reads agents.yaml from path and puts env's ASSIGNMENT_STRATEGY, if set,
// in place of the file's default strategy. The error is a *Faults, or says why
// the file cannot be read.
func Load(path string, env Environment) (*Config, error) {
	data, err := readRegular(path, maxFileBytes+1)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return parse(data, path, env.Strategy)
}

// readRegular reads the first limit bytes of a configuration file. A pipe is refused, and not waited
// for: nothing may ever be written to it, and a reload would wait for good.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from: nothing can be lost by closing it
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() { // reading a directory says so itself
		return nil, fmt.Errorf("%s is no regular file (%s)", path, mode.Type())
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// readAtMost reads the first limit bytes of a file, which may be a pipe.
func readAtMost(path string, limit int64) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from: nothing can be lost by closing it
	return io.ReadAll(io.LimitReader(f, limit))
}

// parse does everything in one go, so that the faults of the file and of the
// override come together.
func parse(data []byte, source, override string) (_ *Config, err error) {
	defer yamlconf.RefusePanic(source, &err)
	d := &decoder{&yamlconf.Decoder{Source: source, File: agentsFile}}
	c := defaults()
	root := d.Parse(data)
	if root != nil {
		d.root(place{Node: root}, c)
	}
	d.Check()
	if override != "" {
		d.override(override, c)
	}
	if err := yamlconf.ErrorOf(d.Faults); err != nil {
		return nil, err
	}
	c.policy.Settings.MaxTimeout = c.maxTaskTimeout()
	c.settleLanes()
	c.setVersion()
	c.policy.Source = sourceOf(root, override, c.policy.Strategies)
	return c, nil
}

// override puts the environment's strategy in place of the file's default.
func (d *decoder) override(name string, c *Config) {
	text := notEnabled(name, c)
	switch {
	case !strategy.Known(name):
		text = unknownStrategy(name)
	case text == "" && name == strategy.MarketName:
		if taskType := batched(c.policy.Routes); taskType != "" {
			text = notInBatches + ", as tasks of the type " + yamlconf.Clip(taskType) +
				" do; choose another strategy, or give that type one of its own"
		}
	}
	if text != "" {
		d.Faults = append(d.Faults, Fault{Source: environment, Path: envStrategy, Text: text})
		return
	}
	c.policy.Strategy = name
}

// wellKnown is where agents.yaml is looked for when its path is not given.
var wellKnown = []string{"config/agents.yaml", "agents.yaml", "/etc/taskbus/agents.yaml"}

// Search finds agents.yaml: the flag --config if it is not empty, else the
// variable TASKBUS_CONFIG if it is not empty, else the first that exists of
// ./config/agents.yaml, ./agents.yaml and /etc/taskbus/agents.yaml. A place that
// was named must exist; there is no falling through to the next. The error lists
// where it was looked for.
func Search(flag string, getenv func(string) string) (string, error) {
	return searchIn(flag, getenv, wellKnown)
}

func searchIn(flag string, getenv func(string) string, places []string) (string, error) {
	named, by := flag, "--config"
	if named == "" {
		named, by = getenv(envConfig), envConfig
	}
	if named != "" {
		if err := readableFile(named); err != nil {
			return "", fmt.Errorf("find the configuration named by %s: %w", by, err)
		}
		return named, nil
	}
	for _, path := range places {
		err := readableFile(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find the configuration: %w", err)
		}
	}
	return "",
		fmt.Errorf(
			"no configuration found: --config and %s are not set, and none of %s exists; name a file or create one of these",
			envConfig, strings.Join(places, ", "))
}

func readableFile(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory; name the file in it", path)
	}
	return err
}

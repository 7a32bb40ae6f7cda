package balance

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// Parse reads the section `agent:` of a YAML file that is written as BALANCING's sample is, and
// checks it. What the file has beside that section is passed over: it may be an application's
// own. Within it an unknown key is an error, because one that is misspelt would have its default.
func Parse(text []byte) (Config, error) {
	var file struct {
		Agent  *Config              `yaml:"agent"`
		Beside map[string]yaml.Node `yaml:",inline"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) { // which is an empty file
		return Config{}, fmt.Errorf("read the section agent: %w", err)
	}
	if file.Agent == nil {
		return Config{}, errors.New("there is no section `agent:` with load-balancing and registry in it")
	}
	if err := file.Agent.Check(); err != nil {
		return Config{}, fmt.Errorf("the section agent: %w", err)
	}
	return *file.Agent, nil
}

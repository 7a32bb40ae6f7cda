package simulator

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"taskbus/config/yamlconf"
)

// The scenarios that come with the program.
//
//go:embed scenarios/*.yaml
var shipped embed.FS

// Shipped lists the names of the scenarios that come with the program, sorted.
func Shipped() []string {
	entries, err := shipped.ReadDir("scenarios")
	if err != nil {
		return nil // it is embedded: there is nothing to go wrong
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	slices.Sort(names) // files are in another order: a.yaml comes after a-b.yaml
	return names
}

// ShippedText is the file of a scenario that comes with the program.
func ShippedText(name string) ([]byte, error) {
	text, err := shipped.ReadFile(path.Join("scenarios", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("no scenario is called %q%s", name, yamlconf.DidYouMean(name, Shipped()))
	}
	return text, nil
}

// Open gives a scenario that comes with the program.
func Open(name string) (*Scenario, error) {
	text, err := ShippedText(name)
	if err != nil {
		return nil, err
	}
	return Read(name+".yaml", name, text)
}

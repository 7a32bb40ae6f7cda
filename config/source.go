package config

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"taskbus/config/quotas"
	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// sourceOf writes a file that was read without a fault once more, as what stands for
// it where it is recorded: without its comments, where people write down what is
// private, and with the strategy of the environment in the place of
// its own default. Read again, it gives a configuration of the same version. It is
// empty if the file cannot be written, which is no reason to do without it.
//
// Nothing else has to be left out: agents.yaml has no place for a secret (the broker's
// URL and the tokens come from the environment), and a key that it does not know is
// a fault.
func sourceOf(root *yaml.Node, override string, enabled []coordinator.Strategy) string {
	root = yamlconf.WithoutComments(root)
	if override != "" {
		markDefault(root, override, enabled)
	}
	return yamlconf.Encode(root)
}

// documentBreak parts the two files in the source of a configuration with quotas. Neither
// holds such a line: what stands in the first column there is a key of the whole file.
const documentBreak = "\n---\n"

// setSource puts the quotas' text behind that of agents.yaml, as a second document, in the
// place of what stands there.
func (c *Config) setSource() {
	agents, _, had := strings.Cut(c.policy.Source, documentBreak)
	if had {
		agents += "\n"
	}
	switch q := c.policy.Quotas; {
	case q == nil:
		c.policy.Source = agents
	case agents == "" || q.Source == "":
		c.policy.Source = "" // half of it would be read as something else
	default:
		c.policy.Source = strings.TrimSuffix(agents, "\n") + documentBreak + q.Source
	}
}

// ParseSource reads what a [coordinator.Policy] says of itself in Source: a configuration with
// its quotas, if it has any. source names it in faults, whose lines count from the beginning of
// the file that they are in. The error is always a *Faults.
func ParseSource(text, source string) (*Config, error) {
	agents, second, has := strings.Cut(text, documentBreak)
	c, err := Parse([]byte(agents), source)
	if !has {
		return c, err
	}
	q, quotasErr := quotas.Parse([]byte(second), source+" ("+quotasName+")")
	if err := both(err, quotasErr); err != nil {
		return nil, err
	}
	return c.WithQuotas(q), nil
}

// markDefault makes a strategy the default of a file.
func markDefault(root *yaml.Node, name string, enabled []coordinator.Strategy) {
	section := yamlconf.Lookup(root, "assignment_strategies")
	if section == nil {
		section = &yaml.Node{Kind: yaml.MappingNode}
		root.Content = append(root.Content, yamlconf.TextNode("assignment_strategies"), section)
	}
	if section.Kind != yaml.MappingNode || len(section.Content) == 0 { // as if it were absent: all are enabled
		*section = yaml.Node{Kind: yaml.MappingNode}
		for i := range enabled {
			section.Content = append(section.Content, yamlconf.TextNode(enabled[i].Name), &yaml.Node{Kind: yaml.MappingNode})
		}
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		settings := section.Content[i+1]
		if settings.Kind != yaml.MappingNode {
			*settings = yaml.Node{Kind: yaml.MappingNode}
		}
		for k := 0; k+1 < len(settings.Content); k += 2 {
			if settings.Content[k].Value == "default" {
				settings.Content = slices.Delete(settings.Content, k, k+2)
				break
			}
		}
		if section.Content[i].Value == name {
			settings.Content = append(settings.Content, yamlconf.TextNode("default"),
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
		}
	}
}

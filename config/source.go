package config

import (
	"bytes"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

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
	root = withoutComments(root)
	if override != "" {
		markDefault(root, override, enabled)
	}
	return encoded(root)
}

// quotasSourceOf is sourceOf for quotas.yaml, which has no place for a secret either.
func quotasSourceOf(root *yaml.Node) string { return encoded(withoutComments(root)) }

// encoded writes a tree as a file; empty if that fails.
func encoded(root *yaml.Node) (source string) {
	defer func() {
		if recover() != nil { // see decodeDocument
			source = ""
		}
	}()
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if encoder.Encode(root) != nil || encoder.Close() != nil {
		return ""
	}
	return text.String()
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
	agents, quotas, has := strings.Cut(text, documentBreak)
	c, err := Parse([]byte(agents), source)
	if !has {
		return c, err
	}
	q, quotasErr := ParseQuotas([]byte(quotas), source+" ("+quotasName+")")
	if err := both(err, quotasErr); err != nil {
		return nil, err
	}
	return c.WithQuotas(q), nil
}

// withoutComments copies a tree.
func withoutComments(n *yaml.Node) *yaml.Node {
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Content: make([]*yaml.Node, len(n.Content))}
	if yamlconf.IsNull(n) {
		c.Value = "null" // the encoder takes a value with nothing in it for a text
	}
	for i, child := range n.Content {
		c.Content[i] = withoutComments(child)
	}
	return c
}

// markDefault makes a strategy the default of a file.
func markDefault(root *yaml.Node, name string, enabled []coordinator.Strategy) {
	section := yamlconf.Lookup(root, "assignment_strategies")
	if section == nil {
		section = &yaml.Node{Kind: yaml.MappingNode}
		root.Content = append(root.Content, word("assignment_strategies"), section)
	}
	if section.Kind != yaml.MappingNode || len(section.Content) == 0 { // as if it were absent: all are enabled
		*section = yaml.Node{Kind: yaml.MappingNode}
		for i := range enabled {
			section.Content = append(section.Content, word(enabled[i].Name), &yaml.Node{Kind: yaml.MappingNode})
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
			settings.Content = append(settings.Content, word("default"),
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
		}
	}
}

func word(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

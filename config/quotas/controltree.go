package quotas

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/nearest"
	"taskbus/coordinator/pattern"
)

// Where things stand in the tree of a quotas.yaml, for what changes it.

// putKey gives a key of a mapping a value, in the place of the one that it has.
func putKey(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, yamlconf.TextNode(key), value)
}

// dropKey takes a key out of a mapping.
func dropKey(n *yaml.Node, key string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			return
		}
	}
}

// section is the mapping or list under a key, made if there is none. The file has been read
// without a fault: what stands there is of that kind, or nothing.
func section(n *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	if yamlconf.IsNull(n) { // a section with nothing under it
		*n = yaml.Node{Kind: yaml.MappingNode}
	}
	s := yamlconf.Lookup(n, key)
	if s == nil || yamlconf.IsNull(s) {
		s = &yaml.Node{Kind: kind}
		putKey(n, key, s)
	}
	if len(s.Content) == 0 {
		s.Style = 0 // {} and [] are written in one line
	}
	return s
}

// findEntry is the entry of a list whose key has that value; nil: there is none.
func findEntry(list *yaml.Node, key, value string) *yaml.Node {
	for _, item := range list.Content {
		if name := yamlconf.Lookup(item, key); name != nil && name.Value == value {
			return item
		}
	}
	return nil
}

// findPool is the entry of a provider, or of one of its keys, by the name of its pool; nil: there is
// none.
func findPool(providers *yaml.Node, pool string) *yaml.Node {
	provider, key := coordinator.CutPool(pool)
	for _, item := range providers.Content {
		its := ""
		if own := yamlconf.Lookup(item, "key"); own != nil && !yamlconf.IsNull(own) {
			its = own.Value
		}
		if name := yamlconf.Lookup(item, "provider"); name != nil && name.Value == provider && its == key {
			return item
		}
	}
	return nil
}

var wholeText = pattern.New(`^[0-9]+$`)

// scalar is a value as it is written in the file: a number, if it looks like one.
func scalar(text string) *yaml.Node {
	tag := "!!str"
	switch {
	// a negative one is refused as one
	case yamlconf.PlainDecimal.MatchString(text) && wholeText.MatchString(text), yamlconf.WholeNumber.MatchString(text):
		tag = "!!int"
	case yamlconf.PlainDecimal.MatchString(text):
		tag = "!!float"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

// node finds a node of the trees by its id.
func (e *controlEdit) node(id string) (int, error) {
	if e.byID == nil {
		e.byID = make(map[string]int, len(e.quotas.Nodes))
		for i := range e.quotas.Nodes {
			e.byID[e.quotas.Nodes[i].ID] = i
		}
	}
	i, ok := e.byID[id]
	if !ok {
		return 0, unknownNode(e.quotas, id)
	}
	return i, nil
}

// target is the node that a control is about, and its entry in the file.
func (e *controlEdit) target(c *coordinator.QuotaControl) (i int, entry *yaml.Node, err error) {
	if i, err = e.node(c.Target); err == nil {
		entry, err = e.entry(i)
	}
	return i, entry, err
}

// unknownNode says that no node has that id, and which may have been meant.
func unknownNode(q *coordinator.Quotas, id string) error {
	known := make([]string, len(q.Nodes))
	for i := range q.Nodes {
		known[i] = q.Nodes[i].ID
	}
	if meant := nearest.DidYouMean(id, known); meant != "" {
		return fmt.Errorf("no node of the quota trees is called %s; %s", short(id), meant)
	}
	return fmt.Errorf("no node of the quota trees is called %s; `taskbus quota ls` lists them", short(id))
}

// entry is where a node's own settings stand in the file; it is made where the node has none.
func (e *controlEdit) entry(i int) (*yaml.Node, error) {
	n := &e.quotas.Nodes[i]
	var own *yaml.Node
	switch provider, model := e.poolOf(i); {
	case provider != nil:
		return e.entryIn(n, provider, model)
	case n.Kind == coordinator.QuotaGroup:
		own = e.ownEntry(section(e.root, "groups", yaml.SequenceNode), n.Name)
	case n.Kind == coordinator.QuotaAgent:
		own = e.ownEntry(section(e.root, "agents", yaml.SequenceNode), n.Name)
	default:
		own = section(e.root, "pool", yaml.MappingNode)
	}
	if own == nil {
		return nil, unlisted(n)
	}
	return own, nil
}

// poolOf finds the provider, and the model, in whose tree a node is; nil: in none.
func (e *controlEdit) poolOf(i int) (provider, model *coordinator.QuotaNode) {
	for up := i; up >= 0; up = e.quotas.Nodes[up].Parent {
		switch x := &e.quotas.Nodes[up]; {
		case x.Kind == coordinator.QuotaModel:
			model = x
		case x.Kind == coordinator.QuotaPool && x.Provider != "":
			provider = x
		}
	}
	return provider, model
}

// entryIn is entry for a node in the tree of a provider's pool.
func (e *controlEdit) entryIn(n, provider, model *coordinator.QuotaNode) (*yaml.Node, error) {
	pool := findPool(section(e.root, "providers", yaml.SequenceNode), provider.Name)
	if pool != nil && model != nil {
		pool = findEntry(section(pool, "models", yaml.SequenceNode), "model", model.Name)
	}
	switch {
	case pool == nil:
		return nil, unlisted(n)
	case n.Kind == coordinator.QuotaGroup:
		parts := section(pool, "groups", yaml.SequenceNode)
		part := findEntry(parts, "group", n.Name)
		if part == nil {
			part = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{yamlconf.TextNode("group"), scalar(n.Name)}}
			parts.Content = append(parts.Content, part)
		}
		return part, nil
	case n.Kind == coordinator.QuotaAgent:
		return nil,
			fmt.Errorf(
				"%s has nothing of its own in the tree of a provider: agents share there by the weight that they have in their "+
					"group; change the agent's node below pool, or its group's here", short(n.ID))
	default:
		return pool, nil
	}
}

// unlisted says that there is no place for the settings of a node. Every node comes of an entry, so
// that it should not be said; but a control that has no place must be refused, and nothing more.
func unlisted(n *coordinator.QuotaNode) error {
	return fmt.Errorf(
		"no entry of quotas.yaml is that of %s, so that nothing of it can be changed; change the file, and report this "+
			"as a fault of Taskbus", short(n.ID))
}

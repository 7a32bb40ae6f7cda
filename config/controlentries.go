package config

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"taskbus/coordinator"
)

// One change of quotas leaves nearly all groups and agents as they are, and there may be thousands of
// them: what their entries say is read once.

// readEntries are the entries of groups and agents that were read, each while it goes by this tree: the
// trees do not change. Whoever works out quotas looks into those of the time before, and leaves those
// of his own to the next.
type readEntries struct {
	before, now *entryBook
	// own are trees that do change: nothing is kept of them.
	own map[*yaml.Node]bool
}

type entryBook struct {
	registered map[registration]*yaml.Node // with their ids
	groups     map[*yaml.Node]*listedGroup
	agents     map[*yaml.Node]*listedAgent
}

// registration is an entry as it was registered.
type registration struct {
	kind         coordinator.QuotaControlKind
	target, text string
}

func newEntryBook() *entryBook {
	return &entryBook{
		registered: make(map[registration]*yaml.Node), groups: make(map[*yaml.Node]*listedGroup), agents: make(map[*yaml.Node]*listedAgent),
	}
}

// entry is the tree of what somebody has registered, with its id, as an item of the list.
func (r *readEntries) entry(c *coordinator.QuotaControl, list string) (*yaml.Node, error) {
	key := registration{c.Kind, c.Target, c.Value}
	tree := r.now.registered[key]
	if tree == nil {
		tree = r.before.registered[key]
	}
	if tree == nil {
		d := &decoder{file: quotasFile}
		if tree = d.parseTree([]byte(c.Value)); tree == nil {
			return nil, unplaced(d.faults)
		}
		if tree.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("the entry of %s %s must be an object with the keys of %s[] in quotas.yaml", c.Kind, c.Target, list)
		}
		if lookUp(tree, "id") != nil {
			return nil, fmt.Errorf("the id of %s %s is said already; leave id out", c.Kind, c.Target)
		}
		tree = withoutComments(tree) // and the lines of another text
		putKey(tree, "id", scalar(c.Target))
	}
	r.now.registered[key] = tree
	return tree, nil
}

// group is what was read of an entry, as a group of a file that is not linked yet; nil: nothing was.
func (r *readEntries) group(n *yaml.Node) *listedGroup {
	if r == nil {
		return nil
	}
	g := r.now.groups[n]
	if g == nil {
		if g = r.before.groups[n]; g == nil {
			return nil
		}
		r.now.groups[n] = g
	}
	c := *g
	return &c
}

func (r *readEntries) keepGroup(n *yaml.Node, g *listedGroup) {
	if r != nil && !r.own[n] {
		c := *g
		r.now.groups[n] = &c
	}
}

// agent is what was read of an entry; nil: nothing was. It does not change any more.
func (r *readEntries) agent(n *yaml.Node) *listedAgent {
	if r == nil {
		return nil
	}
	a := r.now.agents[n]
	if a == nil {
		if a = r.before.agents[n]; a != nil {
			r.now.agents[n] = a
		}
	}
	return a
}

func (r *readEntries) keepAgent(n *yaml.Node, a *listedAgent) {
	if r != nil && !r.own[n] {
		r.now.agents[n] = a
	}
}

// toEdit is a tree of quotas.yaml into which controls may be put: the entries of groups and agents are
// those of root itself, and must not be changed (see controlEdit.ownEntry).
func toEdit(root *yaml.Node) *yaml.Node {
	c := *root
	c.Content = make([]*yaml.Node, len(root.Content))
	for i, n := range root.Content {
		if i%2 == 1 && root.Kind == yaml.MappingNode && n.Kind == yaml.SequenceNode && (root.Content[i-1].Value == "groups" || root.Content[i-1].Value == "agents") {
			list := *n
			list.Content = append(make([]*yaml.Node, 0, len(n.Content)+1), n.Content...)
			c.Content[i] = &list
			continue
		}
		c.Content[i] = withoutComments(n)
	}
	return &c
}

// ownEntry is the entry of a list whose id that is, to be changed; nil: there is none.
func (e *controlEdit) ownEntry(list *yaml.Node, id string) *yaml.Node {
	for i, item := range list.Content {
		if name := lookUp(item, "id"); name == nil || name.Value != id {
			continue
		}
		if !e.read.own[item] {
			item = withoutComments(item)
			list.Content[i], e.read.own[item] = item, true
		}
		return item
	}
	return nil
}

package quotas

import (
	"fmt"
	"maps"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// One change of quotas leaves nearly all groups and agents as they are, and there may be thousands of
// them: what their entries say is read once.

// readEntries are the entries of groups and agents that were read, each by its tree, which does not
// change. What two rounds in a row have not asked for is forgotten.
type readEntries struct {
	round      int
	registered map[string]*registration // by the ids of the controls
	groups     entries[listedGroup]
	agents     entries[listedAgent]
	// own are trees that do change: nothing is kept of them.
	own map[*yaml.Node]bool
}

// registration is an entry as it was registered, and its tree, with the id.
type registration struct {
	target, text string
	tree         *yaml.Node
	round        int
}

// entries are what was read, and in which round it was last asked for, by the tree that says it.
type entries[T any] map[*yaml.Node]*entry[T]

type entry[T any] struct {
	said  T
	round int
}

// find gives what a tree says; nil: it is not known.
func (m entries[T]) find(n *yaml.Node, round int) *T {
	e := m[n]
	if e == nil {
		return nil
	}
	e.round = round
	return &e.said
}

func (m entries[T]) keep(n *yaml.Node, said *T, round int) *T {
	m[n] = &entry[T]{*said, round}
	return &m[n].said
}

// forget drops what no round has asked for since that one.
func (m entries[T]) forget(since int) {
	maps.DeleteFunc(m, func(_ *yaml.Node, e *entry[T]) bool { return e.round < since })
}

func newReadEntries() *readEntries {
	return &readEntries{registered: make(map[string]*registration), groups: make(entries[listedGroup]),
		agents: make(entries[listedAgent])}
}

// begin begins a round.
func (r *readEntries) begin() { r.round++ }

// forget drops what was not asked for in this round, nor in the one before: a change is worked out
// before it is made, and what stands may be asked for in between.
func (r *readEntries) forget() {
	maps.DeleteFunc(r.registered, func(_ string, e *registration) bool { return e.round < r.round-1 })
	r.groups.forget(r.round - 1)
	r.agents.forget(r.round - 1)
}

// entry is the tree of what has been registered, with its id, as an item of the list.
func (r *readEntries) entry(c *coordinator.QuotaControl, list string) (*yaml.Node, error) {
	known := r.registered[c.ID]
	if known == nil || known.target != c.Target || known.text != c.Value {
		d := newDecoder("")
		tree := d.Parse([]byte(c.Value))
		if tree == nil {
			return nil, unplaced(d.Faults)
		}
		if tree.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("the entry of %s %s must be an object with the keys of %s[] in quotas.yaml", c.Kind, c.Target,
				list)
		}
		if yamlconf.Lookup(tree, "id") != nil {
			return nil, fmt.Errorf("the id of %s %s is said already; leave id out", c.Kind, c.Target)
		}
		tree = yamlconf.WithoutComments(tree) // and the lines of another text
		putKey(tree, "id", scalar(c.Target))
		known = &registration{target: c.Target, text: c.Value, tree: tree}
		r.registered[c.ID] = known
	}
	known.round = r.round
	return known.tree, nil
}

// group is what was read of an entry, as in a file that is not linked yet; nil: nothing was. It is good
// until it is asked for again.
func (r *readEntries) group(n *yaml.Node) *listedGroup {
	if r == nil {
		return nil
	}
	g := r.groups.find(n, r.round)
	if g != nil {
		g.above, g.below, g.agents = nil, g.below[:0], g.agents[:0]
	}
	return g
}

// keepGroup has what was read of an entry be known, unless that changes.
func (r *readEntries) keepGroup(n *yaml.Node, g *listedGroup) *listedGroup {
	if r == nil || r.own[n] {
		return g
	}
	return r.groups.keep(n, g, r.round)
}

// agent is what was read of an entry; nil: nothing was. It does not change any more.
func (r *readEntries) agent(n *yaml.Node) *listedAgent {
	if r == nil {
		return nil
	}
	return r.agents.find(n, r.round)
}

func (r *readEntries) keepAgent(n *yaml.Node, a *listedAgent) {
	if r != nil && !r.own[n] {
		r.agents.keep(n, a, r.round)
	}
}

// toEdit is a tree of quotas.yaml into which controls may be put: the entries of groups and agents are
// those of root itself, and must not be changed (see controlEdit.ownEntry).
func toEdit(root *yaml.Node) *yaml.Node {
	c := *root
	c.Content = make([]*yaml.Node, len(root.Content))
	for i, n := range root.Content {
		if i%2 == 1 && root.Kind == yaml.MappingNode && n.Kind == yaml.SequenceNode &&
			(root.Content[i-1].Value == "groups" || root.Content[i-1].Value == "agents") {
			list := *n
			list.Content = append(make([]*yaml.Node, 0, len(n.Content)+1), n.Content...)
			c.Content[i] = &list
			continue
		}
		c.Content[i] = yamlconf.WithoutComments(n)
	}
	return &c
}

// ownEntry is the entry of a list whose id that is, to be changed; nil: there is none.
func (e *controlEdit) ownEntry(list *yaml.Node, id string) *yaml.Node {
	for i, item := range list.Content {
		if name := yamlconf.Lookup(item, "id"); name == nil || name.Value != id {
			continue
		}
		if !e.read.own[item] {
			item = yamlconf.WithoutComments(item)
			list.Content[i], e.read.own[item] = item, true
		}
		return item
	}
	return nil
}

package quotas

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// Controls: what operators and rules have changed of quotas.yaml since it was written. They are
// put into the tree of the file, which is then read as any file is: what no file may say no
// control may either, and is refused with the same words.

// Suspended is a control that does not fit the file (any more), and why.
type Suspended struct {
	ID  string
	Why string
}

// ControlledFile is a quotas.yaml that controls are put into: again and again, as they change. It is
// safe for concurrent use.
type ControlledFile struct {
	base *coordinator.Quotas
	tree func() *yaml.Node // of base: read when it is first needed, and never changed; nil: it cannot be written down

	mu   sync.Mutex // held while quotas are worked out: some milliseconds
	read *readEntries
}

// NewControlledFile is for the quotas of one file; nil: there is none.
func NewControlledFile(base *coordinator.Quotas) *ControlledFile {
	return &ControlledFile{base: base, read: newReadEntries(), tree: sync.OnceValue(func() *yaml.Node {
		if root := newDecoder("").Parse([]byte(base.Source)); root != nil {
			return yamlconf.WithoutComments(root)
		}
		return nil
	})}
}

// Base is what the file itself says; nil: there is none.
func (f *ControlledFile) Base() *coordinator.Quotas { return f.base }

// With is what the file's quotas become with standing controls. Those that do not fit are left
// out, and reported: the later of two that do not fit together. It is the file's own quotas, and no
// copy, where no control changes anything. Source is written only if it is asked for: that takes
// as long as all else together.
func (f *ControlledFile) With(controls []coordinator.QuotaControl, source bool) (*coordinator.Quotas, []Suspended) {
	if f.base == nil || len(controls) == 0 {
		return f.base, without(controls, "there is no quotas.yaml")
	}
	root := f.tree()
	if root == nil {
		return f.base, without(controls, "the text of quotas.yaml cannot be written down; write it more simply")
	}
	ordered := slices.Clone(controls)
	slices.SortStableFunc(ordered, func(a, b coordinator.QuotaControl) int { return controlTurn(&a) - controlTurn(&b) })
	var suspended []Suspended
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read.begin()
	defer f.read.forget()
	for len(ordered) > 0 {
		e, bad, why := controlled(f.base, root, ordered, f.read)
		if why == nil {
			if e.quotas.Source = ""; source {
				e.quotas.Source = sourceOf(e.root)
			}
			return e.quotas, suspended
		}
		if bad < 0 {
			bad, why = firstUnfit(f.base, root, ordered, f.read, why)
		}
		suspended = append(suspended, Suspended{ordered[bad].ID, why.Error()})
		ordered = slices.Delete(ordered, bad, bad+1)
	}
	return f.base, suspended
}

// without says of all that they do not count.
func without(controls []coordinator.QuotaControl, why string) []Suspended {
	var suspended []Suspended
	for i := range controls {
		suspended = append(suspended, Suspended{controls[i].ID, why})
	}
	return suspended
}

// controlTurn is when a control is put into the tree: groups before the agents in them, both
// before what changes them, and what is relative last.
func controlTurn(c *coordinator.QuotaControl) int {
	return [coordinator.NumQuotaControlKinds]int{
		coordinator.ControlGroup: 0, coordinator.ControlAgent: 1, coordinator.ControlSet: 2, coordinator.ControlBoost: 3,
	}[c.Kind]
}

// firstUnfit finds the first of some controls that do not fit together with which those before it
// do not either. There are few: each look reads the whole file.
func firstUnfit(
	base *coordinator.Quotas, root *yaml.Node, ordered []coordinator.QuotaControl, read *readEntries, why error,
) (int, error) {
	lo, hi := 0, len(ordered)-1 // [:lo] fit, [:hi+1] do not
	for lo < hi {
		middle := (lo + hi) / 2
		if _, _, err := controlled(base, root, ordered[:middle+1], read); err != nil {
			hi, why = middle, err
		} else {
			lo = middle + 1
		}
	}
	return hi, why
}

// controlled reads the file with all of some controls. If they do not fit, bad is the one that
// does not, or -1 where that is not known.
func controlled(base *coordinator.Quotas, root *yaml.Node, ordered []coordinator.QuotaControl,
	read *readEntries) (e *controlEdit, bad int, why error) {
	e = &controlEdit{root: toEdit(root), quotas: base, read: read, listed: make(map[string]map[string]bool)}
	read.own = make(map[*yaml.Node]bool)
	for i := range ordered {
		c := &ordered[i]
		// What is set is a node's, which may have been registered; what boosts are relative to is as
		// it is before all of them. A registered group needs neither.
		first := i == 0 || controlTurn(c) != controlTurn(&ordered[i-1])
		if first && (i > 0 && c.Kind == coordinator.ControlSet || c.Kind == coordinator.ControlBoost) {
			if why := e.readAgain(); why != nil {
				return nil, -1, why
			}
		}
		if err := e.put(c); err != nil {
			return nil, i, err
		}
	}
	if why := e.readAgain(); why != nil {
		return nil, -1, why
	}
	return e, -1, nil
}

// controlEdit is the tree of a quotas.yaml into which controls are put.
type controlEdit struct {
	root *yaml.Node
	// quotas are what the tree gave when it was read last, grown with how its limits are
	// divided; nil: it has not been read.
	quotas *coordinator.Quotas
	grown  *grower
	byID   map[string]int // nodes of quotas
	read   *readEntries
	// listed are the ids in the lists of the file, by list, for those of them that were asked for.
	listed map[string]map[string]bool
}

// readAgain reads the tree as it is now.
func (e *controlEdit) readAgain() error {
	d := newDecoder("")
	d.read = e.read
	q, g := d.quotaTree(e.root)
	if len(d.Faults) > 0 { // what was read before may stand elsewhere now: a fault says where
		d = newDecoder("")
		q, g = d.quotaTree(e.root)
	}
	if len(d.Faults) > 0 {
		return unplaced(d.Faults)
	}
	e.quotas, e.grown, e.byID = q, g, nil
	return nil
}

// unplaced makes an error of faults in a tree that no longer stands anywhere: without lines.
func unplaced(faults []yamlconf.Fault) error {
	const most = 3
	var texts []string
	for i := range faults {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more faults", len(faults)-most))
			break
		}
		text := faults[i].Text
		if faults[i].Path != "" {
			text = faults[i].Path + ": " + text
		}
		texts = append(texts, text)
	}
	return errors.New(strings.Join(texts, "; "))
}

// put puts one control into the tree.
func (e *controlEdit) put(c *coordinator.QuotaControl) error {
	switch c.Kind {
	case coordinator.ControlGroup:
		return e.register("groups", c)
	case coordinator.ControlAgent:
		return e.register("agents", c)
	case coordinator.ControlSet:
		return e.set(c)
	default:
		return e.boost(c)
	}
}

// register adds an entry to one of the lists of the file.
func (e *controlEdit) register(list string, c *coordinator.QuotaControl) error {
	entry, err := e.read.entry(c, list)
	if err != nil {
		return err
	}
	all := section(e.root, list, yaml.SequenceNode)
	ids := e.ids(list, all)
	if ids[c.Target] {
		return fmt.Errorf("quotas.yaml lists %s %s itself; change it there, or by a control of its node", c.Kind, c.Target)
	}
	all.Content, ids[c.Target] = append(all.Content, entry), true
	return nil
}

// ids are those of the entries of a list.
func (e *controlEdit) ids(list string, all *yaml.Node) map[string]bool {
	ids := e.listed[list]
	if ids == nil {
		ids = make(map[string]bool, len(all.Content)+len(e.read.registered))
		for _, item := range all.Content {
			if id := yamlconf.Lookup(item, "id"); id != nil {
				ids[id.Value] = true
			}
		}
		e.listed[list] = ids
	}
	return ids
}

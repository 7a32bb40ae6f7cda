package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder walks the YAML tree by hand and collects faults. yaml.v3's own strict
// decoding stops at the first kind of fault, gives no columns, and lets 08 and
// 0x10 through as numbers.
type decoder struct {
	source string
	file   fileKind
	faults []Fault
	// checks run after decoding: each compares one value with the whole file.
	checks []func()
	// read is what is known of entries of groups and agents; nil: nothing.
	read *readEntries
}

// place is a node of the file and the path that leads to it.
type place struct {
	node *yaml.Node
	path string
}

// reader decodes the value at one place into its destination.
type reader func(p place)

// readers says what may stand in a mapping, by key.
type readers map[string]reader

func (d *decoder) faultAt(line, column int, path, format string, args ...any) {
	d.faults = append(d.faults, Fault{Source: d.source, Line: line, Column: column, Path: path,
		Text: fmt.Sprintf(format, args...)})
}

func (d *decoder) fault(p place, format string, args ...any) {
	d.faultAt(p.node.Line, p.node.Column, p.path, format, args...)
}

// later puts off a check until the whole file has been decoded.
func (d *decoder) later(check func()) { d.checks = append(d.checks, check) }

// suggest is didYouMean for as long as it will be printed: a file with more
// faults than are printed must not cost a search for each.
func (d *decoder) suggest(got string, known func() []string) string {
	if len(d.faults) >= maxPrinted {
		return ""
	}
	return didYouMean(got, known())
}

// faulty reports whether a fault was found at exactly this path.
func (d *decoder) faulty(path string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool { return f.Path == path })
}

// faultyBelow reports whether a fault was found at this path or at an item of it.
func (d *decoder) faultyBelow(path string) bool {
	return slices.ContainsFunc(d.faults,
		func(f Fault) bool { return f.Path == path || strings.HasPrefix(f.Path, path+"[") })
}

// child is the place of a key's value, or the fallback's where the key is not
// given; its path is the key's in both cases.
func child(p place, key string, fallback place) place {
	path := join(p.path, key)
	if p.node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(p.node.Content); i += 2 {
			if p.node.Content[i].Value == key {
				return place{p.node.Content[i+1], path}
			}
		}
	}
	return place{fallback.node, path}
}

func isScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode }
func isNull(n *yaml.Node) bool   { return isScalar(n) && n.Tag == "!!null" }

// canHaveKeys reports whether the node is a mapping, if only an empty one.
func canHaveKeys(n *yaml.Node) bool { return n.Kind == yaml.MappingNode || isNull(n) }

// found describes what stands at a place, for the end of "must be …, not …".
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch {
	case isNull(n):
		return "nothing (write a value or remove the key)"
	case n.Tag == "!!str":
		return echo(n.Value)
	default:
		return strings.Trim(echo(n.Value), `"`)
	}
}

// entries calls each for every key of a mapping, in the order of the file, and
// refuses repeated keys. A mapping with nothing in it counts as empty.
func (d *decoder) entries(p place, what string, each func(key, value place)) {
	if isNull(p.node) {
		return
	}
	if p.node.Kind != yaml.MappingNode {
		d.fault(p, "must be %s, not %s", what, found(p.node))
		return
	}
	firstLine := make(map[string]int, len(p.node.Content)/2)
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		k := p.node.Content[i]
		if k.Kind != yaml.ScalarNode {
			d.faultAt(k.Line, k.Column, p.path, "a key must be a word, not %s", found(k))
			continue
		}
		path := join(p.path, k.Value)
		if line, repeated := firstLine[k.Value]; repeated {
			d.faultAt(k.Line, k.Column, path, "is already given in line %d; remove one of the two", line)
			continue
		}
		firstLine[k.Value] = k.Line
		each(place{k, path}, place{p.node.Content[i+1], path})
	}
}

// join appends a key to a path, quoted when it is not a plain word.
func join(path, key string) string {
	if !idPattern.MatchString(key) {
		key = echo(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// object hands every key of a mapping to its reader. The value of a key that
// has none is not looked at, and so cannot leak into the fault.
func (d *decoder) object(p place, known readers) {
	d.objectOf(p, known, func() []string { return slices.Sorted(maps.Keys(known)) })
}

// objectOf is object where some of the keys have a reader only to be refused: own
// lists the others, of which an unknown key may be a misspelling.
func (d *decoder) objectOf(p place, known readers, own func() []string) {
	d.entries(p, "a mapping of settings", func(key, value place) {
		read, ok := known[key.node.Value]
		if !ok {
			d.fault(key, "unknown key%s%s", elsewhere(key.node.Value, known), d.suggest(key.node.Value, own))
			return
		}
		read(value)
	})
}

// elsewhere says of a key that people look for in an agent's entry where it belongs instead; "" of any other.
func elsewhere(key string, known readers) string {
	if known["max_concurrent_tasks"] == nil {
		return ""
	}
	switch key {
	case "model", "provider", "llm":
		return ": which model the work uses is said by tasks (estimated_usage) and results (usage), and limited in quotas.yaml"
	case "id", "name":
		return ": the name of an entry is the key that it stands under"
	}
	return ""
}

// has reports whether the mapping has the key, right or wrong.
func has(n *yaml.Node, key string) bool { return child(place{node: n}, key, place{}).node != nil }

// list calls each for every item. A list with nothing in it counts as empty.
func (d *decoder) list(p place, what string, each func(item place)) {
	d.items(p, what+", e.g. [a, b]", each)
}

// items is list for items that are no mere words.
func (d *decoder) items(p place, what string, each func(item place)) {
	if isNull(p.node) {
		return
	}
	if p.node.Kind != yaml.SequenceNode {
		d.fault(p, "must be a list of %s, not %s", what, found(p.node))
		return
	}
	for i, item := range p.node.Content {
		each(place{item, p.path + "[" + strconv.Itoa(i) + "]"})
	}
}

package yamlconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Decoder walks the YAML tree of one file and collects faults. yaml.v3's own strict
// decoding stops at the first kind of fault, gives no columns, and lets 08 and
// 0x10 through as numbers.
type Decoder struct {
	// Source names the file in faults.
	Source string
	File   File
	// Faults in the order in which they were found.
	Faults []Fault
	// checks run after decoding: each compares one value with the whole file.
	checks []func()
	// facts, if not nil: nothing is read, and readers note there what they accept.
	facts map[string]Facts
}

// Place is a node of the file and the path that leads to it. The zero value is nowhere.
type Place struct {
	Node *yaml.Node
	Path string
}

// Reader decodes the value at one place into its destination.
type Reader func(p Place)

// Keys says what may stand in a mapping.
type Keys map[string]Reader

// faultAt notes a fault at a place that is no node.
func (d *Decoder) faultAt(line, column int, path, format string, args ...any) {
	if d.facts != nil {
		return
	}
	d.Faults = append(d.Faults, Fault{Source: d.Source, Line: line, Column: column, Path: path,
		Text: fmt.Sprintf(format, args...)})
}

// Fault notes what is wrong at a place.
func (d *Decoder) Fault(p Place, format string, args ...any) {
	d.faultAt(p.Node.Line, p.Node.Column, p.Path, format, args...)
}

// Later puts off a check until the whole file has been decoded.
func (d *Decoder) Later(check func()) { d.checks = append(d.checks, check) }

// Check does what was put off.
func (d *Decoder) Check() {
	for _, check := range d.checks {
		check()
	}
}

// Suggest is DidYouMean for as long as it will be printed: a file with more
// faults than are printed must not cost a search for each.
func (d *Decoder) Suggest(got string, known func() []string) string {
	if len(d.Faults) >= MaxPrinted {
		return ""
	}
	return DidYouMean(got, known())
}

// Faulty reports whether a fault was found at exactly this path.
func (d *Decoder) Faulty(path string) bool {
	return slices.ContainsFunc(d.Faults, func(f Fault) bool { return f.Path == path })
}

// FaultyBelow reports whether a fault was found at this path or at an item of it.
func (d *Decoder) FaultyBelow(path string) bool {
	return slices.ContainsFunc(d.Faults,
		func(f Fault) bool { return f.Path == path || strings.HasPrefix(f.Path, path+"[") })
}

// Here is a reader that notes where something stands, to be read when more is known.
func (p *Place) Here(at Place) { *p = at }

// Noted is Here for a value that read is going to read later: Describe finds what read accepts.
func (d *Decoder) Noted(into *Place, read Reader) Reader {
	if d.facts != nil {
		return read
	}
	return into.Here
}

// Given reports whether the place is somewhere.
func (p Place) Given() bool { return p.Node != nil }

// Scalar reports whether a single value stands there.
func (p Place) Scalar() bool { return p.Node.Kind == yaml.ScalarNode }

// Null reports whether nothing stands there.
func (p Place) Null() bool { return IsNull(p.Node) }

// IsNull reports whether a node is nothing.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Number reports whether a number stands there, and no text that looks like one.
func (p Place) Number() bool { return p.Scalar() && (p.Node.Tag == "!!int" || p.Node.Tag == "!!float") }

// CanHaveKeys reports whether a mapping stands there, if only an empty one.
func (p Place) CanHaveKeys() bool { return p.Node.Kind == yaml.MappingNode || p.Null() }

// Child is the place of a key's value, or the fallback's where the key is not
// given; its path is the key's in both cases.
func (p Place) Child(key string, fallback Place) Place {
	if n := Lookup(p.Node, key); n != nil {
		fallback.Node = n
	}
	return Place{fallback.Node, Join(p.Path, key)}
}

// Has reports whether the mapping has the key, right or wrong.
func (p Place) Has(key string) bool { return Lookup(p.Node, key) != nil }

// Lookup is the value of a key of a mapping; nil: it is not given.
func Lookup(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// Item is the place of an item of a list.
func (p Place) Item(i int) Place {
	return Place{p.Node.Content[i], p.Path + "[" + strconv.Itoa(i) + "]"}
}

// Found describes what stands at a place, for the end of "must be …, not …".
func (p Place) Found() string {
	switch n := p.Node; {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case p.Null():
		return "nothing (write a value or remove the key)"
	case n.Tag == "!!str":
		return Echo(n.Value)
	default:
		return strings.Trim(Echo(n.Value), `"`)
	}
}

// Join appends a key to a path, quoted when it is not a plain word.
func Join(path, key string) string {
	if !ID.Pattern.MatchString(key) {
		key = Echo(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Entries calls each for every key of a mapping, in the order of the file, and
// refuses repeated keys. A mapping with nothing in it counts as empty.
func (d *Decoder) Entries(p Place, what string, each func(key, value Place)) {
	if d.facts != nil && d.note(p, Facts{"type": "object"}) {
		each(Place{p.Node, p.Path + ".<key>"}, Place{p.Node, p.Path + ".*"})
		return
	}
	if p.Null() && !d.File.NoEmpty {
		return
	}
	if p.Node.Kind != yaml.MappingNode {
		d.Fault(p, "must be %s, not %s", what, p.Found())
		return
	}
	firstLine := make(map[string]int, len(p.Node.Content)/2)
	for i := 0; i+1 < len(p.Node.Content); i += 2 {
		k := p.Node.Content[i]
		if k.Kind != yaml.ScalarNode {
			d.faultAt(k.Line, k.Column, p.Path, "a key must be a word, not %s", Place{Node: k}.Found())
			continue
		}
		path := Join(p.Path, k.Value)
		if line, repeated := firstLine[k.Value]; repeated {
			d.faultAt(k.Line, k.Column, path, "is already given in line %d; remove one of the two", line)
			continue
		}
		firstLine[k.Value] = k.Line
		each(Place{k, path}, Place{p.Node.Content[i+1], path})
	}
}

// Object hands every key of a mapping to its reader. The value of a key that
// has none is not looked at, and so cannot leak into the fault.
func (d *Decoder) Object(p Place, known Keys) {
	d.ObjectOf(p, known, func() []string { return slices.Sorted(maps.Keys(known)) })
}

// ObjectOf is Object where some of the keys have a reader only to be refused: own
// lists the others, of which an unknown key may be a misspelling.
func (d *Decoder) ObjectOf(p Place, known Keys, own func() []string) {
	if d.facts != nil && d.note(p, Facts{"type": "object"}) {
		for _, key := range own() {
			at := Place{p.Node, Join(p.Path, key)}
			d.note(at, Facts{})
			known[key](at)
		}
		return
	}
	d.Entries(p, "a mapping of settings", func(key, value Place) {
		read, ok := known[key.Node.Value]
		if !ok {
			elsewhere := ""
			if d.File.Elsewhere != nil {
				elsewhere = d.File.Elsewhere(key.Node.Value, known)
			}
			d.Fault(key, "unknown key%s%s", elsewhere, d.Suggest(key.Node.Value, own))
			return
		}
		read(value)
	})
}

// Section is a reader of a mapping of settings.
func (d *Decoder) Section(known Keys) Reader { return func(p Place) { d.Object(p, known) } }

// Need refuses a mapping at p without a key; say is what to do about it.
func (d *Decoder) Need(p Place, key, say string) { d.NeedAt(p, p, key, say) }

// NeedAt is Need where the fault belongs to another place than the mapping.
func (d *Decoder) NeedAt(at, p Place, key, say string) {
	switch {
	case d.facts != nil:
		d.note(Place{p.Node, Join(p.Path, key)}, Facts{"required": true})
	case p.CanHaveKeys() && !p.Has(key):
		d.Fault(Place{at.Node, Join(p.Path, key)}, "is missing%s", say)
	}
}

// List calls each for every item of a list of words. A list with nothing in it counts as empty.
func (d *Decoder) List(p Place, what string, each func(item Place)) {
	d.Items(p, what+", e.g. [a, b]", each)
}

// Items is List for items that are no mere words.
func (d *Decoder) Items(p Place, what string, each func(item Place)) {
	if d.facts != nil && d.note(p, Facts{"type": "array"}) {
		each(Place{p.Node, p.Path + "[]"})
		return
	}
	if p.Null() && !d.File.NoEmpty {
		return
	}
	if p.Node.Kind != yaml.SequenceNode {
		d.Fault(p, "must be a list of %s, not %s", what, p.Found())
		return
	}
	for i := range p.Node.Content {
		each(p.Item(i))
	}
}

// Ignored accepts a key of earlier versions, whatever it says, and notes that and why it counts no more.
func (d *Decoder) Ignored(notes *[]string, why string) Reader {
	return func(p Place) {
		switch {
		case d.facts != nil:
			d.note(p, Facts{"deprecated": true})
		case !p.Null():
			*notes = append(*notes, p.Path+" is ignored: "+why)
		}
	}
}

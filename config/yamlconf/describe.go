package yamlconf

import (
	"maps"

	"gopkg.in/yaml.v3"
)

// Facts are what a reader accepts, and the default, by keywords of JSON Schema: type, minimum, exclusiveMinimum,
// maximum, enum, pattern, default, deprecated; and required: the mapping must have the key.
type Facts map[string]any

// Describe returns what a reader accepts, by path: the keys of a mapping below its path, the values of a mapping of
// any keys at ".*" (the keys at ".<key>"), the items of a list at "[]". It runs the reader without a file, so that the
// destinations must hold their defaults, and be good for nothing else.
func Describe(read func(d *Decoder, p Place)) map[string]Facts {
	d := &Decoder{facts: make(map[string]Facts)}
	read(d, Place{Node: &yaml.Node{}})
	return d.facts
}

// note adds facts of a place.
func (d *Decoder) note(p Place, facts Facts) bool {
	if d.facts[p.Path] == nil {
		d.facts[p.Path] = Facts{}
	}
	maps.Copy(d.facts[p.Path], facts)
	return true
}

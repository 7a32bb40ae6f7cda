package web

import "encoding/json"

// maxDepth bounds how deep a value may nest: the entry of a group or agent needs five levels.
const maxDepth = 16

// Value reads one value of valid JSON, and refuses a key that is given twice: it is not known which of
// the two is meant.
func Value(d *json.Decoder, depth int) (value any, fault string) {
	if depth > maxDepth {
		return nil, "it nests too deep"
	}
	token, err := d.Token()
	if err != nil {
		return nil, "it cannot be read"
	}
	switch token {
	case json.Delim('{'):
		object := make(map[string]any)
		for d.More() {
			key, err := d.Token()
			name, _ := key.(string)
			if err != nil {
				return nil, "it cannot be read"
			}
			if _, twice := object[name]; twice {
				return nil, "a key is given twice: give it once"
			}
			if object[name], fault = Value(d, depth+1); fault != "" {
				return nil, fault
			}
		}
		_, _ = d.Token() // the end, which valid JSON has
		return object, ""
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, fault := Value(d, depth+1)
			if fault != "" {
				return nil, fault
			}
			list = append(list, item)
		}
		_, _ = d.Token()
		return list, ""
	default:
		return token, ""
	}
}

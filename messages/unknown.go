package messages

import (
	"maps"
	"slices"

	"taskbus/coordinator/nearest"
)

// maxUnknown bounds how many unknown fields of a message are named.
const maxUnknown = 8

// noteUnknown notes the name of a field that the schema does not have.
func (s *scanner) noteUnknown(name []byte) {
	if len(s.unknownFields) < maxUnknown {
		s.unknownFields = append(s.unknownFields, Clean(string(name), maxLabelKey))
	}
}

// within notes what an object of the message has that is not among known, by "name.field". The objects that may
// hold anything, payload and labels, are not asked about.
func (e *envelope) within(name string, object map[string]any, known ...string) {
	for _, field := range slices.Sorted(maps.Keys(object)) {
		if len(e.unknown) < maxUnknown && !slices.Contains(known, field) {
			e.unknown = append(e.unknown, name+"."+Clean(field, maxLabelKey))
		}
	}
}

// The fields of objects within messages.
var (
	fieldsOfUsage   = []string{"requests", "input_tokens", "output_tokens", "cost_usd", "provider", "model"}
	fieldsOfService = []string{"provider", "model"}
)

// allOfUsage are the fields of usage, and of what is estimated, which may have alternatives.
func allOfUsage(name string) []string {
	if name == "estimated_usage" {
		return slices.Concat(fieldsOfUsage, []string{"alternatives"})
	}
	return fieldsOfUsage
}

// Nearest asks which field of a type of message may have been meant by one that it does not have: "did you mean
// priority?"; "" where none comes near.
func (d *Decoder) Nearest(schema, unknown string) string {
	known := d.set.Fields(schema)
	for _, object := range []string{"estimated_usage", "usage"} {
		if len(unknown) > len(object) && unknown[:len(object)+1] == object+"." {
			return nearest.DidYouMean(unknown[len(object)+1:], fieldsOfUsage)
		}
	}
	return nearest.DidYouMean(unknown, known)
}

// RefuseUnknown refuses a message for a field that its schema does not have.
func (d *Decoder) RefuseUnknown(schema, unknown string) *Refusal {
	text := "/" + unknown + ": there is no such field of " + schema
	if near := d.Nearest(schema, unknown); near != "" {
		text += "; " + near
	}
	return &Refusal{
		MessageType: schema, Path: "/" + unknown, Keyword: "additionalProperties",
		Text: text + " (global_settings.strict_messages)",
	}
}

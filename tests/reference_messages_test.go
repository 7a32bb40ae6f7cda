package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbus/schemas"
)

// messagePages are the pages that describe the messages, each with an example.
var messagePages = []string{
	"docs/reference/messages.md", "docs/reference/bids-and-claims.md", "docs/reference/events.md",
}

// fieldRegions are the tables of the messages' fields, on the page that has an example of the message.
// What the fields mean is x-meaning in the schemas. A field without one means what it does in the
// first message that has a field of this name with one, and only its name is repeated.
func fieldRegions(t *testing.T) (all []region) {
	t.Helper()
	messages := make(map[string]schemaNode)
	owner := make(map[string]string) // the message that says what a field means
	for _, name := range schemas.Names() {
		if strings.HasPrefix(name, "x-") { // headers, which are Taskbus's own
			continue
		}
		var message schemaNode
		if text, err := schemas.File(name + ".json"); err != nil {
			t.Fatal(err)
		} else if err := json.Unmarshal(text, &message); err != nil {
			t.Fatal(err)
		}
		messages[name] = message
		for _, field := range message.Properties {
			if field.Meaning != "" && owner[field.name] == "" {
				owner[field.name] = name
			}
		}
	}
	for _, page := range messagePages {
		for _, example := range blocks(t, page, "schema") {
			name := example.name
			message, known := messages[name]
			if !known { // a header
				continue
			}
			all = append(all, region{"fields-" + name, page, func(t *testing.T) string {
				for _, field := range message.Properties {
					if field.Meaning == "" && owner[field.name] == "" {
						t.Errorf("schemas/%s.json does not say what %s means (x-meaning)", name, field.name)
					}
				}
				return fieldTable(message, owner)
			}})
		}
	}
	return all
}

// fieldTable describes the fields of a message, required ones in bold, and names those that mean
// what they do elsewhere.
func fieldTable(message schemaNode, owner map[string]string) string {
	elsewhere := make(map[string][]string)
	var order []string
	for _, field := range message.Properties {
		if from := owner[field.name]; field.Meaning == "" && !strings.HasPrefix(field.name, "message_") {
			if elsewhere[from] == nil {
				order = append(order, from)
			}
			elsewhere[from] = append(elsewhere[from], message.fieldName("", field.name))
		}
	}
	out := ""
	if rows := fieldRows("", message); rows != nil {
		out = listOf(rows) + "\n"
	}
	for i, from := range order {
		order[i] = "`" + from + "`: " + strings.Join(elsewhere[from], ", ")
	}
	if order == nil {
		return out
	}
	return out + "As in " + strings.Join(order, "; ") + ".\n"
}

func fieldRows(prefix string, n schemaNode) (rows [][]string) {
	for _, field := range n.Properties {
		if field.Meaning == "" {
			continue
		}
		rows = append(rows, []string{n.fieldName(prefix, field.name), field.bounds(), field.Meaning})
		within := prefix + field.name + "."
		if field.Items != nil {
			rows = append(rows, fieldRows(within, *field.Items)...)
		}
		rows = append(rows, fieldRows(within, field.schemaNode)...)
	}
	return rows
}

func (n schemaNode) fieldName(prefix, name string) string {
	if slices.Contains(n.Required, name) {
		return "**`" + prefix + name + "`**"
	}
	return "`" + prefix + name + "`"
}

// bounds say which values a field may have, in a word where that is possible.
func (n schemaNode) bounds() string {
	kind := fmt.Sprint(n.Type)
	switch {
	case len(n.Enum) > 4:
		return "code"
	case n.Maximum != nil && n.ExclusiveMinimum != nil:
		return ">0–" + thousands(*n.Maximum)
	case n.Maximum != nil && n.Minimum == nil:
		return "≤" + thousands(*n.Maximum)
	case n.Enum != nil || n.Maximum != nil:
		return n.values()
	case kind == "number":
		return "≥0"
	case kind == "array" && n.MaxItems != nil:
		return "list≤" + thousands(*n.MaxItems)
	case kind == "object" || kind == "boolean":
		return kind
	case strings.Contains(n.Pattern, "[0-9]{4}-"):
		return "time"
	case strings.HasPrefix(n.Pattern, "^[A-Za-z0-9][A-Za-z0-9._:-]"):
		return "id"
	case n.MaxLength != nil:
		return "text≤" + thousands(*n.MaxLength)
	}
	if _, length, ok := strings.Cut(n.Pattern, "]{1,"); ok {
		length, _, _ = strings.Cut(length, "}")
		return "text≤" + length
	}
	return "text"
}

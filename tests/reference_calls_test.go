package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const callsPage = "docs/reference/calls.md"

// callOps are the operations of calls, and the schemas of schemas/openapi.yaml that say what each may be asked. The
// first newCallOps of them are of new calls, the others of reservations.
var callOps = []struct{ name, schema string }{
	{"reserve", "CallQuestion"}, {"check", "CallQuestion"}, {"consume", "ConsumeQuestion"}, {"charge", "ConsumeQuestion"},
	{"extend", "CallMore"}, {"settle", "CallUsed"}, {"release", "CallNamed"},
}

const newCallOps = 4

// callFields is the table of the fields of all operations, in the order of the first that has them.
func callFields(t *testing.T) string {
	components := openAPISchemas(t)
	meanings := make(map[string]property)
	used := make(map[string][]string) // the operations of a field
	var order []string
	for _, op := range callOps {
		for _, field := range components[op.schema].Properties {
			if used[field.name] == nil {
				order = append(order, field.name)
			}
			used[field.name] = append(used[field.name], op.name)
			if meanings[field.name].Description == "" {
				meanings[field.name] = field
			}
		}
	}
	var rows [][]string
	for _, name := range order {
		field := meanings[name]
		if field.Description == "" {
			t.Errorf("schemas/openapi.yaml does not say what %s of a call means", name)
		}
		of := field.schemaNode
		if _, schema, ok := strings.Cut(field.Ref, "#/components/schemas/"); ok {
			of = components[schema]
		}
		rows = append(rows, []string{"`" + name + "`", whichOps(used[name]), of.bounds(), field.Description})
	}
	rows = joinSame(rows)
	return listOf(rows)
}

// joinSame makes one row of those whose last cell says that they mean what the row before them does.
func joinSame(rows [][]string) (joined [][]string) {
	for _, row := range rows {
		if last := len(joined) - 1; last >= 0 && row[len(row)-1] == "As "+strings.Trim(joined[last][0], "`")+"." {
			joined[last][0] += ", " + row[0]
			continue
		}
		joined = append(joined, row)
	}
	return joined
}

// whichOps names operations, or those that are missing if they are fewer.
func whichOps(used []string) string {
	var missing, ofNew []string
	for i, op := range callOps {
		if !slices.Contains(used, op.name) {
			missing = append(missing, op.name)
		}
		if i < newCallOps {
			ofNew = append(ofNew, op.name)
		}
	}
	switch {
	case missing == nil:
		return "all"
	case slices.Equal(used, ofNew):
		return "new calls"
	case len(missing) < len(used):
		return "all but " + strings.Join(missing, ", ")
	}
	return strings.Join(used, ", ")
}

// authHeaders is the table of the headers of GET /v1/quota/auth and /v1/quota/auth/settle. A header
// without a description means what the field of its name does.
func authHeaders(t *testing.T) string {
	var document struct {
		Paths map[string]struct {
			Get struct{ Parameters []parameter }
		}
		Components struct{ Parameters map[string]parameter }
	}
	readOpenAPI(t, &document)
	var rows [][]string
	var fields, seen []string
	for _, path := range []string{"/v1/quota/auth", "/v1/quota/auth/settle"} {
		for _, p := range document.Paths[path].Get.Parameters {
			if _, name, ok := strings.Cut(p.Ref, "#/components/parameters/"); ok {
				p = document.Components.Parameters[name]
			}
			switch {
			case slices.Contains(seen, p.Name):
			case p.Description == "":
				fields = append(fields, "`"+p.Name+"`")
			default:
				rows = append(rows, []string{"`" + p.Name + "`", p.Description})
			}
			seen = append(seen, p.Name)
		}
	}
	rows = joinSame(rows)
	return listOf(rows) + "\nAs the fields: " + strings.Join(fields, ", ") + ".\n"
}

type parameter struct {
	Ref               string `yaml:"$ref"`
	Name, Description string
}

func readOpenAPI(t *testing.T, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(projectFile(t, "schemas/openapi.yaml")), into); err != nil {
		t.Fatal(err)
	}
}

// openAPISchemas are the schemas of schemas/openapi.yaml by name.
func openAPISchemas(t *testing.T) map[string]schemaNode {
	t.Helper()
	var document struct {
		Components struct{ Schemas map[string]yaml.Node }
	}
	readOpenAPI(t, &document)
	all := make(map[string]schemaNode)
	for name, node := range document.Components.Schemas {
		var schema schemaNode
		if text, err := inOrder(&node); err != nil {
			t.Fatalf("%s: %v", name, err)
		} else if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = schema
	}
	return all
}

// inOrder writes YAML as JSON, with the members of a mapping in the order of the file.
func inOrder(node *yaml.Node) (json.RawMessage, error) {
	var parts []string
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			value, err := inOrder(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			name, err := json.Marshal(node.Content[i].Value)
			if err != nil {
				return nil, err
			}
			parts = append(parts, string(name)+":"+string(value))
		}
		return json.RawMessage("{" + strings.Join(parts, ",") + "}"), nil
	case yaml.SequenceNode:
		for _, child := range node.Content {
			value, err := inOrder(child)
			if err != nil {
				return nil, err
			}
			parts = append(parts, string(value))
		}
		return json.RawMessage("[" + strings.Join(parts, ",") + "]"), nil
	case yaml.ScalarNode:
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, err
		}
		return json.Marshal(value)
	}
	return nil, fmt.Errorf("line %d: neither a mapping, a list nor a value", node.Line)
}

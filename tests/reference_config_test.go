package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"taskbus/config"
)

// schemaNode is what the reference says of a JSON Schema. Properties keep the order of the file.
type schemaNode struct {
	Ref              string `json:"$ref"`
	Type             any
	Description      string
	Default          any
	Const            any
	Enum             []any
	AnyOf            []schemaNode
	Minimum          *float64
	ExclusiveMinimum *float64
	Maximum          *float64
	MaxItems         *float64
	MaxLength        *float64
	Pattern          string
	Meaning          string `json:"x-meaning"`
	Required         []string
	Properties       properties
	Items            *schemaNode
	Definitions      map[string]schemaNode
	Deprecated       bool
}

type property struct {
	name string
	schemaNode
}

type properties []property

func (p *properties) UnmarshalJSON(text []byte) error {
	read := json.NewDecoder(bytes.NewReader(text))
	if _, err := read.Token(); err != nil { // the opening brace
		return err
	}
	for read.More() {
		name, err := read.Token()
		if err != nil {
			return err
		}
		var text json.RawMessage
		if err := read.Decode(&text); err != nil {
			return err
		}
		if string(text) == "false" { // a key that another forbids
			continue
		}
		next := property{name: name.(string)}
		if err := json.Unmarshal(text, &next.schemaNode); err != nil {
			return err
		}
		*p = append(*p, next)
	}
	return nil
}

// byName gives each property by its name.
func (p properties) byName() map[string]schemaNode {
	named := make(map[string]schemaNode, len(p))
	for _, of := range p {
		named[of.name] = of.schemaNode
	}
	return named
}

// keyRegions are the tables of the keys of agents.yaml: one for each of the larger sections, and one
// for the keys of all others.
func keyRegions(t *testing.T, page string) (all []region) {
	var root schemaNode
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	keys := func(name string, rows [][]string) {
		all = append(all, region{"keys-" + name, page, func(*testing.T) string {
			return listOf(rows)
		}})
	}
	var others [][]string
	for _, p := range root.Properties {
		switch p.name {
		case "agents":
			keys(p.name, append(keyRows("agents.", p.schemaNode), keyRows("agents.<id>.", root.Definitions["agent"])...))
		case "task_routing":
			keys(p.name, keyRows("task_routing.<type>.", root.Definitions["route"]))
		case "assignment_strategies":
			keys(p.name, keyRows("assignment_strategies.<name>.", root.Definitions["strategy"]))
		case "global_settings", "learning", "circuit_breaker", "discovery":
			keys(p.name, joinEqual(keyRows(p.name+".", p.schemaNode)))
		default:
			others = append(others, keyRows("", schemaNode{Properties: properties{p}})...)
		}
	}
	keys("others", others)
	return all
}

// quotaRegions are the tables of the keys of quotas.yaml, one for each of its subjects.
func quotaRegions(t *testing.T, page string) (all []region) {
	var root schemaNode
	if err := json.Unmarshal(config.QuotasSchema(), &root); err != nil {
		t.Fatal(err)
	}
	type part struct {
		prefix string
		of     schemaNode
	}
	sections := root.Properties.byName()
	subjects := []struct {
		name  string
		parts []part
	}{
		{"quota-limits", []part{
			{"limits.<dimension>.", root.Definitions["member_count_limit"]},
			{"borrowing.", root.Definitions["borrowing"]},
			{"lending.", root.Definitions["lending"]},
		}},
		{"quota-groups", []part{{"groups[].", root.Definitions["group"]}, {"agents[].", root.Definitions["agent"]}}},
		{"quota-providers", []part{
			{"pool.", sections["pool"]},
			{"providers[].", root.Definitions["provider"]},
			{"providers[].models[].", root.Definitions["model"]},
			{"providers[].groups[].", root.Definitions["part"]},
		}},
		{"quota-prices", []part{{"prices[].", root.Definitions["price"]}}},
		{"quota-adjustment", []part{
			{"adjustment.idle.", root.Definitions["idle_rule"]},
			{"adjustment.slow.", root.Definitions["slow_rule"]},
		}},
	}
	shown := []string{"groups", "agents", "providers", "pool", "prices", "adjustment"}
	var others schemaNode
	for _, p := range root.Properties {
		if !slices.Contains(shown, p.name) {
			others.Properties = append(others.Properties, p)
		}
	}
	subjects = append(subjects, struct {
		name  string
		parts []part
	}{"quota-settings", []part{{"", others}}})
	for _, s := range subjects {
		var rows [][]string
		for _, p := range s.parts {
			rows = append(rows, keyRows(p.prefix, p.of)...)
		}
		rows = joinEqual(rows)
		if len(rows) == 0 {
			t.Errorf("config/quotas.schema.json has nothing for the table %s", s.name)
		}
		all = append(all, region{s.name, page, func(*testing.T) string {
			return listOf(rows)
		}})
	}
	return all
}

// keyRows describes the keys below a prefix.
func keyRows(prefix string, n schemaNode) (rows [][]string) {
	for _, p := range n.Properties {
		if len(p.Properties) > 0 {
			rows = append(rows, keyRows(prefix+p.name+".", p.schemaNode)...)
			continue
		}
		values := p.values()
		if slices.Contains(n.Required, p.name) {
			values = "required; " + values
		}
		if strings.HasPrefix(p.Description, "As for ") { // and so are the values
			values = ""
		}
		rows = append(rows, []string{"`" + prefix + p.name + "`", values, markdown(p.Description)})
	}
	return rows
}

// joinEqual makes one row of those that have the same values and the same meaning.
func joinEqual(rows [][]string) (joined [][]string) {
	for _, row := range rows {
		same := func(of []string) bool { return slices.Equal(of[1:], row[1:]) }
		if i := slices.IndexFunc(joined, same); i >= 0 {
			joined[i][0] += ", " + row[0]
			continue
		}
		joined = append(joined, row)
	}
	return joined
}

// values are the default of a key, if it has one, and what else it may be.
func (n schemaNode) values() string {
	if len(n.AnyOf) > 0 && n.AnyOf[0].Enum != nil {
		n.Enum = n.AnyOf[0].Enum
	}
	first, kind, other := "", fmt.Sprint(n.Type), "text"
	if n.Default != nil {
		first = code(n.Default)
	}
	switch {
	case n.Deprecated:
		other = "ignored"
	case slices.ContainsFunc(n.AnyOf, func(of schemaNode) bool { return of.Type == "number" || of.Type == "integer" }):
		other = "number or text"
	case n.Type == nil && n.AnyOf == nil && n.Enum == nil: // of a definition
		other = "map"
	case n.Enum != nil:
		var words []string
		for _, word := range n.Enum {
			if word != n.Default {
				words = append(words, code(word))
			}
		}
		other = strings.Join(words, ", ")
	case n.Maximum != nil && n.ExclusiveMinimum != nil:
		other = "above " + thousands(*n.ExclusiveMinimum) + ", to " + thousands(*n.Maximum)
	case n.Maximum != nil:
		other = thousands(*n.Minimum) + "–" + thousands(*n.Maximum)
	case kind == "boolean":
		other = code(n.Default == false)
	case strings.Contains(kind, "boolean"):
		other = "`true`, `false`, list"
	case strings.Contains(kind, "array"):
		other = "list"
	case strings.Contains(kind, "object"):
		other = "map"
	}
	if first == "" {
		return other
	}
	return first + "; " + other
}

// code writes a value of JSON as code.
func code(value any) string {
	switch value := value.(type) {
	case float64:
		return "`" + strconv.FormatFloat(value, 'f', -1, 64) + "`" // not 1e+09
	case string:
		return "`" + value + "`"
	default:
		text, _ := json.Marshal(value) // it was read from JSON
		return "`" + string(text) + "`"
	}
}

// thousands writes a number with commas.
func thousands(n float64) string {
	whole, rest, point := strings.Cut(strconv.FormatFloat(n, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + rest
	}
	return whole
}

// markdown escapes what Markdown would take for markup in a plain text.
func markdown(plain string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`).Replace(plain)
}

// variables are the environment variables, held against those that the code reads.
func variables(t *testing.T) string {
	var rows [][]string
	known := make(map[string]bool)
	for _, v := range config.Variables() {
		name := "`" + v.Name + "`"
		known[v.Name] = true
		if v.File {
			name += " (`_FILE`)"
			known[v.Name+"_FILE"] = true
		}
		rows = append(rows, []string{name, v.Default, v.Meaning})
	}
	read := inSource(t, "config", `\benv[A-Z]\w* += "([A-Z_]+)"`)
	for _, dir := range []string{"cmd/taskbus", "cmd/taskbus/cli", "cmd/taskbus/internal/quota"} {
		read = append(read, inSource(t, dir, `[gG]etenv\("([A-Z_]+)"\)`)...)
	}
	// Variables of the system, which are not set for Taskbus.
	system := []string{"STATE_DIRECTORY", "XDG_STATE_HOME", "HOME", "USER", "LOGNAME", "GOGC", "GOMEMLIMIT"}
	read = slices.DeleteFunc(read, func(name string) bool { return slices.Contains(system, name) })
	sameNames(t, "config.Variables", known, read)
	return listOf(rows)
}

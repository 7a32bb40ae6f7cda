package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"taskbus/config/quotas"
	"taskbus/config/yamlconf"
)

// The keys, types, ranges, words, patterns and defaults of the editors' schemas are those of the readers. What a
// reader does not know is written by hand in the schema, and stays: descriptions, and conditions between keys.
// go test ./config -run TestSchemasAreWhatIsRead -update writes them.
func TestSchemasAreWhatIsRead(t *testing.T) {
	for file, facts := range map[string]map[string]yamlconf.Facts{
		"agents.schema.json": yamlconf.Describe(func(y *yamlconf.Decoder, p place) {
			(&decoder{Decoder: y}).root(p, defaults())
		}),
		"quotas.schema.json": quotas.Describe(),
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := schemaFile{t: t, root: readOrdered(t, text)}
			s.sync(facts)
			s.described("", s.root)
			definitions := s.root.values["definitions"].(*ordered)
			for _, name := range definitions.keys {
				s.described(name, definitions.values[name].(*ordered))
			}
			if *update {
				if err := os.WriteFile(file, s.text(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, text := range s.differences {
				t.Errorf("config/%s: %s; go test ./config -run TestSchemasAreWhatIsRead -update writes it", file, text)
			}
		})
	}
}

// ordered is a JSON object that keeps the order of its keys.
type ordered struct {
	keys   []string
	values map[string]any
}

func (o *ordered) set(key string, value any) {
	if _, is := o.values[key]; !is {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *ordered) remove(key string) {
	delete(o.values, key)
	o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
}

func (o *ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		_ = encode.Encode(key) // a text
		b.WriteByte(':')
		if err := encode.Encode(o.values[key]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func readOrdered(t *testing.T, text []byte) *ordered {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var read func() any
	next := func() json.Token {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	read = func() any {
		switch token := next(); token {
		case json.Delim('{'):
			o := &ordered{values: make(map[string]any)}
			for d.More() {
				key := next().(string)
				o.set(key, read())
			}
			next()
			return o
		case json.Delim('['):
			list := []any{}
			for d.More() {
				list = append(list, read())
			}
			next()
			return list
		default:
			return token
		}
	}
	return read().(*ordered)
}

// schemaFile is a schema that is held against what is read.
type schemaFile struct {
	t           *testing.T
	root        *ordered
	differences []string
}

func (s *schemaFile) differs(format string, args ...any) {
	s.differences = append(s.differences, fmt.Sprintf(format, args...))
}

// text is the schema as it is kept.
func (s *schemaFile) text() []byte {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	encode.SetIndent("", "  ")
	if err := encode.Encode(s.root); err != nil {
		s.t.Fatal(err)
	}
	return b.Bytes()
}

// sync writes what is read into the schema, in the order of the paths: a mapping comes before its keys.
func (s *schemaFile) sync(facts map[string]yamlconf.Facts) {
	for _, path := range slices.Sorted(maps.Keys(facts)) {
		if path == "" {
			continue
		}
		if mapping, is := strings.CutSuffix(path, ".<key>"); is {
			if at := s.find(mapping); at != nil && at.values["propertyNames"] != nil {
				s.compare(path, at.values["propertyNames"].(*ordered), facts[path])
			}
			continue
		}
		cut := max(strings.LastIndex(path, "."), strings.LastIndex(path, "[]"))
		at := s.find(path)
		if at == nil {
			parent := s.root
			if cut >= 0 {
				parent = s.find(path[:cut])
			}
			key := path[cut+1:]
			if parent == nil || strings.ContainsAny(key, "*[]") {
				s.differs("there is no place for %s", path)
				continue
			}
			s.differs("%s is missing", path)
			at = newProperty(facts[path])
			properties, _ := parent.values["properties"].(*ordered)
			if properties == nil {
				s.differs("%s has no properties", path[:max(cut, 0)])
				continue
			}
			properties.set(key, at)
		}
		s.compare(path, at, facts[path])
	}
	for path := range facts {
		at := s.root
		if path != "" {
			at = s.find(path)
		}
		if at == nil || facts[path]["type"] != "object" {
			continue
		}
		properties, _ := at.values["properties"].(*ordered)
		if _, any := facts[path+".*"]; properties == nil || any {
			continue
		}
		for _, key := range slices.Clone(properties.keys) {
			if facts[strings.TrimPrefix(path+"."+key, ".")] == nil {
				s.differs("%s.%s is not read", path, key)
				properties.remove(key)
			}
		}
	}
}

// newProperty is what is written of a key that is new.
func newProperty(facts yamlconf.Facts) *ordered {
	o := &ordered{values: make(map[string]any)}
	o.set("description", "")
	switch kind := facts["type"]; kind {
	case nil:
	case "string":
		o.set("type", []any{"string", "number"})
	case "object", "array":
		o.set("type", []any{kind, "null"})
	default:
		o.set("type", kind)
	}
	// What may not be given is no default: zero then stands for a key that is not there.
	if value, is := facts["default"]; is && facts["required"] == nil &&
		fmt.Sprint(value) != fmt.Sprint(facts["exclusiveMinimum"]) {
		o.set("default", nil)
	}
	return o
}

// compare holds the keywords of one key against what is read. A default is only held to what it is where the schema
// has one: a key that is not given may also mean something of its own.
func (s *schemaFile) compare(path string, at *ordered, facts yamlconf.Facts) {
	for _, keyword := range []string{"minimum", "exclusiveMinimum", "maximum", "enum", "pattern", "default",
		"deprecated"} {
		want, is := facts[keyword]
		had, has := at.values[keyword]
		_, alternatives := at.values["anyOf"]
		_, open := at.values["exclusiveMinimum"]
		if !is || alternatives || keyword == "default" && !has || keyword == "minimum" && open ||
			keyword == "default" && strings.HasPrefix(path, "assignment_strategies.*.") { // the strategies' own
			continue
		}
		text, err := json.Marshal(want)
		if err != nil {
			s.t.Fatal(err)
		}
		if was, _ := json.Marshal(had); !sameJSON(was, text) {
			s.differs("%s: %s is %s, and %s is read", path, keyword, was, text)
			at.set(keyword, json.RawMessage(text))
		}
	}
	if facts["required"] == nil {
		return
	}
	parent := s.root
	cut := strings.LastIndex(path, ".")
	if cut >= 0 {
		parent = s.find(path[:cut])
	}
	required, _ := parent.values["required"].([]any)
	if !slices.Contains(required, any(path[cut+1:])) {
		s.differs("%s is required", path)
		parent.set("required", append(required, path[cut+1:]))
	}
}

// sameJSON reports whether two texts mean the same.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// find is the part of the schema that is about a path; nil: there is none.
func (s *schemaFile) find(path string) *ordered {
	at := s.root
	for _, step := range strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".") {
		if at = s.aimed(at); at == nil {
			return nil
		}
		next := at.values["properties"]
		switch {
		case step == "*" && path != "" && at == s.root.values["properties"].(*ordered).values["assignment_strategies"]:
			next = s.root.values["definitions"].(*ordered).values["strategy"]
		case step == "*":
			next = at.values["additionalProperties"]
		case step == "[]":
			next = at.values["items"]
		case next != nil:
			next = next.(*ordered).values[step]
		}
		at, _ = next.(*ordered)
	}
	return s.aimed(at)
}

// aimed follows a reference, or takes the first of several that are all or any of them.
func (s *schemaFile) aimed(at *ordered) *ordered {
	for at != nil {
		next, _ := at.values["$ref"].(string)
		for _, list := range []string{"allOf", "anyOf"} {
			if parts, _ := at.values[list].([]any); next == "" && len(parts) > 0 && at.values["properties"] == nil {
				next, _ = parts[0].(*ordered).values["$ref"].(string)
			}
		}
		if next == "" {
			return at
		}
		at, _ = s.root.values["definitions"].(*ordered).values[strings.TrimPrefix(next, "#/definitions/")].(*ordered)
	}
	return nil
}

// described sees that every key says what it means.
func (s *schemaFile) described(path string, at *ordered) {
	properties, _ := at.values["properties"].(*ordered)
	if properties == nil {
		return
	}
	for _, key := range properties.keys {
		of, _ := properties.values[key].(*ordered)
		if of == nil {
			continue
		}
		if text, is := of.values["description"].(string); is && text == "" {
			s.t.Errorf("%s.%s has no description: write one", path, key)
		}
		s.described(path+"."+key, of)
	}
}

// Every key of agents.yaml arrives: another value than its default makes another configuration. A reader that fills
// what is not looked at is found so.
func TestEveryKeyCounts(t *testing.T) {
	plain, err := Parse(fileWith(t, nil, nil), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, p := range properties(t) {
		var value any
		words, _ := p.node["enum"].([]any)
		switch is := p.node["default"].(type) {
		case bool:
			value = !is
			if p.String() == "discovery.enabled" { // the small fleet has it enabled
				value = is
			}
		case float64:
			switch hi := p.node["maximum"].(float64); {
			case p.node["type"] == "number":
				value = (is + hi) / 2
			case is < hi:
				value = is + 1
			default:
				value = is - 1
			}
		case string:
			if i := slices.IndexFunc(words, func(word any) bool { return word != is }); i >= 0 {
				value = words[i]
			}
		case nil:
			value = p.node["maximum"] // of a number without a default
		}
		if value == nil {
			continue
		}
		tried++
		c, err := Parse(fileWith(t, p.path, value), "agents.yaml")
		if err == nil && c.Policy().Version == plain.Policy().Version {
			t.Errorf("%s: %v, another value than the default, changes nothing", p, value)
		}
		if err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if tried < 60 {
		t.Errorf("only %d keys tried", tried)
	}
}

package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func compiled(t *testing.T) *Set {
	t.Helper()
	set, err := Compile()
	if err != nil {
		t.Fatalf("compiling: %v", err)
	}
	return set
}

func TestEveryFileHasAName(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			found = append(found, name)
		}
	}
	want := slices.Sorted(slices.Values(Names()))
	if !slices.Equal(found, want) {
		t.Errorf("embedded schemas %v, names %v", found, want)
	}
}

// Every message may say its version, and need not; what is no message has none.
func TestEveryMessageHasAVersion(t *testing.T) {
	for _, name := range Names() {
		text, err := File(name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Required   []string
			Properties map[string]map[string]any
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		_, message := doc.Properties["message_type"]
		version := doc.Properties["message_version"]["const"]
		if message != (version == 1.0) || slices.Contains(doc.Required, "message_version") {
			t.Errorf("%s is a message: %t; its version is %v, and it requires %v", name, message, version, doc.Required)
		}
	}
}

// The rules that keep validation cheap, refusals readable and the fast path of
// package messages possible.
func TestSchemasAreFlat(t *testing.T) {
	for _, name := range Names() {
		text, err := File(name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, keyword := range []string{"$ref", "$id", "allOf", "oneOf", "if", "format", "uniqueItems",
			"unevaluatedProperties", "dependencies"} {
			if strings.Contains(string(text), `"`+keyword+`"`) {
				t.Errorf("%s uses %s", name, keyword)
			}
		}
		var doc struct {
			Title      string
			Required   []string
			Properties map[string]map[string]any
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Title != name {
			t.Errorf("%s has the title %q", name, doc.Title)
		}
		for _, field := range doc.Required {
			if doc.Properties[field] == nil {
				t.Errorf("%s requires %s, which it does not describe", name, field)
			}
		}
		for field, property := range doc.Properties {
			if property["description"] == nil && property["type"] != "boolean" {
				t.Errorf("%s: %s does not say what is expected", name, field)
			}
			if property["type"] == "array" && property["maxItems"] == nil {
				t.Errorf("%s: the list %s has no bound", name, field)
			}
		}
	}
}

func TestValidateSaysWhereAndWhat(t *testing.T) {
	set := compiled(t)
	const valid = `{"message_type":"task.cancel","task_id":"t-1"}`
	for _, c := range []struct {
		name, schema, value string
		want                *Violation
	}{
		{"valid", TaskCancel, valid, nil},
		{"unknown fields are ignored", TaskCancel, `{"message_type":"task.cancel","task_id":"t-1","x":[{}]}`, nil},
		{"missing", TaskCancel, `{"message_type":"task.cancel"}`,
			&Violation{Path: "", Keyword: "required", Text: "task_id is missing"}},
		{"not an object", TaskCancel, `[]`,
			&Violation{Path: "", Keyword: "type", Text: "is a list, not an object"}},
		{"pattern", TaskCancel, `{"message_type":"task.cancel","task_id":"t 1"}`,
			&Violation{Path: "/task_id", Keyword: "pattern",
				Text: "expected 1 to 128 letters, digits and . _ : -, beginning with a letter or digit"}},
		{"two at once: the first path", TaskCancel, `{"message_type":"x","task_id":1}`,
			&Violation{Path: "/message_type", Keyword: "const", Text: `expected "task.cancel"`, More: 1}},
		{"inside a list", TaskAssign,
			`{"message_type":"task.assign","task_id":"t","task_type":"x","payload":{},"required_capabilities":["a",2]}`,
			&Violation{Path: "/required_capabilities/1", Keyword: "type",
				Text: "is a number, not text; expected 1 to 128 characters, none of them a control character"}},
		{"key with a space and a slash", TaskAssign,
			`{"message_type":"task.assign","task_id":"t","task_type":"x","payload":{},"labels":{"a b/c":2}}`,
			&Violation{Path: "/labels/a b~1c", Keyword: "type",
				Text: "is a number, not text; expected at most 256 characters, none of them a control character"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var value any
			if err := json.Unmarshal([]byte(c.value), &value); err != nil {
				t.Fatal(err)
			}
			err := set.Validate(c.schema, value)
			if c.want == nil {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			c.want.Schema = c.schema
			var got *Violation
			if !errors.As(err, &got) || *got != *c.want {
				t.Fatalf("got  %+v\nwant %+v", err, c.want)
			}
		})
	}
}

// The validator crashes on some numbers and refuses to look at foreign types:
// both are refusals here.
func TestValidateSurvivesTheValidator(t *testing.T) {
	set := compiled(t)
	for _, value := range []any{json.Number("1e9999999"), math.NaN(), math.Inf(1), struct{}{}} {
		message := map[string]any{"message_type": "task.assign", "task_id": "t", "task_type": "x",
			"payload": map[string]any{}, "priority": value}
		var v *Violation
		if err := set.Validate(TaskAssign, message); !errors.As(err, &v) {
			t.Errorf("%v: got %v, want a violation", value, err)
		}
	}
	var v *Violation
	if err := set.Validate("task.unheard_of", nil); err == nil || errors.As(err, &v) {
		t.Errorf("an unknown schema gives %v, want an error that is no violation", err)
	}
}

// broken is what is said of a schema with this text when a value is held against it.
func broken(text string) error {
	set, err := read([]string{"x"}, func(string) ([]byte, error) { return []byte(text), nil })
	if err != nil {
		return err
	}
	return set.Validate("x", map[string]any{})
}

// A schema is compiled when it is first used: that all of them can be is known here.
func TestEverySchemaCompiles(t *testing.T) {
	for name, s := range compiled(t).byName {
		v, err := s.compiled()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := slices.Sorted(maps.Keys(v.Properties)); !slices.Equal(s.fields, want) {
			t.Errorf("%s: fields %v, want %v", name, s.fields, want)
		}
	}
}

func TestNothingIsLoadedFromOutside(t *testing.T) {
	for _, ref := range []string{"file:///etc/passwd", "http://localhost/x.json", "other.json"} {
		err := broken(fmt.Sprintf(`{"properties":{"a":{"$ref":%q}}}`, ref))
		if err == nil || !strings.Contains(err.Error(), "not embedded") {
			t.Errorf("a reference to %s gives %v, want a refusal to load it", ref, err)
		}
	}
}

func TestCompileReportsABrokenSchema(t *testing.T) {
	for _, text := range []string{"", "{", `{"type":"colour"}`, `{"pattern":"("}`} {
		err := broken(text)
		if err == nil || !strings.Contains(err.Error(), "schema x") {
			t.Errorf("%q gives %v, want an error that names the schema", text, err)
		}
	}
}

func TestFields(t *testing.T) {
	set := compiled(t)
	if got, want := set.Fields(TaskCancel), []string{"correlation_id", "dispatch_id", "message_type", "message_version",
		"reason", "task_id"}; !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	if set.Fields("task.unheard_of") != nil {
		t.Error("an unknown schema has fields")
	}
}

// asyncapi.yaml speaks of every message type, every reference in it leads
// somewhere, and the payloads are the files that are compiled.
func TestAsyncAPI(t *testing.T) {
	text, err := File("asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("asyncapi.yaml: %v", err)
	}
	if doc["asyncapi"] != "3.0.0" {
		t.Errorf("version %v, want 3.0.0", doc["asyncapi"])
	}
	used := map[string]bool{}
	var walk func(at any)
	walk = func(at any) {
		switch at := at.(type) {
		case []any:
			for _, item := range at {
				walk(item)
			}
		case map[string]any:
			if ref, ok := at["$ref"].(string); ok {
				used[ref] = true
			}
			for _, value := range at {
				walk(value)
			}
		}
	}
	walk(doc)
	for ref := range used {
		if file, ok := strings.CutPrefix(ref, "./"); ok {
			if _, err := File(file); err != nil {
				t.Errorf("%s: no such file", ref)
			}
			continue
		}
		var target any = doc
		for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			object, _ := target.(map[string]any)
			target = object[name]
		}
		if target == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	}
	for _, name := range Names() {
		if name == TaskHeader || name == TriedHeader {
			continue // headers, not messages
		}
		if !used["./"+name+".json"] {
			t.Errorf("%s is missing", name)
		}
	}

	components := doc["components"].(map[string]any)["messages"].(map[string]any)
	for key, value := range components {
		if !used["#/components/messages/"+key] {
			t.Errorf("no channel carries %s", key)
		}
		message := value.(map[string]any)
		want := "./" + message["name"].(string) + ".json"
		payload := message["payload"].(map[string]any)["schema"].(map[string]any)
		if payload["$ref"] != want {
			t.Errorf("%s has the payload %v, want %s", key, payload["$ref"], want)
		}
	}
}

// The names that producers and agents rely on are all there.
func TestAsyncAPIChannels(t *testing.T) {
	text, err := File("asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Channels map[string]struct {
			Address  string
			Bindings struct {
				AMQP struct {
					Is       string
					Queue    struct{ Name string }
					Exchange struct{ Name string }
				} `yaml:"amqp"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for key, c := range doc.Channels {
		amqp := c.Bindings.AMQP
		switch amqp.Is {
		case "queue":
			if amqp.Queue.Name != c.Address {
				t.Errorf("channel %s: queue %q at the address %q", key, amqp.Queue.Name, c.Address)
			}
			got = append(got, "queue "+c.Address)
		case "routingKey":
			got = append(got, amqp.Exchange.Name+" "+c.Address)
		default:
			t.Errorf("channel %s is %q", key, amqp.Is)
		}
	}
	slices.Sort(got)
	want := []string{
		"queue agent.status", "queue agent.{agentId}", "queue assignment.failed", "queue task.assign",
		"queue task.assign.high",
		"queue task.dead", "queue task.progress", "queue task.reassign", "queue task.request", "queue task.result",
		"queue {replyTo}",
		"taskbus task.assign", "taskbus task.assign.high", "taskbus task.request.{user}",
		"taskbus.agents agent.status.{agentId}", "taskbus.agents task.progress.{agentId}",
		"taskbus.agents task.result.{agentId}",
		"taskbus.control {agentId}",
		"taskbus.events agent.offline.{agentId}", "taskbus.events agent.online.{agentId}",
		"taskbus.events assignment.failed.{reasonCode}", "taskbus.events quota.overrun",
		"taskbus.events quota.reached.{percent}",
		"taskbus.events task.cancel_requested.{agentId}", "taskbus.events task.completed.{agentId}",
		"taskbus.events task.dispatched.{agentId}", "taskbus.events task.duplicate",
	}
	if !slices.Equal(got, want) {
		t.Errorf("channels\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

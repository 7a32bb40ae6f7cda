package quotas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"taskbus/tests/support/configtest"
)

func compileQuotasSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	return configtest.Compile(t, "quotas.schema.json", schemaText(t))
}

func schemaText(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("../quotas.schema.json")
	must(t, err)
	return text
}

func TestQuotasSchemaAgreesWithTheLoader(t *testing.T) {
	configtest.Agrees(t, compileQuotasSchema(t), quotaFiles(t))
}

// where leads to a place in a file: keys, and indexes of lists.
type where []any

func (w where) String() string {
	var b strings.Builder
	for _, step := range w {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// quotaSections gives every mapping of settings in the schema, at a place where it can be
// tried.
func quotaSections(t *testing.T) map[string]quotaSection {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(schemaText(t), &root); err != nil {
		t.Fatal(err)
	}
	definitions := root["definitions"].(map[string]any)
	all := make(map[string]quotaSection)
	add := func(node any, at ...any) {
		all[where(at).String()] = quotaSection{at, node.(map[string]any)["properties"].(map[string]any)}
	}
	limits := func(bearer string, at ...any) {
		at = append(slices.Clone(at), "limits")
		add(definitions[bearer+"_limits"], at...)
		add(definitions[bearer+"_count_limit"], append(slices.Clone(at), "requests")...)
		add(definitions[bearer+"_cost_limit"], append(slices.Clone(at), "cost_usd")...)
		add(definitions[bearer+"_seats_limit"], append(slices.Clone(at), "concurrency")...)
	}
	terms := func(at ...any) {
		add(definitions["borrowing"], append(slices.Clone(at), "borrowing")...)
		add(definitions["lending"], append(slices.Clone(at), "lending")...)
	}
	add(root)
	add(root["properties"].(map[string]any)["pool"], "pool")
	add(root["properties"].(map[string]any)["adjustment"], "adjustment")
	add(definitions["idle_rule"], "adjustment", "idle")
	add(definitions["slow_rule"], "adjustment", "slow")
	limits("pool", "pool")
	terms("pool")
	add(definitions["provider"], "providers", 0)
	limits("pool", "providers", 0)
	terms("providers", 0)
	add(definitions["model"], "providers", 0, "models", 0)
	limits("model", "providers", 0, "models", 0)
	add(definitions["part"], "providers", 0, "models", 0, "groups", 0)
	limits("member", "providers", 0, "models", 0, "groups", 0)
	add(definitions["group"], "groups", 0)
	limits("member", "groups", 0)
	terms("groups", 0)
	add(definitions["agent"], "agents", 0)
	limits("member", "agents", 0)
	add(definitions["price"], "prices", 0)
	if n := 4 + len(definitions); len(definitions) != 22 || len(all) < n {
		t.Fatalf("%d sections of %d definitions: this test does not know them any more", len(all), len(definitions))
	}
	return all
}

// quotaSection is one mapping of settings: where it can be tried, and its keys.
type quotaSection struct {
	at   where
	keys map[string]any
}

// quotasWith is a small file in which every section stands, with one setting given. JSON is
// YAML.
func quotasWith(t *testing.T, at where, value any) []byte {
	t.Helper()
	type m = map[string]any
	limits := func() m {
		return m{"requests": m{"amount": 0, "per": "day"}, "cost_usd": m{"amount": 0, "per": "day"},
			"concurrency": m{"amount": 0}}
	}
	file := m{
		"prices": []any{m{"provider": "p", "per_request": 1}}, "currencies": m{},
		"adjustment": m{"idle": m{}, "slow": m{"above_ms": 5}},
		"pool":       m{"limits": limits(), "borrowing": m{}, "lending": m{}},
		"providers": []any{m{
			"provider": "p", "limits": limits(), "borrowing": m{}, "lending": m{},
			"models": []any{m{"model": "m", "limits": limits(),
				"groups": []any{m{"group": "g", "limits": limits(), "borrowing": m{}, "lending": m{}}}}},
		}},
		"groups": []any{m{"id": "g", "total_quota_monthly_tokens": 5, "limits": limits(), "borrowing": m{}, "lending": m{}}},
		"agents": []any{m{"id": "a", "group_id": "g", "rate_limit_rps": 1, "limits": limits()}},
	}
	if len(at) > 0 {
		var here any = file
		for _, step := range at[:len(at)-1] {
			switch step := step.(type) {
			case int:
				here = here.([]any)[step]
			case string:
				here = here.(m)[step]
			}
		}
		key, section := at[len(at)-1].(string), here.(m)
		switch key { // what cannot stand beside what is there
		case "rate":
			delete(section, "amount")
		case "interval_seconds":
			delete(section, "per")
		case "burst":
			delete(section, "amount")
			section["rate"] = 1
		case "reset_interval_seconds":
			delete(section, "reset_interval")
		}
		section[key] = value
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// eachQuotaSetting calls try for every key of the schema, in a fixed order.
func eachQuotaSetting(t *testing.T, try func(at where, node map[string]any)) {
	t.Helper()
	sections := quotaSections(t)
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		s := sections[name]
		for _, key := range slices.Sorted(maps.Keys(s.keys)) {
			try(append(slices.Clone(s.at), key), s.keys[key].(map[string]any))
		}
	}
}

// An unknown key makes the loader list those it does.
func TestQuotasSchemaHasTheLoadersKeys(t *testing.T) {
	for _, s := range quotaSections(t) {
		at := append(slices.Clone(s.at), "zzzzzzzz")
		_, err := Parse(quotasWith(t, at, 1), "quotas.yaml")
		want := at.String() + ": unknown key; known are " + strings.Join(slices.Sorted(maps.Keys(s.keys)), ", ")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("at %q the loader says %v\nthe schema would say %s", s.at, err, want)
		}
	}
}

// To write a documented default down changes nothing.
func TestQuotasSchemaDefaultsAreTheLoaders(t *testing.T) {
	plain := string(Append(nil, mustParse(t, string(quotasWith(t, nil, nil)))))
	tried := 0
	eachQuotaSetting(t, func(at where, node map[string]any) {
		value, ok := node["default"]
		if !ok {
			return
		}
		tried++
		q, err := Parse(quotasWith(t, at, value), "quotas.yaml")
		if err != nil {
			t.Errorf("%s: the default %v is refused: %v", at, value, err)
		} else if string(Append(nil, q)) != plain {
			t.Errorf("%s: %v is not what the loader takes by default", at, value)
		}
	})
	if tried < 40 {
		t.Errorf("only %d defaults found", tried)
	}
}

// numeric is the part of a setting's description that is about numbers.
func numeric(node map[string]any) (of map[string]any, ok bool) {
	if choices, ok := node["anyOf"].([]any); ok {
		node = choices[0].(map[string]any)
	}
	_, has := node["minimum"]
	return node, has
}

// Both sides of every limit: the loader names exactly the schema's.
func TestQuotasSchemaLimitsAreTheLoaders(t *testing.T) {
	schema := compileQuotasSchema(t)
	tried := 0
	eachQuotaSetting(t, func(at where, node map[string]any) {
		n, ok := numeric(node)
		if !ok {
			return
		}
		tried++
		lo, hi := n["minimum"].(float64), n["maximum"].(float64)
		step := 1.0
		if n["type"] == "number" {
			step = 0.0625 // exact in binary, and written with four decimals
		}
		for value, inside := range map[float64]bool{lo - step: false, lo: true, hi: true, hi + step: false} {
			data := quotasWith(t, at, value)
			// json.Marshal writes small numbers with an exponent, which the loader does not take.
			data = bytes.Replace(data, []byte("1e-06"), []byte("0.000001"), 1)
			doc, err := configtest.EditorSees(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); inside != (err == nil) {
				t.Errorf("%s: %v: the schema says %v", at, value, err)
			}
			// Inside its limits a value may still be more than there is to share.
			_, err = Parse(data, "quotas.yaml")
			if refused := err != nil && strings.Contains(err.Error(), at.String()+": must be a"); refused == inside {
				t.Errorf("%s: %v: the loader says %v, want it refused: %v", at, value, err, !inside)
			}
		}
	})
	if tried < 90 {
		t.Errorf("only %d limits found", tried)
	}
}

// Every word of an enumeration is accepted, and no other.
func TestQuotasSchemaWordsAreTheLoaders(t *testing.T) {
	tried := 0
	eachQuotaSetting(t, func(at where, node map[string]any) {
		words, ok := node["enum"].([]any)
		if !ok || at[len(at)-1] == "per" { // which depends on what stands beside it, see testdata
			return
		}
		tried++
		for _, word := range append(slices.Clone(words), "nonsense") {
			data := quotasWith(t, at, word)
			_, err := Parse(data, "quotas.yaml")
			if refused := err != nil && strings.Contains(err.Error(),
				at.String()+": must be one of"); refused != (word == "nonsense") {
				t.Errorf("%s: %v: the loader says %v", at, word, err)
			}
		}
	})
	if tried != 10 { // three rules of borrowing, two shares, reset_interval, two of on_loss, unpriced, unknown_callers
		t.Errorf("%d enumerations found, want 10", tried)
	}
}

// What is borrowed and lent is a number, a percentage or none, to both.
func TestQuotasSchemaBoundsAreTheLoaders(t *testing.T) {
	schema := compileQuotasSchema(t)
	tried := 0
	eachQuotaSetting(t, func(at where, node map[string]any) {
		key := at[len(at)-1]
		if key != "borrow" && key != "lend" && key != "limit" {
			return
		}
		tried++
		for _, value := range []string{"none", "0%", "7%", "100%", "101%", "999%", "1000%", "1001%", "00%", "05%", "5",
			"5.5%", "-1%", "all", "", "%"} {
			data := quotasWith(t, at, value)
			doc, err := configtest.EditorSees(data)
			if err != nil {
				t.Fatal(err)
			}
			_, loader := Parse(data, "quotas.yaml")
			if editor := schema.Validate(doc); (editor == nil) != (loader == nil) {
				t.Errorf("%s: %q: the schema says %v, the loader %v", at, value, editor, loader)
			}
		}
	})
	if tried < 20 {
		t.Errorf("only %d bounds found", tried)
	}
}

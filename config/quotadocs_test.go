package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const quotasPage = "../docs/quotas.md"

// shownQuotas is a whole quotas.yaml on a page for people.
var shownQuotas = regexp.MustCompile("(?m)^<!-- quotas: (\\S+) -->\n```yaml\n((?s:.*?))^```$")

// What docs/quotas.md shows as a file must be one, to the loader and to editors, and mean what
// the page says.
func TestShownQuotasAreValid(t *testing.T) {
	page, err := os.ReadFile(quotasPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]string)
	for _, m := range shownQuotas.FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = outline(mustParseQuotas(t, m[2]))
		doc, err := asEditorSeesIt([]byte(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if err := compileQuotasSchema(t).Validate(doc); err != nil {
			t.Errorf("%s: an editor says %v", m[1], err)
		}
	}
	if names := slices.Sorted(maps.Keys(shown)); !slices.Equal(names, []string{"adjustment", "fair-share", "keys", "limits", "prices"}) {
		t.Fatalf("the page shows %v", names)
	}
	if want := `pool pool, weight 1
group pool/project_alpha, weight 1
  total_tokens: 500000 per month
agent pool/project_alpha/agent_1, weight 3
  requests: 5 every 1s, burst 10, borrow 0
  total_tokens: by weight per month
agent pool/project_alpha/agent_2, weight 2
  requests: 5 every 2s, burst 3, borrow 0
  total_tokens: by weight per month
`; shown["fair-share"] != want {
		t.Errorf("the smallest file means\n%swant\n%s", shown["fair-share"], want)
	}
}

// The tables of docs/quotas.md have every key of the schema with its default, and no other.
func TestQuotasReference(t *testing.T) {
	var root schemaPart
	if err := json.Unmarshal(QuotasSchema(), &root); err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string) // key → default as the page writes it
	add := func(prefix string, of schemaPart) {
		for key, p := range of.Properties {
			want[prefix+key] = p.defaultCell(t, slices.Contains(of.Required, key))
		}
	}
	add("limits.<dimension>.", root.Definitions["member_count_limit"])
	add("borrowing.", root.Definitions["borrowing"])
	add("lending.", root.Definitions["lending"])
	add("groups[].", root.Definitions["group"])
	add("agents[].", root.Definitions["agent"])
	add("providers[].", root.Definitions["provider"])
	add("providers[].models[].", root.Definitions["model"])
	add("providers[].groups[].", root.Definitions["part"])
	add("prices[].", root.Definitions["price"])
	add("pool.", root.Properties["pool"])
	add("routing.", root.Properties["routing"])
	add("adjustment.idle.", root.Definitions["idle_rule"])
	add("adjustment.slow.", root.Definitions["slow_rule"])
	want["currencies.<code>"] = "–"
	for _, section := range []string{"groups", "agents", "providers", "prices", "pool", "currencies", "routing", "adjustment"} {
		if _, ok := root.Properties[section]; !ok {
			t.Errorf("the schema has no section %s", section)
		}
		delete(root.Properties, section)
	}
	add("", root)

	page, err := os.ReadFile(quotasPage)
	if err != nil {
		t.Fatal(err)
	}
	// What comes behind is of other things, in tables of their own.
	file, _, found := strings.Cut(string(page), "\n## Seeing quotas\n")
	if !found {
		t.Fatal("the page has no section Seeing quotas, before which the keys stand")
	}
	got := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.<>\\[\\]]+)` \\| (.+?) \\|").FindAllStringSubmatch(file, -1) {
		if _, twice := got[m[1]]; twice {
			t.Errorf("the page has two rows for %s", m[1])
		}
		got[m[1]] = m[2]
	}
	if !maps.Equal(got, want) {
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got[key] != want[key] {
				t.Errorf("%s: the page has the default %q, the schema %q", key, got[key], want[key])
			}
		}
		for key := range got {
			if _, ok := want[key]; !ok {
				t.Errorf("the page describes %s, which does not exist", key)
			}
		}
	}
	if len(want) < 60 {
		t.Errorf("only %d keys found", len(want))
	}
	// Every dimension, and what is said of numbers: the limits of the schema, as people write them.
	for dim := range root.Definitions["member_limits"].Properties {
		if !strings.Contains(string(page), "`"+dim+"`") {
			t.Errorf("the page does not mention %s", dim)
		}
	}
	for _, n := range []int64{maxAmount, maxSeats, maxRate, maxWeight, mostBudgetPeriod, mostRatePeriod, maxQuotaNodes} {
		if !strings.Contains(string(page), thousands(n)) {
			t.Errorf("the page does not mention %s", thousands(n))
		}
	}
}

// schemaPart is the part of the schema that the page repeats.
type schemaPart struct {
	Default     any
	Required    []string
	Properties  map[string]schemaPart
	Definitions map[string]schemaPart
}

// defaultCell writes a default as the page does.
func (p schemaPart) defaultCell(t *testing.T, required bool) string {
	t.Helper()
	switch value := p.Default.(type) {
	case nil:
		if required {
			return "required"
		}
		return "–"
	case float64:
		return "`" + strconv.FormatFloat(value, 'f', -1, 64) + "`"
	case []any: // of numbers
		return "`" + strings.ReplaceAll(fmt.Sprint(value), " ", ", ") + "`"
	default:
		return fmt.Sprintf("`%v`", value)
	}
}

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"taskbus/coordinator/strategy"
	"taskbus/tests/support/configtest"
)

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	return configtest.Compile(t, "agents.schema.json", Schema())
}

func TestSchemaAgreesWithTheLoader(t *testing.T) {
	configtest.Agrees(t, compileSchema(t), testFiles(t))
}

func TestSchemaAcceptsTheExample(t *testing.T) {
	data, err := os.ReadFile("agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := configtest.EditorSees(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := compileSchema(t).Validate(doc); err != nil {
		t.Error(err)
	}
}

// property is one setting as the schema describes it, at a place in a file where
// it can be tried.
type property struct {
	path []string
	node map[string]any
}

func (p property) String() string { return strings.Join(p.path, ".") }

// child is what a node of the schema says of one of its properties.
func child(node map[string]any, name string) map[string]any {
	return node["properties"].(map[string]any)[name].(map[string]any)
}

// sections gives every mapping of settings in the schema, by an example path.
func sections(root map[string]any) map[string]map[string]any {
	definition := func(name string) map[string]any {
		return root["definitions"].(map[string]any)[name].(map[string]any)
	}
	found := map[string]map[string]any{
		"":                                       root,
		"agents.gpu-1":                           definition("agent"),
		"task_routing.read":                      definition("route"),
		"task_routing.batched.batch":             child(definition("route"), "batch"),
		"assignment_strategies.weighted":         definition("strategy"),
		"assignment_strategies.weighted.weights": child(definition("strategy"), "weights"),
	}
	for _, name := range []string{"global_settings", "learning", "circuit_breaker", "discovery", "dedupe", "journal",
		"http", "events", "log", "metrics"} {
		found[name] = root["properties"].(map[string]any)[name].(map[string]any)
	}
	return found
}

func schemaTree(t *testing.T) map[string]any {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// properties gives every setting of the schema, in a fixed order.
func properties(t *testing.T) []property {
	t.Helper()
	root := schemaTree(t)
	var all []property
	for at, section := range sections(root) {
		for key, node := range section["properties"].(map[string]any) {
			path := strings.Split(strings.TrimPrefix(at+"."+key, "."), ".")
			switch at + "." + key { // weighted does not take these
			case "assignment_strategies.weighted.prefer":
				path[1] = strategy.CapabilityMatchName
			case "assignment_strategies.weighted.exploration":
				path[1] = strategy.RewardRateName
			case "assignment_strategies.weighted.formula":
				path[1] = strategy.ExpressionName
			case "assignment_strategies.weighted.bid_window_ms", "assignment_strategies.weighted.min_bid_window_ms",
				"assignment_strategies.weighted.fallback",
				"assignment_strategies.weighted.invite", "assignment_strategies.weighted.fitness":
				path[1] = strategy.MarketName
			}
			all = append(all, property{path, node.(map[string]any)})
		}
	}
	auth := root["properties"].(map[string]any)["agents"].(map[string]any)["properties"].(map[string]any)["auth"]
	all = append(all, property{[]string{"agents", "auth"}, auth.(map[string]any)})
	slices.SortFunc(all, func(a, b property) int { return strings.Compare(a.String(), b.String()) })
	if len(all) < 70 {
		t.Fatalf("the schema has %d settings; this test does not find them any more", len(all))
	}
	return all
}

// fileWith is a small fleet with one setting given. JSON is YAML.
func fileWith(t *testing.T, path []string, value any) []byte {
	t.Helper()
	strategies := make(map[string]any)
	for _, name := range strategy.Names() {
		strategies[name] = map[string]any{}
	}
	strategies["weighted"] = map[string]any{"weights": map[string]any{}}
	strategies["expression"] = map[string]any{"formula": "load"}
	file := map[string]any{
		"agents": map[string]any{"gpu-1": map[string]any{"max_concurrent_tasks": 1}},
		"task_routing": map[string]any{"read": map[string]any{},
			"batched": map[string]any{"batch": map[string]any{"max_size": 2}}},
		"assignment_strategies": strategies,
		"learning":              map[string]any{}, "circuit_breaker": map[string]any{},
		"discovery":       map[string]any{"enabled": true, "agents": []any{"worker-*"}, "capabilities": []any{"gpu"}},
		"global_settings": map[string]any{}, "dedupe": map[string]any{}, "journal": map[string]any{},
		"http": map[string]any{}, "events": map[string]any{}, "log": map[string]any{}, "metrics": map[string]any{},
	}
	if len(path) > 0 {
		at := file
		for _, key := range path[:len(path)-1] {
			at = at[key].(map[string]any)
		}
		at[path[len(path)-1]] = value
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// strategyKeys gives the keys that the schema allows each strategy.
func strategyKeys(root map[string]any) map[string][]string {
	all := make(map[string][]string)
	section := root["properties"].(map[string]any)["assignment_strategies"].(map[string]any)
	for name, node := range section["properties"].(map[string]any) {
		own := node.(map[string]any)["allOf"].([]any)[1].(map[string]any)["propertyNames"].(map[string]any)["enum"].([]any)
		for _, key := range own {
			all[name] = append(all[name], key.(string))
		}
	}
	return all
}

// An unknown key makes the loader list those it does: for a strategy, those
// of this strategy.
func TestSchemaHasTheLoadersKeys(t *testing.T) {
	root, keys := schemaTree(t), make(map[string][]string)
	for at, section := range sections(root) {
		keys[at] = slices.Collect(maps.Keys(section["properties"].(map[string]any)))
	}
	for name, own := range strategyKeys(root) {
		keys["assignment_strategies."+name] = own
	}
	if n := len(strategy.Names()); len(keys) < 13+n {
		t.Errorf("%d sections, want 13 and one for each of the %d strategies", len(keys), n)
	}
	for at, known := range keys {
		path := strings.Split(strings.TrimPrefix(at+".zzzzzzzz", "."), ".")
		_, err := Parse(fileWith(t, path, 1), "agents.yaml")
		want := strings.Join(path, ".") + ": unknown key; known are " + strings.Join(slices.Sorted(slices.Values(known)),
			", ")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("at %q the loader says %v\nthe schema would say %s", at, err, want)
		}
	}
}

// To write a documented default down changes nothing.
func TestSchemaDefaultsAreTheLoaders(t *testing.T) {
	plain, err := Parse(fileWith(t, nil, nil), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	off, err := Parse(fileWith(t, []string{"discovery"}, nil), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, p := range properties(t) {
		value, ok := p.node["default"]
		if !ok {
			continue
		}
		tried++
		plain := plain
		if p.String() == "discovery.enabled" { // the small fleet has it enabled, or the others could not be seen
			plain = off
		}
		c, err := Parse(fileWith(t, p.path, value), "agents.yaml")
		if err != nil {
			t.Errorf("%s: the default %v is refused: %v", p, value, err)
			continue
		}
		if c.Policy().Version != plain.Policy().Version {
			t.Errorf("%s: %v is not what the loader takes by default", p, value)
		}
	}
	if tried < 60 {
		t.Errorf("only %d defaults found", tried)
	}
}

// Both sides of every limit: the loader names exactly the schema's.
func TestSchemaLimitsAreTheLoaders(t *testing.T) {
	schema := compileSchema(t)
	tried := 0
	for _, p := range properties(t) {
		if p.node["type"] != "integer" {
			continue
		}
		tried++
		lo, hi := int64(p.node["minimum"].(float64)), int64(p.node["maximum"].(float64))
		rule := fmt.Sprintf("must be a whole number from %d to %d", lo, hi)
		for value, inside := range map[int64]bool{lo - 1: false, lo: true, hi: true, hi + 1: false} {
			data := fileWith(t, p.path, value)
			doc, err := configtest.EditorSees(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); inside != (err == nil) {
				t.Errorf("%s: %d: the schema says %v", p, value, err)
			}
			// Inside its limits a value may still not fit another setting, such
			// as a heartbeat every day and a threshold of two minutes.
			_, err = Parse(data, "agents.yaml")
			if refused := err != nil && strings.Contains(err.Error(), p.String()+": "+rule); refused == inside {
				t.Errorf("%s: %d: the loader says %v, want %q: %v", p, value, err, rule, !inside)
			}
		}
	}
	if tried < 34 {
		t.Errorf("only %d limits found", tried)
	}
}

// Editors and the loader refuse the same options of the same strategies.
func TestSchemaOptionsAreTheStrategies(t *testing.T) {
	schema := compileSchema(t)
	options := map[string]any{
		strategy.OptionWeights: map[string]any{"free": 2}, strategy.OptionAffinityLabel: "zone",
		strategy.OptionSessionLabel: "user",
		strategy.OptionExploration:  0.2, strategy.OptionFormula: "load",
		strategy.OptionBidWindow: 300, strategy.OptionMinBidWindow: 200, strategy.OptionFallback: "round_robin",
		strategy.OptionInvite: "all", strategy.OptionFitness: "reported",
	}
	for _, name := range strategy.Names() {
		for option, value := range options {
			data := fileWith(t, []string{"assignment_strategies", name, option}, value)
			doc, err := configtest.EditorSees(data)
			if err != nil {
				t.Fatal(err)
			}
			_, loader := Parse(data, "agents.yaml")
			if editor := schema.Validate(doc); (editor == nil) != strategy.Takes(name, option) ||
				(loader == nil) != strategy.Takes(name, option) {
				t.Errorf("%s.%s: the schema says %v, the loader %v, the strategy takes it: %v", name, option, editor, loader,
					strategy.Takes(name, option))
			}
		}
	}
}

// The default weights are written down twice, too.
func TestSchemaWeightsAreTheStrategys(t *testing.T) {
	node := sections(schemaTree(t))["assignment_strategies.weighted.weights"]["properties"].(map[string]any)
	for _, w := range strategy.Weights() {
		if got := node[w.Term].(map[string]any)["default"]; got != w.Default {
			t.Errorf("%s: the schema has %v, the strategy %v", w.Term, got, w.Default)
		}
	}
	if len(node) != len(strategy.Weights()) {
		t.Errorf("the schema has %d weights, the strategy %d", len(node), len(strategy.Weights()))
	}
}

// Editors offer a market everything that it may fall back to.
func TestSchemaFallbacksAreTheLoaders(t *testing.T) {
	node := child(sections(schemaTree(t))["assignment_strategies.weighted"], strategy.OptionFallback)
	var words []string
	for _, word := range node["enum"].([]any) {
		words = append(words, word.(string))
	}
	if want := fallbacks(); !slices.Equal(words, want) {
		t.Errorf("the schema has %v, the loader %v", words, want)
	}
}

func TestSchemaIsACopy(t *testing.T) {
	for _, schema := range []func() []byte{Schema, QuotasSchema} {
		if schema()[0] = 'x'; schema()[0] != '{' {
			t.Error("the embedded bytes themselves are handed out")
		}
	}
}

// An agent may have as many labels as the loader takes.
func TestSchemaLabelsAreTheLoaders(t *testing.T) {
	labels := sections(schemaTree(t))["agents.gpu-1"]["properties"].(map[string]any)["labels"].(map[string]any)
	if labels["maxProperties"] != float64(maxLabels) {
		t.Errorf("agents.gpu-1.labels: the schema has %v at most", labels["maxProperties"])
	}
}

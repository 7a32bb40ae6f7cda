package formula

import (
	"bytes"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// The agent and the task of these tests: load 2/5, 0.95 of its tasks succeed.
var (
	testCase = coordinator.Case{
		Task: &coordinator.Task{
			Type: "train", Priority: coordinator.PriorityHigh,
			Labels: map[string]string{"zone": "lab", "min_memory": "16"},
		},
		Required: 1, Reference: 10, MaxCost: 4,
	}
	testAgent = coordinator.AgentView{
		ID: "gpu-1", Load: 0.4, ReportedLoad: 0.2, InFlight: 2, Max: 5, Free: 3, Rank: 2, Capabilities: 4, Flexibility: 1.5,
		Cost: 1, Capacity: 0.5, Pending: 6, Labels: map[string]string{"zone": "lab", "memory": "24"},
	}
	testStanding = coordinator.Standing{Success: 0.95, Duration: 30}
)

func compiled(t testing.TB, text string) strategy.Score {
	t.Helper()
	score, err := Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return score
}

func TestScores(t *testing.T) {
	tests := []struct {
		formula string
		want    float64
	}{
		{"success_rate / (1.0 + load)", 0.95 / 1.4}, // ADR-018
		{"success_rate / (1 + load)", 0.95 / 1.4},   // whole numbers are numbers
		{"1 / 2", 0.5}, // and not what programmers make of them
		{"2 - load", 1.6},
		{"in_flight", 2},
		{"-agent_cost", -1},
		{"priority >= 2 ? free_slots : -agent_cost", 3},
		{"priority == 2 ? 1 : 0", 1},
		{"labels.zone == task_labels.zone ? 1 : 0", 1},
		{"has(labels.colour) ? 1 : 0", 0},
		{"'colour' in labels ? 1 : 0", 0},
		{"double(labels.memory) - double(task_labels['min_memory'])", 8},
		{"task_type in ['train', 'tune'] && agent_id.startsWith('gpu-') ? 1 : 0", 1},
		{"task_type.matches('^tra{1}in$') ? 1 : 0", 1}, // a counted repetition
		{"{'train': 2, 'tune': 0.5}[task_type] * load", 0.8},
		{"labels == task_labels || labels in [task_labels] ? 1 : 0", 0},
		{"labels['zone'] == 'lab' && dyn(labels).zone == 'lab' && size(labels) == 2 && 'zone' in labels ? 1 : 0", 1},
		{"math.least(load, 0.3)", 0.3},
		{"math.greatest(1, in_flight, load)", 2},
		{"math.sqrt(max_slots - 1)", 2},
		{"size(labels)", 2},                           // a whole number is one
		{"[3, 1, 2][1]", 1},                           // an index stays whole
		{"7 % 4", 3},                                  // a remainder too
		{"uint(3)", 3},                                //
		{"dyn(load)", 0.4},                            // only known while it runs
		{"rank + 0.25 * fit", 0.8125},                 // (5 − 2)/4 + ¼ · 1/4
		{"free * success * speed", 0.6 * 0.95 * 0.25}, // 3/5 · 0.95 · 10/(10 + 30)
		{"cost + capabilities + flexibility + reported_load", 0.75 + 4 + 1.5 + 0.2},
		{"pending / capacity + duration_s + agent_priority", 12 + 30 + 2},
		{"affinity + session", 0}, // no labels are configured
	}
	for _, tt := range tests {
		t.Run(tt.formula, func(t *testing.T) {
			got, err := compiled(t, tt.formula)(&testCase, &testAgent, &testStanding)
			if err != nil || math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

// What cannot be computed for one agent is an error or not finite, for that agent alone.
func TestFormulasThatFailForAnAgent(t *testing.T) {
	for _, text := range []string{
		"load / 0", "-load / 0", "0 * load / 0", "7 % (size(labels) - 2)", "double(labels.colour)", "double(labels.zone)",
		"labels.colour == 'red' ? 1 : 0", "dyn(task_type)", "[1, 2][size(labels)]", "{'tune': 1}[task_type]",
		"1 / (load - load)",
		"math.sqrt(-1 - load)",
	} {
		got, err := compiled(t, text)(&testCase, &testAgent, &testStanding)
		if err == nil && !math.IsNaN(got) && !math.IsInf(got, 0) {
			t.Errorf("%s gives %v", text, got)
		}
	}
}

func TestFaults(t *testing.T) {
	tests := []struct{ formula, unknown, want string }{
		{"", "", "is empty; write one, e.g. success_rate / (1 + load)"},
		{" \n", "", "is empty; write one, e.g. success_rate / (1 + load)"},
		{"success_rate / (1 + laod)", "laod", "column 21: there is no term laod"},
		{"1 + 'a' + laod", "laod", "column 11: there is no term laod"}, // before all else
		{"load\n + foo", "foo", "line 2, column 4: there is no term foo"},
		{"load(2)", "",
			"column 5: there is no function load here; numbers have + - * / ? : and those of math, such as math.least(a, b)"},
		{"1 / 0", "", "gives +Inf for every agent, which is no score"}, // it reads nothing: that is known at once
		{"math.sqrt(-1)", "", "gives NaN for every agent, which is no score"},
		{"[1, 2][7]", "", "fails for every agent: index out of bounds: 7"},
		{"load < 0.5", "", "gives true or false, a score is a number; write `condition ? 1 : 0`"},
		{"task_type", "", "gives a string, a score is a number"},
		{"labels", "", "gives a map(string, string), a score is a number"},
		{"load + true", "",
			"column 6: + cannot be applied to number, bool; make a number of a condition by `condition ? 1 : 0`"},
		{"load + labels.zone", "",
			"column 6: + cannot be applied to number, string; make a number of a text by double(text)"},
		{"load * size(labels)", "",
			"column 6: * cannot be applied to number, int; write double(…) round the whole number, or int(…) round the other"},
		{"load ? 1 : 0", "",
			"column 6: ? : needs a condition before the ? and two of a kind after it, not number, number, number"},
		{"[1, 2][load]", "", "column 7: [ ] cannot be applied to list(number), number"},
		{"load /", "", "column 7: cannot be read: it ends too early"},
		{"load $ 2", "", "column 6: cannot be read: token recognition error at: '$'"},
		{"[1, 2].exists(x, x > load) ? 1 : 0", "",
			"column 14: there is no function exists here; numbers have + - * / ? : and those of math, such as math.least(a, b)"},
		{"task_type.matches('(') ? 1 : 0", "", "error parsing regexp: missing closing ): `(`"},
		{strings.Repeat("1+", 512) + "1", "", "has 1025 characters; 1024 are the most"},
		{strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300), "", "nests deeper than 50 levels; make it simpler"},
		// Sixteen characters, and a program of 2018 instructions: (256 + 1)·2018/2 = 259313, and two to compare.
		{"labels.a.matches('(a{0,31}){0,31}b') ? 1 : 0", "",
			"could cost 259315 steps for one agent; 10000 are the most: compare texts instead of matching or joining them"},
		// Each 36 instructions, of which 36 are searched for one of 400 ranges of characters.
		{"labels.a.matches('" + strings.Repeat("\\\\pL", 36) + "b') ? 1 : 0", "",
			"could cost 14265 steps for one agent; 10000 are the most: compare texts instead of matching or joining them"},
		// Whole sets of labels, and time zones, which CEL takes for a step or two: seven times two sets at 1,500.
		{strings.TrimSuffix(strings.Repeat("labels == task_labels || ", 7), " || ") + " ? 1 : 0", "",
			"could cost 21014 steps for one agent; 10000 are the most: compare texts instead of matching or joining them"},
		{strings.TrimSuffix(strings.Repeat("labels in [labels, task_labels] || ", 3), " || ") + " ? 1 : 0", "",
			"could cost 13539 steps for one agent; 10000 are the most: compare texts instead of matching or joining them"},
		{"{1: [labels]} != {1: [dyn(task_labels), labels, labels, labels, labels, labels]} ? 1 : 0", "",
			"could cost 10588 steps for one agent; 10000 are the most: compare texts instead of matching or joining them"},
		{strings.TrimSuffix(strings.Repeat("timestamp(0).getHours('Europe/Berlin') + ", 6), " + "), "",
			"could cost 12011 steps for one agent; 10000 are the most: compare texts instead of matching or joining them"},
		{"labels.a.matches(labels.b) ? 1 : 0", "",
			"the pattern of matches must be a text in quotes, so that its cost is known; it is computed here"},
		{"task_type.matches('a' + task_type) ? 1 : 0", "",
			"the pattern of matches must be a text in quotes, so that its cost is known; it is computed here"},
		{"matches(task_type, agent_id) ? 1 : 0", "",
			"the pattern of matches must be a text in quotes, so that its cost is known; it is computed here"},
		{"labels.a.matches('x{1001}') ? 1 : 0", "", "error parsing regexp: invalid repeat count: `{1001}`"},
	}
	for _, tt := range tests {
		_, err := Compile(tt.formula)
		var fault *Error
		if !errors.As(err, &fault) || fault.Unknown != tt.unknown || err.Error() != tt.want {
			t.Errorf("%.40q:\ngot  %v\nwant %s", tt.formula, err, tt.want)
		}
	}
}

// Every name can be asked for, and is one thing only.
func TestNames(t *testing.T) {
	names := Names()
	if len(names) != len(strategy.Terms())+len(texts) {
		t.Errorf("%d names of %d terms and %d texts", len(names), len(strategy.Terms()), len(texts))
	}
	for _, name := range names {
		text := name
		if _, isText := texts[name]; isText {
			text = "size(" + name + ")"
		}
		if got, err := compiled(t, text)(&testCase, &testAgent, &testStanding); err != nil || math.IsNaN(got) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// Whatever the text, it compiles to something that can be asked of any agent, or
// gives one line that says what is wrong.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"success_rate / (1 + load)", "labels.a == 'b' ? 1 : 0", "[1,2][0]", "{'a': 1}[task_type]", "a.b.c(d)", "\"", "'\\",
		"1e999", "0x1F",
		"math.least(1, load)", "has(labels.x)", "b''", "r'\\d'", "size('')", "type(1)", "in", "timestamp('x')",
		"-9223372036854775808", "1u - 2u", "!true",
		"dyn([1, load])", "\x00", "// load", "'''a\n'''", "labels['a'].matches('(a|b)*') ? 1 : 0",
		"task_type.matches('a{2}') ? 1 : 0", "labels.a.matches(task_labels.b) ? 1 : 0", "math.@max(1)", ".load", "load.load",
		"true ? 1 : 1.0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		score, err := Compile(text)
		if err != nil {
			var fault *Error
			if !errors.As(err, &fault) || fault.Text == "" || strings.ContainsAny(err.Error(), "\n\r\x00") ||
				len(err.Error()) > 1000 {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		score(&testCase, &testAgent, &testStanding)
		score(&coordinator.Case{Task: &coordinator.Task{}}, &coordinator.AgentView{}, &coordinator.Standing{})
	})
}

// The formulas of the documentation compile, and its table has every name.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	formulas := regexp.MustCompile(`(?m)^ *formula: "(.*)"$`).FindAllSubmatch(page, -1)
	for _, m := range formulas {
		if _, err := compiled(t, string(m[1]))(&testCase, &testAgent, &testStanding); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	if len(formulas) < 4 {
		t.Errorf("only %d formulas found", len(formulas))
	}
	_, table, _ := bytes.Cut(page, []byte("| name | what it is |\n|---|---|\n"))
	var names []string
	for line := range bytes.Lines(table) {
		cells := strings.Split(string(line), "|")
		if len(cells) < 3 {
			break
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, Names()) {
		t.Errorf("documented are %v\nthere are       %v", names, Names())
	}
}

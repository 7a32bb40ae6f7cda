package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const unservedFile = `agents:
  a1: {capabilities: [code], max_concurrent_tasks: 1}
task_routing:
  fine: {required_capabilities: [code]}
  code-task: {required_capabilities: [code, review]}
`

// A route that no agent can serve is a warning by which tasks fail; where the file asks for it, a fault.
func TestUnservedRoutes(t *testing.T) {
	for _, tc := range []struct {
		name, more      string
		warned, refused bool
	}{
		{"by default it is a warning", "", true, false},
		{"refused where the file says so", "global_settings: {refuse_unserved: true}\n", false, true},
		{"an agent that joins may serve it",
			"global_settings: {refuse_unserved: true}\ndiscovery: {enabled: true, agents: [x], capabilities: [code, review]}\n",
			false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Parse([]byte(unservedFile+tc.more), "agents.yaml")
			var faults *Faults
			if errors.As(err, &faults) != tc.refused {
				t.Fatalf("%v, want a refusal: %v", err, tc.refused)
			}
			if tc.refused {
				if f := faults.List[0]; len(faults.List) != 1 || f.Line != 5 || f.Path != "task_routing.code-task" ||
					!strings.Contains(f.Text, "no agent has all of code, review") {
					t.Errorf("%+v", faults.List)
				}
				return
			}
			warned := false
			for _, w := range c.Warnings() {
				warned = warned || w.Fails && strings.HasPrefix(w.Text,
					"no agent can serve code-task: none has all of code, review")
			}
			if warned != tc.warned {
				t.Errorf("warnings %+v", c.Warnings())
			}
		})
	}
}

// Where there is little room, three faults are named and the others counted.
func TestBrief(t *testing.T) {
	text := func(faults int) string {
		var list []Fault
		for i := range faults {
			list = append(list, Fault{Source: []string{"agents.yaml", environment, "quotas.yaml"}[i%3], Line: i + 1,
				Text: "wrong"})
		}
		return Brief(fmt.Errorf("read: %w", &Faults{List: list}))
	}
	// One more takes no more room than to say that there is one.
	if got := text(4); strings.Count(got, "wrong") != 4 || strings.Count(got, "; ") != 3 || strings.Contains(got, "\n") {
		t.Errorf("4 faults: %q", got)
	}
	if got, want := text(40),
		"agents.yaml:1: wrong; environment:2: wrong; quotas.yaml:3: wrong; and 37 more; taskbus check agents.yaml "+
			"quotas.yaml"; got != want {
		t.Errorf("40 faults: %q, want %q", got, want)
	}
	if got := Brief(errors.New("no such file")); got != "no such file" {
		t.Errorf("another error: %q", got)
	}
}

// Each file has a version of its own, by what it says for the fleet.
func TestFileVersions(t *testing.T) {
	const file = "agents: {a1: {max_concurrent_tasks: 1}}\n"
	q := mustParseQuotas(t, "groups: [{id: red}]\n")
	agents, quotas := mustParse(t, file).FileVersions()
	if agents == "" || quotas != "" {
		t.Errorf("versions %q, %q without a quotas.yaml", agents, quotas)
	}
	if a, q := mustParse(t, "# a comment\n"+file+"http: {bind: 0.0.0.0, advertise_url: 'http://c-1:8551'}\n").
		FileVersions(); a != agents || q != "" {
		t.Errorf("%q, %q where only addresses differ, want %q", a, q, agents)
	}
	if a, _ := mustParse(t, file+"learning: {prior: 0.5}\n").FileVersions(); a == agents {
		t.Error("another agents.yaml has the same version")
	}
	// Groups of quotas.yaml get lanes, which are no matter of agents.yaml.
	with := mustParse(t, file).WithQuotas(q)
	a, first := with.FileVersions()
	if a != agents || first == "" {
		t.Errorf("%q, %q with a quotas.yaml, want %q and a version", a, first, agents)
	}
	if _, other := mustParse(t, file).WithQuotas(mustParseQuotas(t, "groups: [{id: blue}]\n")).
		FileVersions(); other == first {
		t.Error("another quotas.yaml has the same version")
	}
	if a, q := with.WithChangedQuotas(mustParseQuotas(t, "groups: [{id: blue}]\n")).FileVersions(); a != agents ||
		q != first {
		t.Errorf("%q, %q with standing changes, want those of the files", a, q)
	}
}

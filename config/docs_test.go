package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/tests/support/configtest"
)

// shown is a whole agents.yaml on a page for people.
var shown = regexp.MustCompile("(?m)^<!-- config: (\\S+) -->\n```yaml\n((?s:.*?))^```$")

// What the pages show as a file must be one, to the loader and to editors, and mean
// what the pages say.
func TestShownConfigurationsAreValid(t *testing.T) {
	var pages []byte
	for _, name := range []string{"../docs/howto/configure.md", "../docs/reference/strategies.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	files := make(map[string]*coordinator.Policy)
	for _, m := range shown.FindAllStringSubmatch(string(pages), -1) {
		files[m[1]] = mustParse(t, m[2]).Policy()
		doc, err := configtest.EditorSees([]byte(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if err := compileSchema(t).Validate(doc); err != nil {
			t.Errorf("%s: an editor says %v", m[1], err)
		}
	}
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"market", "market-literal", "pull"}) {
		t.Fatalf("the pages show %v", names)
	}
	window := coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond, Fallback: "load_balanced"}
	literal := window
	literal.InviteAll, literal.Reported, literal.FirstMatch, literal.Fallback = true, true, true, "first_match"
	for name, want := range map[string]coordinator.Market{"market": window, "market-literal": literal} {
		if s, ok := files[name].Find("market"); !ok || *s.Market != want {
			t.Errorf("%s: the market is %+v, want %+v", name, s, want)
		}
	}
	if p := files["market"]; p.Strategy != "load_balanced" || p.Routes["research"].Strategy != "market" {
		t.Errorf("market: %s by default, %+v", p.Strategy, p.Routes)
	}
	for _, a := range files["pull"].Agents {
		want := map[coordinator.AgentID]coordinator.PullMode{"batch-1": coordinator.PullShared,
			"batch-2": coordinator.PullLiteral}[a.ID]
		if a.Pull != want {
			t.Errorf("pull: %s has the mode %s, want %s", a.ID, a.Pull, want)
		}
	}
}

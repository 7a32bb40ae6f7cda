package quotas

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/tests/support/configtest"
)

const quotasPage = "../../docs/quotas.md"

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
		shown[m[1]] = outline(mustParse(t, m[2]))
		doc, err := configtest.EditorSees([]byte(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if err := compileQuotasSchema(t).Validate(doc); err != nil {
			t.Errorf("%s: an editor says %v", m[1], err)
		}
	}
	if names := slices.Sorted(maps.Keys(shown)); !slices.Equal(names,
		[]string{"adjustment", "fair-share", "keys", "limits", "prices"}) {
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

// The reference of quotas.yaml names every dimension and the bounds of numbers. Its tables of keys are generated.
func TestQuotasReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for dim := range coordinator.Dimension(coordinator.NumDimensions) {
		if !strings.Contains(page, "`"+dim.String()+"`") {
			t.Errorf("the page does not mention %s", dim)
		}
	}
	for _, n := range []int64{maxAmount, maxSeats, maxRate, maxWeight, mostBudgetPeriod, mostRatePeriod, maxQuotaNodes} {
		if !strings.Contains(page, thousands(n)) {
			t.Errorf("the page does not mention %s", thousands(n))
		}
	}
}

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

package quota

import (
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// Models without a price stand in a table of their own in `quota ls`.
func TestModelsWithoutAPriceAreShown(t *testing.T) {
	models := []view.UnpricedModel{
		{Provider: "openai", Model: "new", Group: "labs", Node: "pool/labs", Refused: 41,
			LastSeen: clitest.Noon.Add(-3 * time.Minute)},
		{Group: "labs", Node: "pool", Refused: 1, Admitted: 2, LastSeen: clitest.Noon.Add(-2 * time.Hour)},
	}
	text := clitest.Written(t, func(p *cli.Page) { printAll(p, view.Quotas{Configured: true, Unpriced: models}) })
	for _, want := range []string{"NO PRICE", "openai/new", "41", "3m ago", "an unnamed model", "2h ago"} {
		if !strings.Contains(text, want) {
			t.Errorf("quota ls does not say %q:\n%s", want, text)
		}
	}
}

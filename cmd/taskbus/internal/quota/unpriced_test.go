package quota

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// Models without a price stand in a table of their own in `quota ls`.
func TestModelsWithoutAPriceAreShown(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	models := []view.UnpricedModel{
		{Provider: "openai", Model: "new", Group: "labs", Node: "pool/labs", Refused: 41,
			LastSeen: now.Add(-3 * time.Minute)},
		{Group: "labs", Node: "pool", Refused: 1, Admitted: 2, LastSeen: now.Add(-2 * time.Hour)},
	}
	var out bytes.Buffer
	if err := printAll(&out, view.Quotas{Configured: true, Unpriced: models}, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NO PRICE", "openai/new", "41", "3m ago", "an unnamed model", "2h ago"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("quota ls does not say %q:\n%s", want, out.String())
		}
	}
}

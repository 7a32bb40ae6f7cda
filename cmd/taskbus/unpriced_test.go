package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/httpapi"
)

// Models without a price stand in a table of their own in `quota ls`, and the doctor warns of each.
func TestModelsWithoutAPriceAreShown(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	models := []httpapi.UnpricedModel{
		{Provider: "openai", Model: "new", Group: "labs", Node: "pool/labs", Refused: 41,
			LastSeen: now.Add(-3 * time.Minute)},
		{Group: "labs", Node: "pool", Refused: 1, Admitted: 2, LastSeen: now.Add(-2 * time.Hour)},
	}
	var out bytes.Buffer
	if err := printQuotas(&out, httpapi.Quotas{Configured: true, Unpriced: models}, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NO PRICE", "openai/new", "41", "3m ago", "an unnamed model", "2h ago"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("quota ls does not say %q:\n%s", want, out.String())
		}
	}
	found := judgePrices(models)
	if len(found) != 2 || found[0].State != checkWarning ||
		found[0].Text != "openai/new has no price, and cost_usd of pool/labs is limited: 41 of its calls and tasks were refused" ||
		!strings.HasSuffix(found[1].Text, "2 of its calls and tasks passed, 1 were refused") {
		t.Errorf("the doctor says %+v", found)
	}
	if judgePrices(nil) != nil {
		t.Error("the doctor warns of no model")
	}
}

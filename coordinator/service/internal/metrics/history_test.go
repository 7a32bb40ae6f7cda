package metrics

import (
	"slices"
	"strings"
	"testing"

	usagehistory "taskbus/coordinator/usage/history"
)

// The metrics tell the states that a history has, by the names that it gives them.
func TestStatesOfTheHistory(t *testing.T) {
	if want := usagehistory.States(); !slices.Equal(historyStates, want) {
		t.Errorf("the metrics know %q, a history has %q", historyStates, want)
	}
	for _, state := range usagehistory.States() {
		if !strings.Contains(descHistoryState.String(), state) {
			t.Errorf("%s is not in the metric's help: %v", state, descHistoryState)
		}
	}
}

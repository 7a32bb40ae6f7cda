package views

import (
	"fmt"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// One task is one task; one that is on its way into its lane is all that this holds.
func TestQueuedInALaneWords(t *testing.T) {
	for _, c := range []struct {
		place engine.Place
		want  string
	}{
		{engine.Place{Lane: "team"},
			"it is in lane team, which holds 1 task: at most 0 tasks that wait for the same agents go before it"},
		{engine.Place{Lane: "team~2", InLane: 9, Ahead: 12, Others: 1, Higher: 2, Lower: 3, Part: 0.188, Quotas: true,
			Group: "team"},
			"it is in lane team~2, which holds 9 tasks: at most 12 tasks of group team with priority low go before it" +
				"; by weight it takes turns with 1 task of other groups; priority low has 19 % of the dispatches while 2 of " +
				"higher and 3 of lower priority wait"},
	} {
		if got := Queued(&c.place); got.Text != c.want || got.Lane != c.place.Lane || got.Ahead != c.place.Ahead {
			t.Errorf("%s\ngot %s", c.want, fmt.Sprint(got))
		}
	}
}

// One task waits, several wait.
func TestPlaceOfTheOnlyTask(t *testing.T) {
	for want, p := range map[string]engine.Place{
		"it is the only task that waits for the same agents":       {Waiting: 1},
		"it is the first of 2 tasks that wait for the same agents": {Waiting: 2},
		"it is the only task of group red with priority normal": {Waiting: 1, Quotas: true, Group: "red",
			Priority: coordinator.PriorityNormal},
		"1 of 2 tasks that wait for the same agents go before it": {Waiting: 2, Ahead: 1},
	} {
		if got := PlaceText(&p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

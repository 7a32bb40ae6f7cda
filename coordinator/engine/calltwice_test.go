package engine_test

import (
	"testing"

	"taskbus/coordinator"
)

// A question that names a reservation twice, and of which a third part is refused, is not told
// that it stands: nothing does.
func TestSameReservationTwiceInARefusedQuestion(t *testing.T) {
	r := calls(t, oneTeam)
	a := r.ask(tokens(coordinator.CallReserve, "1", 100, 0), tokens(coordinator.CallReserve, "1", 100, 0),
		tokens(coordinator.CallReserve, "2", 5000, 0))
	for i, want := range []coordinator.CallState{coordinator.CallPutBy, coordinator.CallPutBy, coordinator.CallNever} {
		if a[i].State != want || !a[i].Until.IsZero() {
			t.Errorf("call %d: %+v, want state %d", i, a[i], want)
		}
	}
	if r.Ledger().Knows(tokens(coordinator.CallReserve, "1", 0, 0).Key) {
		t.Error("it stands")
	}
	// One that stood before stands on.
	r.state(tokens(coordinator.CallReserve, "1", 100, 0), coordinator.CallGranted)
	if a := r.ask(tokens(coordinator.CallReserve, "1", 100, 0),
		tokens(coordinator.CallReserve, "2", 5000, 0)); a[0].State != coordinator.CallGranted || !a[0].Standing ||
		a[0].Until.IsZero() {
		t.Errorf("%+v", a[0])
	}
}

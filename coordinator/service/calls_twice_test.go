package service

import (
	"context"
	"testing"

	"taskbus/coordinator"
)

// A question in which a reservation is made, ended, and something follows that nobody here can answer,
// leaves nothing behind, and the process as it was.
func TestLossOfWhatEndsInItsOwnQuestion(t *testing.T) {
	inLossRig(t, `pool: {on_loss: allow}
groups: [{id: alpha}]
`, func(r *rig) {
		for _, last := range []coordinator.CallOp{coordinator.CallExtend, coordinator.CallReserve} { // is not answered; is refused
			c := aCall(last, "2", 10)
			c.OwnOnly, c.Agent, c.Group = last == coordinator.CallReserve, "nobody", "alpha"
			if _, err := r.service.AskCalls(context.Background(), []coordinator.Call{aCall(coordinator.CallReserve, "1", 10), aCall(coordinator.CallRelease, "1", 10), c}); err == nil {
				t.Error("it is answered")
			}
			if n := r.service.lost.waiting(); n != 0 {
				t.Errorf("%d calls are owed", n)
			}
		}
	})
}

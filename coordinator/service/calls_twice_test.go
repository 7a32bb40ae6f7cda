package service

import (
	"context"
	"testing"

	"taskbus/coordinator"
)

// A question in which a reservation is made, ended, and something follows that cannot be answered here,
// leaves nothing behind, and the process as it was.
func TestLossOfWhatEndsInItsOwnQuestion(t *testing.T) {
	inLossRig(t, `pool: {on_loss: allow}
groups: [{id: alpha}]
unknown_callers: allow
`, func(r *rig) {
		// is not answered; is refused
		for _, last := range []coordinator.CallOp{coordinator.CallExtend, coordinator.CallReserve} {
			c := aCall(last, "2", 10)
			c.OwnOnly, c.Agent, c.Group = last == coordinator.CallReserve, "nobody", "alpha"
			if _, err := r.service.AskCalls(context.Background(), []coordinator.Call{aCall(coordinator.CallReserve, "1", 10),
				aCall(coordinator.CallRelease, "1", 10), c}); err == nil {
				t.Error("it is answered")
			}
			if n := r.service.lost.waiting(); n != 0 {
				t.Errorf("%d calls are owed", n)
			}
		}
	})
}

// What was let pass for a provider that quotas.yaml no longer lists belongs to no other: it does not take
// the safe_limits of one that comes in its place.
func TestLossOfAProviderThatIsTakenOut(t *testing.T) {
	const stays = `
groups: [{id: alpha}]
unknown_callers: allow
providers:
  - {provider: stays, on_loss: safe, safe_limits: {requests: {amount: 1, per: day}}, limits: {requests: {rate: 1000, per: minute}}}
`
	inLossRig(t, stays+`  - {provider: gone, on_loss: safe, safe_limits: {requests: {amount: 1, per: day}}, limits: {requests: {rate: 1000, per: minute}}}
`, func(r *rig) {
		r.asked(of("gone", aCall(coordinator.CallReserve, "1", 10)), coordinator.CallGranted)
		r.under(stays)
		r.asked(of("stays", aCall(coordinator.CallReserve, "2", 10)), coordinator.CallGranted)
		r.unanswered(of("stays", aCall(coordinator.CallReserve, "3", 10))) // the one of its day is used
		r.asked(of("gone", aCall(coordinator.CallSettle, "1", 10)), coordinator.CallGranted)
		r.unanswered(of("stays", aCall(coordinator.CallReserve, "4", 10))) // still
	})
}

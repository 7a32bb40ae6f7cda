package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// An agent does not hold seats by its own token for longer than quotas.yaml says, unless it goes on
// asking; a gateway, and an agent that takes none that are limited, may name any time.
func TestSeatsAreNotHeldForADay(t *testing.T) {
	r := calls(t, `
groups: [{id: team}]
agents: [{id: x, group_id: team}]
providers:
  - {provider: seated, limits: {concurrency: {amount: 4}}}
  - {provider: free, limits: {requests: {amount: 1000, per: day}}}
reservation_ttl_seconds: 60
`)
	for i, c := range []struct {
		provider string
		own      bool
		seats    int64
		ttl      time.Duration
		want     time.Duration
	}{
		{"seated", true, 1, 24 * time.Hour, time.Minute},
		{"seated", true, 1, 30 * time.Second, 30 * time.Second},
		{"seated", true, 1, 0, time.Minute},
		{"seated", false, 1, 24 * time.Hour, 24 * time.Hour},
		{"seated", true, 0, 24 * time.Hour, 24 * time.Hour},
		{"free", true, 1, 24 * time.Hour, 24 * time.Hour},
	} {
		ask := tokens(coordinator.CallReserve, string(rune('a'+i)), 1, 1)
		ask.Usage.Provider, ask.OwnOnly, ask.Seats, ask.TTL = c.provider, c.own, c.seats, c.ttl
		if a := r.state(ask, coordinator.CallGranted); a.Until.Sub(r.now) != c.want {
			t.Errorf("%+v: it stands for %v", c, a.Until.Sub(r.now))
		}
		on := r.now.Add(10 * time.Second)
		r.pass(10 * time.Second)
		more := tokens(coordinator.CallExtend, string(rune('a'+i)), 0, 1)
		more.OwnOnly, more.TTL = c.own, 24*time.Hour
		want := 24 * time.Hour
		if c.want <= time.Minute {
			want = time.Minute // from now on, again
		}
		if a := r.state(more, coordinator.CallGranted); a.Until.Sub(on) != want {
			t.Errorf("%+v: extended, it stands for %v, want %v", c, a.Until.Sub(on), want)
		}
		end := tokens(coordinator.CallRelease, string(rune('a'+i)), 0, 0)
		end.OwnOnly = c.own
		r.state(end, coordinator.CallGranted)
	}
	// Nor by taking them later, for a reservation that took none.
	for _, op := range []coordinator.CallOp{coordinator.CallReserve, coordinator.CallExtend} {
		c := tokens(op, "z", 1, 1)
		c.Usage.Provider, c.OwnOnly = "seated", true
		want := 24 * time.Hour
		if op == coordinator.CallReserve {
			c.TTL = want
		} else {
			c.Seats, want = 4, time.Minute
		}
		if a := r.state(c, coordinator.CallGranted); a.Until.Sub(r.now) != want {
			t.Errorf("%v: it stands for %v, want %v", op, a.Until.Sub(r.now), want)
		}
	}
}

// When quotas.yaml goes, calls that are open are extended for as long as they ask, and ended, as
// before.
func TestCallsOutliveTheQuotas(t *testing.T) {
	r := calls(t, `
groups: [{id: team}]
agents: [{id: x, group_id: team}]
providers: [{provider: seated, limits: {concurrency: {amount: 4}}}]
reservation_ttl_seconds: 60
`)
	made := r.now
	ask := tokens(coordinator.CallReserve, "a", 1, 1)
	ask.Usage.Provider, ask.OwnOnly, ask.Seats = "seated", true, 1
	r.state(ask, coordinator.CallGranted)
	r.install(policyOf(worker("a").slots(10)))
	r.pass(10 * time.Second)
	for _, c := range []struct {
		ttl, want time.Duration
	}{
		{0, 60 * time.Second}, // as it was made
		{time.Hour, 10*time.Second + time.Hour},
	} {
		more := tokens(coordinator.CallExtend, "a", 1, 1)
		more.OwnOnly, more.Seats, more.TTL = true, 1, c.ttl
		if a := r.state(more, coordinator.CallGranted); a.Until.Sub(made) != c.want {
			t.Errorf("extended by %v, it stands until %v after it was made, want %v", c.ttl, a.Until.Sub(made), c.want)
		}
	}
	r.state(tokens(coordinator.CallSettle, "a", 2, 2), coordinator.CallGranted)
	r.state(tokens(coordinator.CallReserve, "b", 1, 1), coordinator.CallGranted)
	r.state(tokens(coordinator.CallExtend, "b", 1, 1), coordinator.CallUnknown)
}

package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"taskbus/agent/quota"
)

// What was not used of a lease is there again: ten calls that fail need one lease of 4.
func TestFailedCallsAreGivenBackToTheLease(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", leases(4))
		for range 10 {
			admit(t, c, 100).Release(nil)
		}
		if n := r.count("reserve"); n != 1 {
			t.Errorf("%d reservations, want 1", n)
		}
		r.close(c)
		r.stands("one", 0, 0)
	})
}

// A lease that is used up stands while the last of its calls runs, extended for as long as the
// reservation of a single call: every 20 s, so 30 times in 10 minutes.
func TestUsedUpLeaseStandsWhileItsCallsRun(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", leases(2), func(o *quota.Options) { o.Lease.TTL = 5 * time.Second })
		one, two := admit(t, c, 100), admit(t, c, 100)
		two.Settle(used(10, 10), nil)
		time.Sleep(10 * time.Minute)
		r.stands("one", 0, 200)
		if n := r.count("extend"); n < 29 || n > 33 {
			t.Errorf("extended %d times, want about 30", n)
		}
		one.Settle(used(20, 20), nil)
		r.close(c)
		r.stands("one", 60, 0)
	})
}

// A call that was given up leaves nothing set aside, although its lease was granted and the answer
// lost.
func TestLostGrantIsGivenBack(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", func(o *quota.Options) { o.Patience = -1 })
		defer r.close(c)
		r.set("one", func(c *coordinator) { c.mute = true })
		var none *quota.Unavailable
		if _, err := c.Admit(context.Background(), taking(50, 50)); !errors.As(err, &none) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if n := r.count("release"); n == 0 {
			t.Error("it was not released")
		}
		r.set("one", func(c *coordinator) { c.mute = false })
		time.Sleep(time.Second)
		r.stands("one", 0, 0) // its 10 s are not over
	})
}

// A settlement whose answer is lost is told again and counts once, also when the coordinator has
// forgotten meanwhile that it has heard it, which it does after a minute.
func TestSettlementWithoutAnswer(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 3 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			inRig(t, pool(100_000, ""), func(r *rig) {
				c := r.client("x", leases(1))
				p := admit(t, c, 100)
				r.set("one", func(c *coordinator) { c.mute = true })
				p.Settle(used(40, 30), nil)
				time.Sleep(time.Second)
				r.stands("one", 70, 0)
				r.set("one", func(c *coordinator) { c.mute, c.deaf = false, true })
				time.Sleep(away)
				if s := c.Stats(); s.Untold != 1 {
					t.Errorf("%+v", s)
				}
				r.set("one", func(c *coordinator) { c.deaf = false })
				time.Sleep(6 * time.Second)
				if s := c.Stats(); s.Untold != 0 || s.Lost != 0 {
					t.Errorf("%+v", s)
				}
				r.close(c)
				r.stands("one", 70, 0)
			})
		})
	}
}

// What is tried for longer than any coordinator would know the call is lost, counted, and not tried again.
func TestSettlementIsGivenUp(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", leases(1), func(o *quota.Options) { o.SettleFor = time.Minute })
		p := admit(t, c, 100)
		r.set("one", func(c *coordinator) { c.deaf = true })
		p.Settle(used(40, 30), nil)
		time.Sleep(50 * time.Second)
		if s := c.Stats(); s.Lost != 0 || s.Untold != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(11 * time.Second)
		if s := c.Stats(); s.Lost != 1 || s.Untold != 0 {
			t.Errorf("%+v", s)
		}
		r.set("one", func(c *coordinator) { c.deaf = false })
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.stands("one", 0, 0) // it has expired
	})
}

// A lease that could not be extended when it was due, for a moment, is as soon as it can be.
func TestExtensionIsTriedAgain(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", leases(4))
		defer r.close(c)
		admit(t, c, 100).Settle(nil, nil)
		time.Sleep(3 * time.Second)
		r.set("one", func(c *coordinator) { c.deaf = true }) // it is due at 3.3 s
		time.Sleep(2 * time.Second)
		r.set("one", func(c *coordinator) { c.deaf = false })
		time.Sleep(5 * time.Second)
		admit(t, c, 100).Settle(nil, nil) // at 10 s: its first 9 are over
		if n, extended := r.count("reserve"), r.count("extend"); n != 1 || extended != 1 {
			t.Errorf("%d reservations and %d extensions, want one of each", n, extended)
		}
	})
}

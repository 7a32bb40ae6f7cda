package quota_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent/quota"
)

// admit insists on a pass for a call of so many tokens, half of them output.
func admit(t *testing.T, c *quota.Client, tokens int64) *quota.Pass {
	t.Helper()
	p, err := c.Admit(context.Background(), taking(tokens/2, tokens/2))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leases are of so many calls.
func leases(calls int) func(*quota.Options) {
	return func(o *quota.Options) { o.Lease.Calls = calls }
}

// Of a lease of 8 calls the next is reserved when 3 are left; each is settled when its last call
// has ended; what is not used is given back when its time is over.
func TestLeaseAdmitsWithoutAsking(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		for i := range 8 {
			p := admit(t, c, 100)
			if i == 0 {
				r.stands("one", 0, 800)
			}
			p.Settle(used(30, 40), nil)
			p.Settle(used(30, 40), nil) // said twice, it counts once
			synctest.Wait()
			if n, want := r.count("reserve"), 1+i/4; n != want { // i = 4 is the fifth
				t.Errorf("after call %d: %d reservations, want %d", i+1, n, want)
			}
		}
		// 8 · (30 + 40) = 560 used; the second lease holds 8 · 100: calls are asked for as they say.
		r.stands("one", 560, 800)
		time.Sleep(15 * time.Second)
		r.stands("one", 560, 0)
		if n := r.count("settle"); n != 1 {
			t.Errorf("%d settlements, want one for the lease", n)
		}
	})
}

// What a call has used less than expected is there for the next ones of its lease; where the tokens
// are used up, its calls are, too.
func TestLeaseCountsTokens(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", leases(4))
		defer r.close(c)
		admit(t, c, 100).Settle(used(250, 50), nil) // 250 of the 4 · 50 input tokens
		p := admit(t, c, 100)
		synctest.Wait()
		if n := r.count("reserve"); n != 2 {
			t.Errorf("%d reservations, want another one: nothing was left of the first", n)
		}
		p.Release(nil)
		if u, _ := r.budget("one"); u != 300 {
			t.Errorf("%d used, want 300", u)
		}
	})
}

// Where there is no room for a lease, there may be for a call: the budget is used to the end. A call
// several times larger than usual does not make a lease of its size either.
func TestNoRoomForALease(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x") // 8 calls of 300 are more than there is at all
		defer r.close(c)
		for range 3 {
			admit(t, c, 300).Settle(nil, nil)
		}
		var refused *quota.Refused
		if _, err := c.Admit(context.Background(), taking(150, 150)); !errors.As(err, &refused) || refused.Permanent {
			t.Errorf("1,200 of 1,000: %v", err)
		}
		r.stands("one", 900, 0)
		if s := c.Stats(); s.Admitted != 3 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
	})
	inRig(t, pool(1_000_000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		p := admit(t, c, 1000)
		large := admit(t, c, 20_000)
		r.stands("one", 0, 8*1000+20_000)
		large.Release(nil)
		r.stands("one", 0, 8*1000)
		p.Release(nil)
	})
}

// Of what the coordinator estimates, the first call teaches the client how much it is.
func TestUnknownOutputIsEstimatedByTheCoordinator(t *testing.T) {
	inRig(t, pool(1_000_000, "default_output_tokens: 200"), func(r *rig) {
		c := r.client("x", leases(4))
		defer r.close(c)
		call := quota.Call{Provider: "openai", Model: "m", InputTokens: new(int64(100))}
		for i, want := range []int{300, 300 + 4*300} { // itself; a lease of 4
			p, err := c.Admit(context.Background(), call)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release(nil)
			if _, reserved := r.budget("one"); reserved != want {
				t.Errorf("after call %d: %d set aside, want %d", i+1, reserved, want)
			}
		}
	})
}

// A call that runs for longer than any reservation stands keeps its own, and what it has used is
// charged at its end. One without a reported end is let go.
func TestLongCallsKeepTheirReservation(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x", leases(1), func(o *quota.Options) { o.MaxCall = 20 * time.Minute })
		defer r.close(c)
		p := admit(t, c, 400)
		time.Sleep(10 * time.Minute) // its TTL is 1
		r.stands("one", 0, 400)
		p.Settle(used(300, 300), nil)
		r.stands("one", 600, 0)
		p = admit(t, c, 400)
		time.Sleep(25 * time.Minute)
		r.stands("one", 600, 0)
		p.Settle(used(100, 0), nil) // it has run all the same
		r.stands("one", 700, 0)
	})
}

// A provider that wants to be left alone is: no call is admitted any more without a question,
// neither by a lease that stands nor by one that was asked for before, and the coordinator is told.
func TestThrottledProviderEndsTheLeases(t *testing.T) {
	for name, c := range map[string]struct {
		arrives time.Duration // of the second lease
		want    []string
	}{
		"a lease that stands":    {time.Second, []string{"reserve", "reserve", "release", "settle", "reserve"}},
		"one that is on its way": {0, []string{"reserve", "reserve", "settle", "release", "reserve"}},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, "providers: [{provider: openai, limits: {requests: {rate: 100, per: second}}}]", func(r *rig) {
				client := r.client("x", leases(2))
				defer r.close(client)
				one, two := admit(t, client, 100), admit(t, client, 100)
				time.Sleep(c.arrives)
				one.Release(quota.Heard(429, 10*time.Millisecond,
					map[string][]string{"Retry-After": {"20"}, "Set-Cookie": {"secret"}}))
				synctest.Wait()
				two.Settle(nil, quota.Heard(200, time.Second, nil))
				time.Sleep(10 * time.Millisecond)
				_, err := client.Admit(context.Background(), taking(50, 50))
				var refused *quota.Refused
				if !errors.As(err, &refused) {
					t.Fatalf("%v after %v, want it refused", err, r.list())
				}
				if refused.Limit != "provider" || refused.RetryAfter < 19*time.Second || !slices.Equal(r.list()[:5], c.want) {
					t.Errorf("%v (after %v, %q) after %v, want it refused for what the provider has said", err, refused.RetryAfter,
						refused.Limit, r.list())
				}
			})
		})
	}
}

// Many at once get their leases side by side, not one after the other, and none of more calls than
// there are.
func TestManyCallsAtOnce(t *testing.T) {
	const callers = 400
	inRig(t, pool(1_000_000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		before := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				p, err := c.Admit(context.Background(), taking(50, 50))
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(10 * time.Millisecond)
				p.Settle(nil, nil)
			})
		}
		all.Wait()
		if d := time.Since(before); d > 100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		// 400 / 8 = 50, and one more before those are used up.
		if n := r.count("reserve"); n < 50 || n > 52 {
			t.Errorf("%d reservations of 8 calls for %d calls", n, callers)
		}
		time.Sleep(time.Second) // they are told one after the other
		if u, _ := r.budget("one"); u != callers*100 {
			t.Errorf("%d used, want %d", u, callers*100)
		}
	})
}

// A lease is of no use when its time is over by the client's own clock, less a tenth: 9 s of 10.
func TestLeaseEndsByItsTime(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		c := r.client("x", func(o *quota.Options) { o.Patience = -1 })
		admit(t, c, 100).Settle(nil, nil)
		r.set("one", func(c *coordinator) { c.deaf = true })
		time.Sleep(8900 * time.Millisecond)
		admit(t, c, 100).Settle(nil, nil)
		time.Sleep(100 * time.Millisecond)
		var none *quota.Unavailable
		if _, err := c.Admit(context.Background(), taking(50, 50)); !errors.As(err, &none) {
			t.Errorf("after 9 s: %v", err)
		}
		r.set("one", func(c *coordinator) { c.deaf = false })
		time.Sleep(20 * time.Second)
		r.stands("one", 200, 0) // it was told late, and is charged all the same
		r.close(c)
	})
}

// The agent's own word is believed only so far beyond what was reserved: of 1,000 a day of its own, and others
// with 99,000, up to its budget once more. What is told beyond that is charged as it was reserved, and not
// given back when the reservation expires.
func TestNotBelievedIsChargedAsReserved(t *testing.T) {
	const small = `
pool: {limits: {total_tokens: {amount: 100000, per: day}}}
groups:
  - {id: mine, limits: {total_tokens: {amount: 1000, per: day}}}
  - {id: theirs, limits: {total_tokens: {amount: 99000, per: day}}}
agents: [{id: x, group_id: mine}]`
	inRig(t, small, func(r *rig) {
		var log bytes.Buffer
		client := r.client("x", leases(1), func(o *quota.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		admit(t, client, 100).Settle(used(40_000, 40_000), nil)
		time.Sleep(time.Second)
		r.stands("one", 100, 0)
		if s := client.Stats(); s.Lost != 1 {
			t.Errorf("%d ends could not be told as they were, want one", s.Lost)
		}
		admit(t, client, 100).Settle(used(100, 100), nil) // what it has of its own is believed
		time.Sleep(time.Second)
		r.stands("one", 300, 0)
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if text := log.String(); !strings.Contains(text, "as much as was reserved is charged") {
			t.Errorf("it says %q", text)
		}
	})
}

package quota_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"taskbus/agent/quota"
	"taskbus/tests/support/brokertest"
)

// moveOn has the client ask coordinator two from now on, and a leader be there: what was granted
// so far one alone knows.
func (f *fleet) moveOn(c *quota.Client) {
	f.t.Helper()
	f.set(func() { f.hosts["one"].deaf = true })
	admit(f.t, c, 100).Release(nil)
	time.Sleep(time.Second)
	f.set(func() { f.hosts["one"].deaf, f.leads = false, true })
}

// What one has granted without a leader is settled there, although two has answered last, and
// charged at what was used: 30 + 40 tokens, not the 100 that were asked for. A confirmed
// reservation is settled by the coordinator that answered last.
func TestUnconfirmedIsToldToWhoHasGrantedIt(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c := f.client()
		p, failed, id := admit(t, c, 100), admit(t, c, 100), f.reserve(c)
		f.moveOn(c)
		p.Settle(used(30, 40), nil)
		failed.Release(nil)
		if _, err := c.Settle(context.Background(), id, used(1, 2), nil); err != nil {
			t.Error(err)
		}
		admit(t, c, 100).Settle(used(5, 5), nil)
		time.Sleep(2 * time.Second)
		f.insist(c, 70+3+10, 3, 0, 0)
		if one, two := f.count("settle@one"), f.count("settle@two"); one != 2 || two != 1 {
			t.Errorf("%d ends told to one and %d to two, want the 2 unconfirmed ones and the other", one, two)
		}
		time.Sleep(5 * time.Minute)
		f.insist(c, 70+3+10, 3, 0, 0)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Without a leader the end of a confirmed call is not answered, again and again. That is no reason not to
// ask for other calls, which on_loss grants.
func TestUnansweredEndKeepsNobodyFromAsking(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.set(func() { f.leads = true })
		c := f.client()
		p := admit(t, c, 100)
		f.set(func() { f.leads = false })
		p.Settle(used(30, 40), nil)
		for range 100 {
			time.Sleep(200 * time.Millisecond)
			admit(t, c, 100).Release(nil)
		}
		f.set(func() { f.leads = true })
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// The same with real coordinators. Without a leader one admits a call, then two leads and has answered
// last, and knows nothing of it. One, which cannot reach two, charges it when it leads itself.
func TestUnconfirmedIsToldToARealCoordinator(t *testing.T) {
	inRig(t, "pool: {on_loss: allow, limits: {total_tokens: {amount: 1000, per: day}}}", func(r *rig) {
		r.start("two")
		one, two := r.hosts["one"], r.hosts["two"]
		one.bus.shut.Store(true)
		two.bus.shut.Store(true)
		r.broker.Cut()
		time.Sleep(time.Second)
		c := r.client("x", leases(1))
		p := admit(t, c, 100)
		two.bus.shut.Store(false)
		r.set("one", func(c *coordinator) { c.deaf = true })
		time.Sleep(30 * time.Second) // two leads
		admit(t, c, 100).Settle(used(5, 5), nil)
		r.set("one", func(c *coordinator) { c.deaf = false })
		time.Sleep(time.Second)
		p.Settle(used(30, 40), nil)
		time.Sleep(time.Second)
		r.close(c)
		r.stands("two", 10, 0)
		one.bus.shut.Store(false)
		r.kill("two")
		time.Sleep(30 * time.Second) // one leads
		r.stands("one", 10+70, 0)
	})
}

// Without a leader the end goes to its grantor, too, and is charged as soon as there is one.
func TestUnconfirmedEndsWithoutALeader(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c := f.client()
		p := admit(t, c, 100)
		f.moveOn(c)
		f.set(func() { f.leads = false })
		p.Settle(used(30, 40), nil)
		time.Sleep(5 * time.Minute)
		f.insist(c, 0, 0, 0, 0)
		f.set(func() { f.leads = true })
		f.insist(c, 70, 1, 0, 0)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Behind one address there may be several coordinators: that the reservation is not known there is no
// end before its grantor's report to the leader is due. It is sent again every 5 s at most.
func TestUnknownIsNoEndOfWhatIsUnconfirmed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c := f.client(func(o *quota.Options) { o.URLs = []string{"http://vip"} })
		p, failed, id := admit(t, c, 100), admit(t, c, 100), f.reserve(c)
		f.set(func() { f.leads, f.behind = true, "two" })
		p.Settle(used(30, 40), nil)
		failed.Release(nil)
		if _, err := c.Release(context.Background(), id, nil); !errors.Is(err, quota.ErrUnknown) {
			t.Errorf("of a coordinator that does not know it: %v", err)
		}
		time.Sleep(time.Minute)
		f.insist(c, 0, 0, 0, 2)
		f.set(func() { f.behind = "one" })
		time.Sleep(7 * time.Second)
		if _, err := c.Release(context.Background(), id, nil); err != nil {
			t.Error(err)
		}
		f.insist(c, 70, 1, 0, 0)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// The end is heard and its answer lost: it is known no more, until the leader has been told, which
// knows that it has ended. It counts once.
func TestUnconfirmedEndWithoutAnswer(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c := f.client()
		p := admit(t, c, 100)
		f.moveOn(c)
		f.set(func() { f.hosts["one"].mute = true })
		p.Settle(used(30, 40), nil)
		time.Sleep(10 * time.Millisecond)
		f.set(func() { f.hosts["one"].mute = false })
		time.Sleep(500 * time.Millisecond)
		f.insist(c, 0, 0, 0, 1) // it is told the leader at 1 s
		time.Sleep(5 * time.Second)
		f.insist(c, 70, 1, 0, 0)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// The grantor cannot be reached. No other gets the report for two minutes and ten seconds; by then it has
// reported to the leader, at two minutes, the 100 tokens that were asked for, and two knows.
func TestOthersAreToldOfWhatIsUnconfirmed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c := f.client()
		p := admit(t, c, 100)
		f.moveOn(c)
		f.set(func() { f.hosts["one"].deaf = true })
		p.Settle(used(30, 40), nil)
		time.Sleep(2 * time.Minute)
		if n := f.count("settle@two"); n != 0 {
			t.Errorf("two was told %d times, want not yet", n)
		}
		f.insist(c, 100, 1, 0, 1)
		time.Sleep(20 * time.Second)
		f.insist(c, 100, 1, 0, 0)
		if n := f.count("settle@two"); n != 1 {
			t.Errorf("two was told %d times, want once", n)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// The grantor has been restarted, or is gone: no coordinator knows the call, and none charges it. That is
// counted as lost, and said as it is. What was confirmed does not wait meanwhile.
func TestUnconfirmedIsLostWithWhoHasGrantedIt(t *testing.T) {
	for name, change := range map[string]func(m *member){
		"restarted": func(m *member) { clear(m.owed) },
		"gone":      func(m *member) { clear(m.owed); m.deaf = true },
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				var log brokertest.LogBook
				c := f.client(func(o *quota.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				var calls []*quota.Pass
				for range 20 { // more than are told at one time
					calls = append(calls, admit(t, c, 100))
				}
				f.moveOn(c)
				f.set(func() { change(f.hosts["one"]) })
				for _, p := range calls {
					p.Settle(used(30, 40), nil)
				}
				confirmed := admit(t, c, 100)
				time.Sleep(time.Second)
				confirmed.Settle(used(5, 5), nil)
				time.Sleep(time.Second)
				f.insist(c, 10, 1, 0, 20)
				time.Sleep(2*time.Minute - 5*time.Second)
				f.insist(c, 10, 1, 0, 20)
				if name == "gone" { // that it has answered no others for a while is no sign that it has received one
					f.set(func() { f.leads = false })
					time.Sleep(20 * time.Second)
					f.set(func() { f.leads = true })
				}
				time.Sleep(20 * time.Second)
				f.insist(c, 10, 1, 20, 0)
				if text := log.String(); !strings.Contains(text, "charges what was asked for, or nothing if it was restarted") ||
					!strings.Contains(text, "coordinator=http://one") || strings.Contains(text, "expires") {
					t.Errorf("logged:\n%s", text)
				}
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lease that is unconfirmed cannot be extended, and admits no longer than its end is waited for:
// two minutes less a tenth, although it was asked for ten.
func TestUnconfirmedLeaseEndsInTime(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c := f.client(func(o *quota.Options) { o.Lease = quota.Lease{Calls: 100, TTL: 10 * time.Minute} })
		for range 10 {
			admit(t, c, 100).Settle(used(5, 5), nil)
			time.Sleep(10 * time.Second)
		}
		f.set(func() { f.leads = true })
		time.Sleep(10 * time.Second) // 110 s
		f.insist(c, 100, 1, 0, 0)
		if n, extended := f.count("reserve@one"), f.count("extend@one")+f.count("extend@two"); n != 1 || extended != 0 {
			t.Errorf("%d reservations and %d extensions, want 1 and none", n, extended)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

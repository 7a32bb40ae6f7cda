package quota_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"taskbus/agent/quota"
)

// Every operation, one after the other, against a real coordinator with 1,000 tokens a day.
func TestOperations(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		ctx := context.Background()
		call := taking(100, 200)
		call.ID, call.TTL = "r-1", time.Minute
		a, err := c.Reserve(ctx, call)
		if err != nil || a.ReservationID != "r-1" || a.Standing || a.Reserved.TotalTokens != 300 ||
			time.Until(a.ExpiresAt).Round(time.Second) != time.Minute {
			t.Fatalf("%+v, %v", a, err)
		}
		if a, err = c.Reserve(ctx, call); err != nil || !a.Standing {
			t.Errorf("once more: %+v, %v", a, err)
		}
		r.stands("one", 0, 300)
		if a, err = c.Extend(ctx, "r-1", quota.More{OutputTokens: 50, TTL: 2 * time.Minute}); err != nil ||
			a.Reserved.TotalTokens != 350 {
			t.Errorf("%+v, %v", a, err)
		}
		if a, err = c.Settle(ctx, "r-1", used(100, 220), nil); err != nil || a.Charged.TotalTokens != 320 {
			t.Errorf("%+v, %v", a, err)
		}
		r.stands("one", 320, 0)
		if _, err = c.Settle(ctx, "r-1", used(1, 1), nil); !errors.Is(err, quota.ErrEnded) {
			t.Errorf("settled twice: %v", err)
		}
		if _, err = c.Extend(ctx, "r-9", quota.More{TTL: time.Minute}); !errors.Is(err, quota.ErrUnknown) {
			t.Errorf("extended what is not there: %v", err)
		}
		if a, err = c.Reserve(ctx, taking(10, 10)); err != nil {
			t.Fatal(err)
		}
		if _, err = c.Release(ctx, a.ReservationID, quota.Heard(500, time.Second, nil)); err != nil {
			t.Error(err)
		}
		if a, err = c.Consume(ctx, taking(40, 40)); err != nil || a.Charged.TotalTokens != 80 {
			t.Errorf("%+v, %v", a, err)
		}
		r.stands("one", 400, 0)
		if _, err = c.Check(ctx, taking(300, 300)); err != nil {
			t.Errorf("600 of the 600 that are left: %v", err)
		}
		// 400 + 601 > 1000: refused now; 1001 are refused for ever.
		var refused *quota.Refused
		if _, err = c.Check(ctx, taking(300, 301)); !errors.As(err, &refused) || refused.Permanent ||
			refused.RetryAfter < time.Second ||
			refused.Node != "pool" || refused.Dimension != "total_tokens" || refused.Limit != "budget" ||
			refused.Policies[0] != "pool:total_tokens:budget" {
			t.Errorf("%+v", err)
		}
		if _, err = c.Check(ctx, taking(1000, 1)); !errors.As(err, &refused) || !refused.Permanent {
			t.Errorf("%+v", err)
		}
	})
}

// A charge is taken whatever the limits, once for each id; consume refuses the same.
func TestChargeIsNeverRefused(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		call := taking(900, 300)
		call.ID = "debt-1"
		for i := range 2 {
			if a, err := c.Charge(context.Background(), call); err != nil || a.Charged.TotalTokens != 1200 ||
				a.Standing != (i == 1) {
				t.Errorf("%+v, %v", a, err)
			}
		}
		r.stands("one", 1200, 0)
		var refused *quota.Refused
		if _, err := c.Consume(context.Background(), taking(1, 0)); !errors.As(err, &refused) {
			t.Errorf("beyond the budget: %v", err)
		}
	})
}

// A request for another agent, or with a wrong token, fails at once: to ask again would not help.
func TestProblemsAreTold(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x", func(o *quota.Options) { o.Token = "not-the-token" })
		defer r.close(c)
		before := time.Now()
		_, err := c.Admit(context.Background(), taking(1, 1))
		var problem *quota.Problem
		if !errors.As(err, &problem) || problem.Status != 401 || strings.Contains(err.Error(), "not-the-token") {
			t.Errorf("%v", err)
		}
		if _, err := c.Reserve(context.Background(), quota.Call{Model: "no model!"}); !errors.As(err, &problem) {
			t.Errorf("%v", err)
		}
		if d := time.Since(before); d != 0 {
			t.Errorf("that took %v", d)
		}
	})
}

// An id that is used again for another call is taken; the same call is answered again, and charged once.
func TestIDIsTaken(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		call := taking(50, 50)
		call.ID = "once"
		for range 2 {
			if _, err := c.Consume(context.Background(), call); err != nil {
				t.Fatal(err)
			}
		}
		call = taking(500, 50)
		call.ID = "once"
		if _, err := c.Consume(context.Background(), call); !errors.Is(err, quota.ErrTaken) ||
			!errors.Is(err, quota.ErrEnded) {
			t.Errorf("another call under the same id: %v, want %v", err, quota.ErrTaken)
		}
		r.stands("one", 100, 0)
	})
}

// What was asked is done once, although the first answer was lost; a standby is passed over.
func TestAttemptsCountOnce(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		r.start("two") // stands by
		c := r.client("x", func(o *quota.Options) { o.URLs = []string{"http://two", "http://one"} })
		defer r.close(c)
		r.set("one", func(c *coordinator) { c.mute = true })
		time.AfterFunc(300*time.Millisecond, func() { r.set("one", func(c *coordinator) { c.mute = false }) })
		if _, err := c.Consume(context.Background(), taking(50, 50)); err != nil {
			t.Fatal(err)
		}
		if n := r.count("consume"); n < 4 {
			t.Errorf("%d attempts arrived, want some at either", n)
		}
		r.stands("one", 100, 0)
		before := r.count("consume")
		if _, err := c.Consume(context.Background(), taking(50, 50)); err != nil || r.count("consume") != before+1 {
			t.Errorf("%v after %d attempts, want one, at the one that answered", err, r.count("consume")-before)
		}
	})
}

// No coordinator answers: patience bounds the wait, the context too; an answer that was lost leaves nothing
// set aside.
func TestNobodyAnswers(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		r.set("one", func(c *coordinator) { c.mute = true })
		before := time.Now()
		var none *quota.Unavailable
		if _, err := c.Reserve(context.Background(), taking(50, 50)); !errors.As(err, &none) || none.Op != "reserve" {
			t.Errorf("%v", err)
		}
		if d := time.Since(before); d < 4*time.Second || d > 5*time.Second {
			t.Errorf("gave up after %v, want 5 s of patience at most", d)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		before = time.Now()
		if _, err := c.Reserve(ctx, taking(50, 50)); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(before) != time.Second {
			t.Errorf("%v after %v", err, time.Since(before))
		}
		if n := r.count("reserve"); n < 10 {
			t.Errorf("%d attempts arrived, each of which has reserved", n)
		}
		r.set("one", func(c *coordinator) { c.mute = false })
		time.Sleep(10 * time.Second)
		r.stands("one", 0, 0)
	})
}

// Options that cannot work are refused with what to do; a password in a URL is not repeated.
func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		o    quota.Options
		want string
	}{
		"no coordinator": {quota.Options{Token: "t"}, "URLs is empty"},
		"no token":       {quota.Options{URLs: []string{"http://one"}}, "Token"},
		"a line end":     {quota.Options{URLs: []string{"http://one"}, Token: "t\n"}, "line end"},
		"a password":     {quota.Options{URLs: []string{"http://a:secret@one"}, Token: "t"}, "URL 1 of 1"},
		"no URL":         {quota.Options{URLs: []string{"http://one", "one:8551"}, Token: "t"}, "URL 2 of 2"},
		"a short lease": {quota.Options{URLs: []string{"http://one"}, Token: "t", Lease: quota.Lease{TTL: time.Millisecond}},
			"1 s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := quota.New(c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

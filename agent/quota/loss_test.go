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

// Deny, Allow and Safe, of three providers, when no coordinator can be asked.
func TestLoss(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		var log brokertest.LogBook
		c := r.client("x", leases(1), func(o *quota.Options) {
			o.OnLossOf = map[string]quota.Loss{"anthropic": quota.Allow(), "gemini/flash": quota.Safe(60)}
			o.Patience, o.Logger = -1, slog.New(slog.NewTextHandler(&log, nil))
		})
		r.kill("one")
		ask := func(provider, model string) (*quota.Pass, error) {
			call := taking(500, 500)
			call.Provider, call.Model = provider, model
			return c.Admit(context.Background(), call)
		}
		var none *quota.Unavailable
		for _, deny := range [][2]string{{"openai", "m"}, {"gemini", "pro"}} {
			if _, err := ask(deny[0], deny[1]); !errors.As(err, &none) || none.RetryAfter == 0 {
				t.Errorf("%v: %v", deny, err)
			}
		}
		for range 3 { // 3 · 150 tokens
			p, err := ask("anthropic", "m")
			if err != nil {
				t.Fatal(err)
			}
			p.Settle(used(50, 100), nil)
		}
		if p, err := ask("anthropic", "m"); err != nil {
			t.Error(err)
		} else {
			p.Release(nil)
		}
		passed := 0
		for range 600 { // of 10 a second for a minute, 60 pass, and the one at the beginning
			if p, err := ask("gemini", "flash"); err == nil {
				passed++
				p.Settle(used(1, 1), nil)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if passed != 60 && passed != 61 {
			t.Errorf("%d calls passed in a minute, want 60", passed)
		}
		r.start("two")
		time.Sleep(10 * time.Second)
		r.stands("two", 450+2*passed, 0) // a debt is charged whatever the limits
		if s := c.Stats(); s.Owed != uint64(4+passed) || s.Denied != uint64(2+600-passed) || s.Untold != 0 {
			t.Errorf("%+v", s)
		}
		r.close(c)
		if log.String() != "" {
			t.Errorf("logged:\n%s", &log)
		}
	})
}

// What cannot be told until Close has no more time is counted, and said once.
func TestWhatCannotBeToldIsCounted(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		var log brokertest.LogBook
		c := r.client("x", leases(1), func(o *quota.Options) {
			o.Logger, o.Queue, o.Patience = slog.New(slog.NewTextHandler(&log, nil)), 1, -1
		})
		var running []*quota.Pass
		for range 8 {
			running = append(running, admit(t, c, 100))
		}
		r.kill("one")
		for _, p := range running {
			p.Settle(nil, nil)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		err := c.Close(ctx)
		if s := c.Stats(); err == nil || s.Lost != 8 || s.Untold != 0 || time.Since(begun) > 3*time.Second {
			t.Errorf("%v, %+v after %v", err, s, time.Since(begun))
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || strings.Contains(log.String(), "Bearer") {
			t.Errorf("%d lines:\n%s", n, &log)
		}
		if _, err := c.Admit(context.Background(), taking(1, 1)); !errors.Is(err, quota.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

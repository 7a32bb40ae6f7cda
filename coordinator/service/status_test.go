package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

func TestHealthWords(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		health := func() view.Health { return r.service.Health(context.Background()) }
		if h := health(); h.Status != view.Degraded ||
			!strings.Contains(h.Checks["agents"].Detail, "waiting for their first heartbeats") {
			t.Errorf("just started: %+v", h)
		}
		r.pass(6 * time.Second) // health_check_interval is 5 s
		if h := health(); h.Status != view.Critical {
			t.Errorf("no agent has reported within the health interval: %+v", h)
		}
		r.heartbeat("a1", 0)
		if h := health(); h.Status != view.Degraded {
			t.Errorf("one of two online: %+v", h)
		}
		r.heartbeat("a2", 0)
		if h := health(); h.Status != view.Healthy {
			t.Errorf("all online: %+v", h)
		}
		for i := range 5 {
			r.task(fmt.Sprint("t-", i), "build", `,"required_capabilities":["cobol"]`)
			want := view.Degraded // one hopeless task in a quiet minute is no catastrophe
			if i == 4 {
				want = view.Critical
			}
			if h := health(); h.Status != want {
				t.Errorf("%d failed, none assigned: %+v", i+1, h)
			}
		}
		r.heartbeat("a1", 0)
		r.pass(61 * time.Second)
		if h := health(); h.Status != view.Healthy {
			t.Errorf("a minute later: %+v", h)
		}
	})
}

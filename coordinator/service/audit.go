package service

import (
	"context"
	"time"

	"taskbus/coordinator/engine"
	"taskbus/coordinator/invariant"
	"taskbus/coordinator/service/internal/background"
)

const auditPeriod = 2 * time.Second

// auditBooks is the goroutine that looks whether the books balance for as long as this
// session leads. Engine and deliveries are looked at between two events.
func (r *session) auditBooks() {
	background.Every(r.bus.Done(), auditPeriod, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), auditPeriod)
		defer cancel()
		var found []invariant.Violation
		err := r.s.loop.query(ctx, func(now time.Time, e *engine.Engine) {
			found = append(e.Audit(now), r.held.Audit(now, e, r.s.state.read().blocked)...)
		})
		if err == nil { // else the loop is busy: the next run tries again
			r.s.observe.Audited(append(found, r.s.observe.Books.Audit()...))
		}
		return true
	})
}

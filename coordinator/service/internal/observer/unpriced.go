package observer

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// unpriced are the models without a price that calls and tasks have named where money is limited,
// since this coordinator began to lead or was started. It may be used by several goroutines.
type unpriced struct {
	mu  sync.Mutex
	all map[coordinator.Service]*view.UnpricedModel // by the group that has named it last
}

// mostUnpriced bounds how many are kept: a caller may name any model. What comes beyond is in the metric
// alone.
const mostUnpriced = 32

func (u *unpriced) note(now time.Time, f *coordinator.ModelUnpriced) {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.all[f.Service]
	switch {
	case m != nil:
	case len(u.all) >= mostUnpriced:
		return
	default:
		if u.all == nil {
			u.all = make(map[coordinator.Service]*view.UnpricedModel)
		}
		m = &view.UnpricedModel{Provider: f.Service.Provider, Model: f.Service.Model}
		u.all[f.Service] = m
	}
	if m.Group, m.Node, m.LastSeen = f.Group, f.Node, now; f.Refused {
		m.Refused++
	} else {
		m.Admitted++
	}
}

// Unpriced returns all of them, those that were named last first.
func (o *Observer) Unpriced() (all []view.UnpricedModel) {
	u := &o.unpriced
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.all { // order does not matter: they are sorted
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b view.UnpricedModel) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// modelUnpriced writes down, and counts, a call or task of a model without a price.
func (o *Observer) modelUnpriced(f coordinator.ModelUnpriced) {
	o.unpriced.note(o.now(), &f)
	outcome, text := "admitted", "a model without a price was used, where money is limited"
	if f.Refused {
		outcome, text = "refused", "a model without a price was refused, because money is limited"
	}
	o.metrics.Unpriced.WithLabelValues(outcome).Inc()
	o.gated(noiseUnpriced, zerolog.WarnLevel).Str("provider", f.Service.Provider).Str("model", f.Service.Model).
		Str("group", f.Group).
		Str("agent_id", string(f.Agent)).Str("node", f.Node).
		Msg(text + "; give it one under prices in quotas.yaml, or set unpriced there")
}

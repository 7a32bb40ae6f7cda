package service

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
	all map[coordinator.Service]*unpricedModel
}

// unpricedModel is one of them, and the group that has named it last.
type unpricedModel struct {
	refused, admitted uint64
	group, node       string
	last              time.Time
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
			u.all = make(map[coordinator.Service]*unpricedModel)
		}
		m = &unpricedModel{}
		u.all[f.Service] = m
	}
	if m.group, m.node, m.last = f.Group, f.Node, now; f.Refused {
		m.refused++
	} else {
		m.admitted++
	}
}

// list returns all of them, those that were named last first.
func (u *unpriced) list() (all []view.UnpricedModel) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, m := range u.all { // order does not matter: they are sorted
		all = append(all, view.UnpricedModel{
			Provider: s.Provider, Model: s.Model, Group: m.group, Node: m.node, Refused: m.refused, Admitted: m.admitted,
			LastSeen: m.last,
		})
	}
	slices.SortFunc(all, func(a, b view.UnpricedModel) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// modelUnpriced writes down, and counts, a call or task of a model without a price.
func (o *observer) modelUnpriced(f coordinator.ModelUnpriced) {
	o.s.unpriced.note(o.s.now(), &f)
	outcome, text := "admitted", "a model without a price was used, where money is limited"
	if f.Refused {
		outcome, text = "refused", "a model without a price was refused, because money is limited"
	}
	o.s.metrics.Unpriced.WithLabelValues(outcome).Inc()
	o.gated(noiseUnpriced, zerolog.WarnLevel).Str("provider", f.Service.Provider).Str("model", f.Service.Model).
		Str("group", f.Group).
		Str("agent_id", string(f.Agent)).Str("node", f.Node).
		Msg(text + "; give it one under prices in quotas.yaml, or set unpriced there")
}

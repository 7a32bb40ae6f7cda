package service

import (
	"context"
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// correctQuota moves what counts as used of a node. Unlike what is set or boosted it is done once, and does not
// stand.
func (s *Service) correctQuota(
	ctx context.Context, now time.Time, q view.QuotaChange,
) (view.QuotaChanged, error) {
	r, err := s.leading()
	if err == nil && r.ledger == nil {
		err = errors.New("corrections are kept in the journal, and agents.yaml has switched that off")
	}
	if err != nil {
		return view.QuotaChanged{}, changing("the quota of "+q.Node, err)
	}
	budgets := budgetsOf(s.config.Load().Policy().Quotas, q.Node)
	if budgets == nil {
		return view.QuotaChanged{}, &httpapi.BadControl{Why: "no node of the quota trees is called " + q.Node}
	}
	var change controlChange
	for _, v := range q.Values {
		one := coordinator.QuotaControl{Kind: coordinator.ControlCorrect, Target: q.Node, Key: v.Key, Value: v.Value, At: now,
			By: q.By, Reason: q.Reason}.Named()
		d, _, err := one.Correction()
		if err != nil {
			return view.QuotaChanged{}, &httpapi.BadControl{Why: err.Error()}
		}
		if budgets[d] == nil {
			return view.QuotaChanged{}, &httpapi.BadControl{Why: q.Node + " has no budget in " + v.Key}
		}
		change.set = append(change.set, one)
	}
	made, err := s.orderChange(r, func(now time.Time, token uint64) {
		s.loop.apply(now, coordinator.QuotaControlsRequested{Set: change.set, Token: token})
	})
	if err != nil {
		return view.QuotaChanged{}, changing("the quota of "+q.Node, err)
	}
	answer, err := s.changed(ctx, change, nil, view.QuotaSelection{Node: q.Node})
	for i := range answer.Controls {
		c := &answer.Controls[i]
		c.Asked, c.Value = c.Value, "0"
		for k := range made {
			if made[k].ID == c.ID {
				c.Value = made[k].Value
			}
		}
	}
	return answer, err
}

// budgetsOf returns the budgets of the node of that ID; nil: there is none.
func budgetsOf(q *coordinator.Quotas, id string) *[coordinator.NumDimensions]*coordinator.QuotaLimit {
	for i := range q.Nodes {
		if q.Nodes[i].ID == id {
			return &q.Nodes[i].Budgets
		}
	}
	return nil
}

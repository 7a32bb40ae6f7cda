package controls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// Each request returns besides its answer which nodes it concerns; none of them: these are not shown.

// Control sets, boosts or corrects settings of a node, or previews that.
func (c *Controls) Control(ctx context.Context, q view.QuotaChange) (view.QuotaChanged, view.QuotaSelection, error) {
	of := view.QuotaSelection{Node: q.Node}
	state := c.State()
	if state.quotas() == nil {
		return view.QuotaChanged{}, of, httpapi.ErrNoQuotas
	}
	now := c.Now()
	if q.Correct {
		answer, err := c.correct(now, q)
		return answer, of, changing("the quota of "+q.Node, err)
	}
	if q.For > 0 {
		q.Until = now.Add(q.For)
	}
	if !q.Until.IsZero() && !q.Until.After(now) {
		return view.QuotaChanged{}, of,
			&httpapi.BadControl{Why: "it would have ended at " + q.Until.UTC().Format(time.RFC3339) + " already"}
	}
	kind := coordinator.ControlSet
	if q.Boost {
		kind = coordinator.ControlBoost
	}
	which := func([]coordinator.QuotaControl) (change, error) { return change{set: values(&q, kind, now)}, nil }
	if q.Preview {
		answer, err := c.preview(which)
		return answer, of, err
	}
	made, err := c.change(ctx, which)
	if err != nil {
		return view.QuotaChanged{}, of, changing("the quota of "+q.Node, err)
	}
	return c.answer(made, nil), of, nil
}

// values are the controls that a request asks for.
func values(q *view.QuotaChange, kind coordinator.QuotaControlKind, now time.Time) (set []coordinator.QuotaControl) {
	for _, v := range q.Values {
		one := coordinator.QuotaControl{Kind: kind, Target: q.Node, Key: v.Key, Value: v.Value, At: now, By: q.By,
			Reason: q.Reason}
		if kind != coordinator.ControlCorrect {
			one.Until = q.Until
		}
		set = append(set, one.Named())
	}
	return set
}

// preview says what a change would make of the budgets, or refuses it as change does.
func (c *Controls) preview(which decide) (view.QuotaChanged, error) {
	if _, err := c.Lead(); err != nil {
		return view.QuotaChanged{}, err
	}
	before, planned, prepared, err := c.plan(which)
	if err != nil {
		return view.QuotaChanged{}, err
	}
	answer := c.answer(planned, nil)
	answer.Moves = views.Moves(c.Now(), before.quotas(), prepared.state.quotas())
	return answer, nil
}

// correct moves what counts as used of a node. Unlike what is set or boosted it is done once, and does not
// stand.
func (c *Controls) correct(now time.Time, q view.QuotaChange) (view.QuotaChanged, error) {
	leader, err := c.Lead()
	if errors.Is(err, ErrNoJournal) {
		err = errors.New("corrections are kept in the journal, and agents.yaml has switched that off")
	}
	if err != nil {
		return view.QuotaChanged{}, err
	}
	state := c.State()
	budgets := budgetsOf(state.quotas(), q.Node)
	if budgets == nil {
		return view.QuotaChanged{}, &httpapi.BadControl{Why: "no node of the quota trees is called " + q.Node}
	}
	planned := change{set: values(&q, coordinator.ControlCorrect, now)}
	for i := range planned.set {
		d, _, err := planned.set[i].Correction()
		if err != nil {
			return view.QuotaChanged{}, &httpapi.BadControl{Why: err.Error()}
		}
		if budgets[d] == nil {
			return view.QuotaChanged{}, &httpapi.BadControl{Why: q.Node + " has no budget in " + planned.set[i].Key}
		}
	}
	made, err := leader.Change(planned.set, nil, nil)
	if err != nil {
		return view.QuotaChanged{}, err
	}
	answer := c.answer(planned, nil)
	for i := range answer.Controls {
		one := &answer.Controls[i]
		one.Asked, one.Value = one.Value, "0"
		for k := range made {
			if made[k].ID == one.ID {
				one.Value = made[k].Value
			}
		}
	}
	return answer, nil
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

// changing says what was being done, unless the error does.
func changing(what string, err error) error {
	if b := (*httpapi.BadControl)(nil); err == nil || errors.As(err, &b) || errors.Is(err, httpapi.ErrNoControl) ||
		errors.Is(err, httpapi.ErrOfFile) {
		return err
	}
	return fmt.Errorf("change %s: %w", what, err)
}

// Register registers a group or agent that quotas.yaml does not list.
func (c *Controls) Register(ctx context.Context, q view.QuotaEntry) (view.QuotaChanged, view.QuotaSelection, error) {
	of := view.QuotaSelection{Group: q.ID}
	if q.Agent {
		of = view.QuotaSelection{Agent: q.ID}
	}
	state := c.State()
	if state.quotas() == nil {
		return view.QuotaChanged{}, of, httpapi.ErrNoQuotas
	}
	one := entry(q.Agent, q.ID)
	one.Value, one.At, one.By, one.Reason = q.Entry, c.Now(), q.By, q.Reason
	made, err := c.change(ctx, func([]coordinator.QuotaControl) (change, error) {
		return change{set: []coordinator.QuotaControl{one}}, nil
	})
	if err != nil {
		return view.QuotaChanged{}, of, changing(one.Kind.String()+" "+q.ID, err)
	}
	return c.answer(made, nil), of, nil
}

// entry is the control that registers a group or agent.
func entry(agent bool, id string) coordinator.QuotaControl {
	kind := coordinator.ControlGroup
	if agent {
		kind = coordinator.ControlAgent
	}
	return coordinator.QuotaControl{Kind: kind, Target: id}.Named()
}

// Unregister ends that.
func (c *Controls) Unregister(ctx context.Context, agent bool, id string) (view.QuotaChanged, error) {
	one := entry(agent, id)
	removed, made, err := c.remove(ctx, one.ID, func() error {
		state := c.State()
		q := state.quotas()
		if q == nil {
			return httpapi.ErrNoQuotas
		}
		kind := coordinator.QuotaGroup
		if agent {
			kind = coordinator.QuotaAgent
		}
		if slices.ContainsFunc(q.Nodes, func(n coordinator.QuotaNode) bool { return n.Kind == kind && n.Name == id }) {
			return httpapi.ErrOfFile
		}
		return httpapi.ErrNoControl
	})
	if err != nil {
		return view.QuotaChanged{}, changing(one.Kind.String()+" "+id, err)
	}
	return c.answer(made, removed), nil
}

// Uncontrol ends a control.
func (c *Controls) Uncontrol(ctx context.Context, id string) (view.QuotaChanged, view.QuotaSelection, error) {
	var of view.QuotaSelection
	removed, made, err := c.remove(ctx, id, func() error { return httpapi.ErrNoControl })
	if err != nil {
		return view.QuotaChanged{}, of, changing("the quotas", err)
	}
	if !isEntry(&removed[0]) {
		of.Node = removed[0].Target
	}
	return c.answer(made, removed), of, nil
}

// remove ends one control, and with it what was said about what it had registered.
// missing says why there is none.
func (c *Controls) remove(ctx context.Context, id string,
	missing func() error) (removed []coordinator.QuotaControl, made change, err error) {
	var standing []coordinator.QuotaControl
	made, err = c.change(ctx, func(now []coordinator.QuotaControl) (change, error) {
		if standing = now; !slices.ContainsFunc(now, func(one coordinator.QuotaControl) bool { return one.ID == id }) {
			return change{}, missing()
		}
		return change{remove: []string{id}}, nil
	})
	if err != nil {
		return nil, made, err
	}
	for _, gone := range made.remove { // the one that was asked for is the first
		for _, one := range standing {
			if one.ID == gone {
				removed = append(removed, one)
			}
		}
	}
	return removed, made, nil
}

// answer is the answer to a change that has been made.
func (c *Controls) answer(made change, removed []coordinator.QuotaControl) view.QuotaChanged {
	now := c.State()
	answer := view.QuotaChanged{Removed: shown(removed, nil)}
	for _, one := range made.set {
		if i := slices.IndexFunc(now.Standing, func(o coordinator.QuotaControl) bool { return o.ID == one.ID }); i >= 0 {
			one = now.Standing[i] // as it was said first
		}
		answer.Controls = append(answer.Controls, show(&one, now.Suspended))
	}
	return answer
}

// List lists what stands.
func (c *Controls) List() view.QuotaControls {
	now := c.State()
	return view.QuotaControls{Configured: now.quotas() != nil, Controls: shown(now.Standing, now.Suspended)}
}

func shown(list []coordinator.QuotaControl, suspended []quotas.Suspended) (all []view.QuotaControl) {
	for i := range list {
		all = append(all, show(&list[i], suspended))
	}
	return all
}

func show(c *coordinator.QuotaControl, suspended []quotas.Suspended) view.QuotaControl {
	v := view.QuotaControl{
		ID: c.ID, Kind: c.Kind.String(), Target: c.Target, Key: c.Key, Value: c.Value,
		Until: c.Until, At: c.At, By: c.By, Reason: c.Reason, Rule: c.Rule,
	}
	for _, s := range suspended {
		if s.ID == c.ID {
			v.Suspended = s.Why
		}
	}
	return v
}

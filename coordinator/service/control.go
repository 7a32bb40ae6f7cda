package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/alerts"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// Operators change quotas. Only a coordinator that leads does so, and only with the journal: a change that
// is not journalled would be gone with the next session.

var errNoControls = errors.New(
	"changes to quotas are kept in the journal, and agents.yaml has switched that off; change quotas.yaml instead")

// controlChange is a change of the standing controls.
type controlChange struct {
	set    []coordinator.QuotaControl
	remove []string
}

// of returns the list after the change.
func (c *controlChange) of(standing []coordinator.QuotaControl) []coordinator.QuotaControl {
	after := slices.DeleteFunc(slices.Clone(standing),
		func(one coordinator.QuotaControl) bool { return slices.Contains(c.remove, one.ID) })
	for _, one := range c.set {
		if i := slices.IndexFunc(after, func(o coordinator.QuotaControl) bool { return o.ID == one.ID }); i >= 0 {
			after[i] = one
		} else {
			after = append(after, one)
		}
	}
	return after
}

// changeControls makes a change: decide says which, given what stands. It returns when the
// journal has it, and the engine goes on under it.
func (s *Service) changeControls(
	ctx context.Context, decide func(standing []coordinator.QuotaControl) (controlChange, error),
) (controlChange, error) {
	r, err := s.leadsWithJournal()
	if err != nil {
		return controlChange{}, err
	}
	select {
	case s.controls.changing <- struct{}{}:
		defer func() { <-s.controls.changing }()
	case <-ctx.Done():
		return controlChange{}, fmt.Errorf("another change is being made: %w; try again", ctx.Err())
	}
	before, change, prepared, err := s.prepareChange(decide)
	if err != nil || sameControls(before.standing, prepared.standing) {
		return change, err
	}
	err = s.order(r, func(now time.Time, token uint64) {
		s.loop.apply(now, coordinator.QuotaControlsRequested{Set: change.set, Remove: change.remove, Token: token})
		s.install(now, prepared)
	})
	if err != nil {
		return controlChange{}, err
	}
	return change, nil
}

// leadsWithJournal returns the session that may change controls, or says why there is none.
func (s *Service) leadsWithJournal() (*session, error) {
	r, err := s.leading()
	if err == nil && r.ledger == nil {
		err = errNoControls
	}
	return r, err
}

// prepareChange works out a change of what stands before, or refuses it. Nothing is changed yet.
func (s *Service) prepareChange(decide func(standing []coordinator.QuotaControl) (controlChange, error)) (
	before controlledConfig, change controlChange, prepared *preparedControls, err error) {
	before = s.controlled()
	if change, err = decide(before.standing); err != nil {
		return before, controlChange{}, nil, err
	}
	prepared, err = s.fits(before, &change, change.of(before.standing))
	return before, change, prepared, err
}

// fits works out what the change makes of the quotas, or refuses it: because of what it says
// itself, or because something else that stands would not fit any more. What was said about
// something that is removed goes with it.
func (s *Service) fits(before controlledConfig, change *controlChange,
	after []coordinator.QuotaControl) (*preparedControls, error) {
	if len(after) > coordinator.MaxQuotaControls && len(after) > len(before.standing) {
		return nil, &httpapi.BadControl{
			Why: fmt.Sprintf("%d changes stand already, which is the most; put some of them into quotas.yaml, and end them",
				coordinator.MaxQuotaControls)}
	}
	for {
		prepared := s.prepare(after)
		again := false
		for _, one := range prepared.suspended {
			its := func(c coordinator.QuotaControl) bool { return c.ID == one.ID }
			switch i := slices.IndexFunc(change.set, its); {
			case i >= 0:
				why := one.Why
				if strings.Contains(why, "less than those below it") {
					if left, known := views.BoostRoom(prepared.config.Policy().Quotas, &change.set[i]); known {
						name, _, _ := strings.Cut(change.set[i].Key, ".")
						why += fmt.Sprintf("; at most +%s is left for %s", alerts.Amount(name, left), change.set[i].Target)
					}
				}
				return nil, &httpapi.BadControl{Why: why}
			case slices.ContainsFunc(before.suspended, func(o config.Suspended) bool { return o.ID == one.ID }):
			default:
				other := &after[slices.IndexFunc(after, its)]
				if len(change.remove) == 0 || other.Kind == coordinator.ControlGroup || other.Kind == coordinator.ControlAgent ||
					!strings.HasPrefix(one.Why, "no node of") {
					why := fmt.Sprintf("%s %s stands, and would not fit any more: %s", other.ID, describeControl(other), one.Why)
					if len(change.remove) > 0 && (other.Kind == coordinator.ControlGroup || other.Kind == coordinator.ControlAgent) {
						why += "; remove the agents and groups that belong to a group before the group itself"
					}
					return nil, &httpapi.BadControl{Why: why}
				}
				change.remove = append(change.remove, other.ID)
				again = true
			}
		}
		if !again {
			return prepared, nil
		}
		after = change.of(before.standing)
	}
}

// describeControl says in a few words what a control does.
func describeControl(c *coordinator.QuotaControl) string {
	switch c.Kind {
	case coordinator.ControlGroup, coordinator.ControlAgent:
		return fmt.Sprintf("(%s %s)", c.Kind, c.Target)
	default:
		return fmt.Sprintf("(%s %s of %s %s)", c.Kind, c.Key, c.Target, c.Value)
	}
}

// ControlQuota sets or boosts settings of a node (see httpapi.Source).
func (s *Service) ControlQuota(ctx context.Context, q view.QuotaChange) (view.QuotaChanged, error) {
	if s.config.Load().Policy().Quotas == nil {
		return view.QuotaChanged{}, httpapi.ErrNoQuotas
	}
	now := s.now()
	if q.Correct {
		return s.correctQuota(ctx, now, q)
	}
	if q.For > 0 {
		q.Until = now.Add(q.For)
	}
	if !q.Until.IsZero() && !q.Until.After(now) {
		return view.QuotaChanged{},
			&httpapi.BadControl{Why: "it would have ended at " + q.Until.UTC().Format(time.RFC3339) + " already"}
	}
	decide := func([]coordinator.QuotaControl) (controlChange, error) {
		var c controlChange
		for _, v := range q.Values {
			one := coordinator.QuotaControl{
				Kind: coordinator.ControlSet, Target: q.Node, Key: v.Key, Value: v.Value, Until: q.Until, At: now, By: q.By,
				Reason: q.Reason,
			}
			if q.Boost {
				one.Kind = coordinator.ControlBoost
			}
			c.set = append(c.set, one.Named())
		}
		return c, nil
	}
	if q.Preview {
		return s.previewControls(ctx, decide, q.Node)
	}
	change, err := s.changeControls(ctx, decide)
	if err != nil {
		return view.QuotaChanged{}, changing("the quota of "+q.Node, err)
	}
	return s.changed(ctx, change, nil, view.QuotaSelection{Node: q.Node})
}

// changing says what was being done, unless the answer speaks for itself.
func changing(what string, err error) error {
	if b := (*httpapi.BadControl)(nil); errors.As(err, &b) || errors.Is(err, httpapi.ErrNoControl) ||
		errors.Is(err, httpapi.ErrOfFile) {
		return err
	}
	return fmt.Errorf("change %s: %w", what, err)
}

// RegisterQuota registers a group or agent that quotas.yaml does not list (see httpapi.Source).
func (s *Service) RegisterQuota(ctx context.Context, q view.QuotaEntry) (view.QuotaChanged, error) {
	if s.config.Load().Policy().Quotas == nil {
		return view.QuotaChanged{}, httpapi.ErrNoQuotas
	}
	one := coordinator.QuotaControl{Kind: entryKind(q.Agent), Target: q.ID, Value: q.Entry, At: s.now(), By: q.By,
		Reason: q.Reason}.Named()
	change, err := s.changeControls(ctx, func([]coordinator.QuotaControl) (controlChange, error) {
		return controlChange{set: []coordinator.QuotaControl{one}}, nil
	})
	if err != nil {
		return view.QuotaChanged{}, changing(one.Kind.String()+" "+q.ID, err)
	}
	return s.changed(ctx, change, nil, selectionOf(q.Agent, q.ID))
}

// UnregisterQuota ends that (see httpapi.Source).
func (s *Service) UnregisterQuota(ctx context.Context, agent bool, id string) (view.QuotaChanged, error) {
	one := coordinator.QuotaControl{Kind: entryKind(agent), Target: id}.Named()
	removed, change, err := s.removeControl(ctx, one.ID, func() error {
		q := s.config.Load().Policy().Quotas
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
	return s.changed(ctx, change, removed, view.QuotaSelection{})
}

// UncontrolQuota ends a control (see httpapi.Source).
func (s *Service) UncontrolQuota(ctx context.Context, id string) (view.QuotaChanged, error) {
	removed, change, err := s.removeControl(ctx, id, func() error { return httpapi.ErrNoControl })
	if err != nil {
		return view.QuotaChanged{}, changing("the quotas", err)
	}
	var of view.QuotaSelection
	if k := removed[0].Kind; k == coordinator.ControlSet || k == coordinator.ControlBoost {
		of.Node = removed[0].Target
	}
	return s.changed(ctx, change, removed, of)
}

// removeControl ends one control, and with it what was said about what it had registered.
// missing says why there is none.
func (s *Service) removeControl(ctx context.Context, id string,
	missing func() error) (removed []coordinator.QuotaControl, change controlChange, err error) {
	var standing []coordinator.QuotaControl
	change, err = s.changeControls(ctx, func(now []coordinator.QuotaControl) (controlChange, error) {
		if standing = now; !slices.ContainsFunc(now, func(c coordinator.QuotaControl) bool { return c.ID == id }) {
			return controlChange{}, missing()
		}
		return controlChange{remove: []string{id}}, nil
	})
	if err != nil {
		return nil, change, err
	}
	for _, gone := range change.remove { // the one that was asked for is the first
		for _, c := range standing {
			if c.ID == gone {
				removed = append(removed, c)
			}
		}
	}
	return removed, change, nil
}

func entryKind(agent bool) coordinator.QuotaControlKind {
	if agent {
		return coordinator.ControlAgent
	}
	return coordinator.ControlGroup
}

func selectionOf(agent bool, id string) view.QuotaSelection {
	if agent {
		return view.QuotaSelection{Agent: id}
	}
	return view.QuotaSelection{Group: id}
}

// changed is the answer to a change that has been made: it stands, whatever becomes of ctx.
func (s *Service) changed(ctx context.Context, change controlChange, removed []coordinator.QuotaControl,
	of view.QuotaSelection) (view.QuotaChanged, error) {
	now := s.controlled()
	answer := view.QuotaChanged{Removed: controlViews(removed, nil)}
	for _, one := range change.set {
		if i := slices.IndexFunc(now.standing, func(c coordinator.QuotaControl) bool { return c.ID == one.ID }); i >= 0 {
			one = now.standing[i] // as it was said first
		}
		answer.Controls = append(answer.Controls, controlView(&one, now.suspended))
	}
	if of == (view.QuotaSelection{}) {
		return answer, nil
	}
	of.Limit = httpapi.MaxQuotaLimit
	q, err := s.Quotas(context.WithoutCancel(ctx), of)
	if err != nil {
		return answer, fmt.Errorf("the change stands; %w", err)
	}
	answer.Nodes = q.Nodes
	return answer, nil
}

// QuotaControls lists what stands (see httpapi.Source).
func (s *Service) QuotaControls(context.Context) (view.QuotaControls, error) {
	c := s.controlled()
	return view.QuotaControls{
		Configured: c.config.Policy().Quotas != nil,
		Controls:   controlViews(c.standing, c.suspended),
	}, nil
}

func controlViews(list []coordinator.QuotaControl, suspended []config.Suspended) []view.QuotaControl {
	var all []view.QuotaControl
	for i := range list {
		all = append(all, controlView(&list[i], suspended))
	}
	return all
}

func controlView(c *coordinator.QuotaControl, suspended []config.Suspended) view.QuotaControl {
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

// previewControls says what a change would make of the budgets, or refuses it as changeControls does.
func (s *Service) previewControls(
	ctx context.Context, decide func(standing []coordinator.QuotaControl) (controlChange, error), node string,
) (view.QuotaChanged, error) {
	if _, err := s.leadsWithJournal(); err != nil {
		return view.QuotaChanged{}, err
	}
	_, change, prepared, err := s.prepareChange(decide)
	if err != nil {
		return view.QuotaChanged{}, err
	}
	changed, err := s.changed(ctx, change, nil, view.QuotaSelection{Node: node})
	changed.Moves = views.Moves(s.now(), s.config.Load().Policy().Quotas, prepared.config.Policy().Quotas)
	return changed, err
}

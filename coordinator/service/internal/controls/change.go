package controls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/alerts"
	"taskbus/coordinator/service/internal/views"
)

// ErrNoJournal says that a coordinator without a journal makes no changes: with the next session they would be gone.
var ErrNoJournal = errors.New(
	"changes to quotas are kept in the journal, and agents.yaml has switched that off; change quotas.yaml instead")

// Leader has the engine make changes.
type Leader interface {
	// Change has a change made, and the engine go on under what was prepared for it; nil: the quotas stay. It returns
	// when the journal has it, with what has come of set. After an error it may be tried again.
	Change(set []coordinator.QuotaControl, remove []string, prepared *Prepared) ([]coordinator.QuotaControl, error)
}

// change is a change of the standing controls.
type change struct {
	set    []coordinator.QuotaControl
	remove []string
}

// decide says which change is to be made, given what stands.
type decide func(standing []coordinator.QuotaControl) (change, error)

// of returns the list after the change.
func (c *change) of(standing []coordinator.QuotaControl) []coordinator.QuotaControl {
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

// change makes a change. It returns when the journal has it, and the engine goes on under it.
func (c *Controls) change(ctx context.Context, which decide) (change, error) {
	leader, err := c.Lead()
	if err != nil {
		return change{}, err
	}
	select {
	case c.changing <- struct{}{}:
		defer func() { <-c.changing }()
	case <-ctx.Done():
		return change{}, fmt.Errorf("another change is being made: %w; try again", ctx.Err())
	}
	before, made, prepared, err := c.plan(which)
	if err != nil || same(before.Standing, prepared.state.Standing) {
		return made, err
	}
	if _, err := leader.Change(made.set, made.remove, prepared); err != nil {
		return change{}, err
	}
	return made, nil
}

// plan works out a change of what stands before, or refuses it. Nothing is changed yet.
func (c *Controls) plan(which decide) (before State, planned change, prepared *Prepared, err error) {
	before = c.State()
	if planned, err = which(before.Standing); err != nil {
		return before, change{}, nil, err
	}
	prepared, err = c.fits(before, &planned, planned.of(before.Standing))
	return before, planned, prepared, err
}

// fits works out what the change makes of the quotas, or refuses it: because of what it says
// itself, or because something else that stands would not fit any more. What was said about
// something that is removed goes with it.
func (c *Controls) fits(before State, planned *change, after []coordinator.QuotaControl) (*Prepared, error) {
	if len(after) > coordinator.MaxQuotaControls && len(after) > len(before.Standing) {
		return nil, &httpapi.BadControl{
			Why: fmt.Sprintf("%d changes stand already, which is the most; put some of them into quotas.yaml, and end them",
				coordinator.MaxQuotaControls)}
	}
	for {
		prepared := c.Prepare(after)
		again := false
		for _, one := range prepared.state.Suspended {
			its := func(c coordinator.QuotaControl) bool { return c.ID == one.ID }
			switch i := slices.IndexFunc(planned.set, its); {
			case i >= 0:
				why := one.Why
				if strings.Contains(why, "less than those below it") {
					if left, known := views.BoostRoom(prepared.state.quotas(), &planned.set[i]); known {
						name, _, _ := strings.Cut(planned.set[i].Key, ".")
						why += fmt.Sprintf("; at most +%s is left for %s", alerts.Amount(name, left), planned.set[i].Target)
					}
				}
				return nil, &httpapi.BadControl{Why: why}
			case slices.ContainsFunc(before.Suspended, func(o quotas.Suspended) bool { return o.ID == one.ID }):
			default:
				other := &after[slices.IndexFunc(after, its)]
				if len(planned.remove) == 0 || isEntry(other) || !strings.HasPrefix(one.Why, "no node of") {
					why := fmt.Sprintf("%s %s stands, and would not fit any more: %s", other.ID, describe(other), one.Why)
					if len(planned.remove) > 0 && isEntry(other) {
						why += "; remove the agents and groups that belong to a group before the group itself"
					}
					return nil, &httpapi.BadControl{Why: why}
				}
				planned.remove = append(planned.remove, other.ID)
				again = true
			}
		}
		if !again {
			return prepared, nil
		}
		after = planned.of(before.Standing)
	}
}

// isEntry reports whether a control registers a group or agent.
func isEntry(c *coordinator.QuotaControl) bool {
	return c.Kind == coordinator.ControlGroup || c.Kind == coordinator.ControlAgent
}

// describe says in a few words what a control does.
func describe(c *coordinator.QuotaControl) string {
	if isEntry(c) {
		return fmt.Sprintf("(%s %s)", c.Kind, c.Target)
	}
	return fmt.Sprintf("(%s %s of %s %s)", c.Kind, c.Key, c.Target, c.Value)
}

package billing

import (
	"fmt"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/nearest"
)

// UnlistedCall returns why the i-th of the calls that are asked about together is refused because of its
// owner: the group that a gateway names, or the agent where it names no group, or the agent that used its
// own token, is not listed, or a gateway names neither: it would be charged to the pool alone. Empty: it is
// not refused. A part of a call needs to name neither where another part does, or where it reports usage;
// what a coordinator has admitted is charged all the same.
func (d *Directory) UnlistedCall(calls []coordinator.Call, i int) string {
	c := &calls[i]
	if !d.listedOnly() || c.Admitted {
		return ""
	}
	const agentsGroup = "list the agent there with its group_id"
	named := func(c coordinator.Call) bool { return c.Group != "" || c.Agent != "" }
	part := c.Meant == coordinator.UsagePart
	switch {
	case c.OwnOnly:
		return d.unlistedAgent(c.Agent, agentsGroup)
	case c.Group != "":
		return d.unlistedGroup(c.Group, "correct group_id")
	case c.Agent != "":
		return d.unlistedAgent(c.Agent, "name the group that is charged (group_id), "+agentsGroup)
	case part && (c.Op == coordinator.CallCharge || slices.ContainsFunc(calls, named)):
		return ""
	case part:
		return "no descriptor of the request names a group or an agent, and no group would pay for it; add one that " +
			"names the group or an agent that quotas.yaml lists, or set unknown_callers: allow there"
	default:
		return "the call names neither a group nor an agent, and no group would pay for it; name the group that is " +
			"charged (group_id) or an agent that quotas.yaml lists, or set unknown_callers: allow there"
	}
}

// UnlistedTask says why a task that names this group is refused: it is none that is listed. Empty: it is not
// refused. A task without a group is charged to its agent's.
func (d *Directory) UnlistedTask(group string) string {
	if group == "" || !d.listedOnly() {
		return ""
	}
	return d.unlistedGroup(group, "correct group")
}

// listedOnly reports whether groups are listed, and no others may be named.
func (d *Directory) listedOnly() bool {
	return d.quotas != nil && !d.quotas.AnyCaller && len(d.listed.groups) > 0
}

func (d *Directory) unlistedGroup(name, correct string) string {
	if _, known := d.groups[name]; known {
		return ""
	}
	return listsNo("group", name, d.listed.groups, correct+", list the group")
}

func (d *Directory) unlistedAgent(id coordinator.AgentID, correct string) string {
	if _, known := d.agents[id]; known {
		return ""
	}
	return listsNo("agent", string(id), d.listed.agents, correct)
}

// listsNo says that, with the name that may have been meant and what else to do.
func listsNo(kind, name string, known []string, correct string) string {
	if near := nearest.DidYouMean(name, known); near != "" {
		correct = near + " Else " + correct
	}
	return fmt.Sprintf("quotas.yaml lists no %s %q; %s, or set unknown_callers: allow there", kind, name, correct)
}

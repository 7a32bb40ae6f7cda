package fairshare

import (
	"fmt"
	"maps"
	"slices"

	"taskbus/coordinator"
)

// Unlisted says why a call is refused because of whose it is: the group that a gateway names, or the
// agent where it names no group, or the agent whose own token asks, is none that is listed, or a gateway
// names neither: it would be charged to the pool alone. Empty: it is not refused. A part of a call needs
// to name neither, since others of its parts may; what a coordinator has admitted is charged all the same.
func (d *Directory) Unlisted(c *coordinator.Call) string {
	if d.quotas == nil || d.quotas.AnyCaller || len(d.callers.groups) == 0 || c.Admitted {
		return ""
	}
	kind, name, known, correct := "group", c.Group, d.callers.groups, "correct group_id, list the group"
	switch {
	case c.OwnOnly:
		kind, name, known, correct = "agent", string(c.Agent), d.callers.agents, "list the agent there with its group_id"
	case name == "" && c.Agent == "" && c.Meant == coordinator.UsagePart:
		return ""
	case name == "" && c.Agent == "":
		return "the call names neither a group nor an agent, and no group would pay for it; name the group that is charged (group_id) or an agent that quotas.yaml lists, or set unknown_callers: allow there"
	case name == "":
		kind, name, known, correct = "agent", string(c.Agent), d.callers.agents, "name the group that is charged (group_id), list the agent"
	}
	if known[name] {
		return ""
	}
	if near := coordinator.DidYouMean(name, slices.Sorted(maps.Keys(known))); near != "" {
		correct = near + " Else " + correct
	}
	return fmt.Sprintf("quotas.yaml lists no %s %q; %s, or set unknown_callers: allow there", kind, name, correct)
}

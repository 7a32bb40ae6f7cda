package fairshare

import (
	"fmt"
	"maps"
	"slices"

	"taskbus/coordinator"
)

// Unlisted says why a gateway that asks about a call is refused: its group, or its agent where it names
// no group, is none that is listed, and would be charged to nobody. Empty: it is not refused. What has
// been used already is charged all the same.
func (d *Directory) Unlisted(c *coordinator.Call) string {
	if d.quotas == nil || d.quotas.AnyCaller || len(d.callers.groups) == 0 || c.OwnOnly || c.Op == coordinator.CallCharge {
		return ""
	}
	kind, name, known, correct := "group", c.Group, d.callers.groups, "correct group_id, list the group"
	if name == "" {
		kind, name, known, correct = "agent", string(c.Agent), d.callers.agents, "name the group that is charged (group_id), list the agent"
	}
	if name == "" || known[name] {
		return ""
	}
	if near := coordinator.DidYouMean(name, slices.Sorted(maps.Keys(known))); near != "" {
		correct = near + " Else " + correct
	}
	return fmt.Sprintf("quotas.yaml lists no %s %q; %s, or set unknown_callers: allow there", kind, name, correct)
}

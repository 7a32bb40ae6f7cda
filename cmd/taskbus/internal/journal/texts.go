package journal

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
)

// What records say to people.

// keyText is a key in 32 hexadecimal digits.
func keyText(key coordinator.TaskKey) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, key[0]), key[1]))
}

func assignedText(r *coordinator.Assigned) string {
	text := fmt.Sprintf("assigned by %s (%d of %d)", r.Strategy, r.Eligible, r.Fleet)
	if r.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	if r.Probe {
		text += ", on trial"
	}
	if r.MaybeDuplicate {
		text += ", maybe twice"
	}
	return text
}

func leaseText(r *coordinator.LeaseChanged) string {
	var parts []string
	if r.Withdrawn {
		parts = append(parts, because("a cancel is asked for", r.Reason))
	}
	if r.Begun {
		parts = append(parts, "its agent had begun")
	}
	if r.Returning {
		parts = append(parts, because("its agent gives it back", r.Said))
	}
	return cmp.Or(strings.Join(parts, ", "), "as before")
}

func because(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

var fateTexts = [coordinator.NumFates]string{
	coordinator.FateForgotten:  "given up before it had an end",
	coordinator.FateFailed:     "failed, not assigned",
	coordinator.FateOpen:       "open",
	coordinator.FateUnsettled:  "perhaps dispatched",
	coordinator.FateDispatched: "dispatched",
	coordinator.FateLetGo:      "done, as far as heartbeats tell",
	coordinator.FateSucceeded:  "succeeded",
	coordinator.FateGaveUp:     "failed at its agent",
	coordinator.FateTimedOut:   "no result in time",
	coordinator.FateWithdrawn:  "cancelled before it came",
	coordinator.FateCancelled:  "cancelled",
	coordinator.FateLaned:      "moved to its lane",
}

func fateText(r *coordinator.Remembered) string {
	if r.End != coordinator.EndUnknown {
		return because("came back: its agent "+r.End.Phrase(), r.Said)
	}
	return because(fateTexts[r.Fate], cmp.Or(r.Reason, r.Why.String()))
}

// agentText is about records of an agent: its id, and what happened.
func agentText(r coordinator.Record) (agent, text string) {
	switch r := r.(type) {
	case *coordinator.Learnt:
		text := [coordinator.NumAttributions]string{"a success", "a failure", "a timeout"}[r.Attribution] + " with " +
			cmp.Or(r.Type, "tasks of no route")
		if r.Duration > 0 {
			text += " in " + r.Duration.Round(time.Millisecond).String()
		}
		return string(r.Agent), text
	case *coordinator.Forgiven:
		return string(r.Agent), "a failure with " + cmp.Or(r.Type, "tasks of no route") + " is forgiven"
	case *coordinator.LearntBefore:
		return string(r.Agent), "learnt before"
	case *coordinator.BreakerChanged:
		return string(r.Agent), breakerText(r)
	case *coordinator.Ordered:
		return string(r.Agent), "order of an operator: " + r.Order.String()
	case *coordinator.Tracked:
		if r.Ended {
			return string(r.Agent), "reports the ends of its tasks no more"
		}
		return string(r.Agent), "reports the ends of its tasks"
	case *coordinator.Consumed:
		if r.Ever {
			return string(r.Agent), "its queue has a consumer"
		}
		return string(r.Agent), "has said goodbye: it may come back without a consumer"
	case *coordinator.Joined:
		ids := make([]string, 0, len(r.Agents))
		for i := range r.Agents {
			ids = append(ids, string(r.Agents[i].ID))
		}
		return "", "have joined by themselves: " + cmp.Or(cli.List(ids, 5), "none")
	case *coordinator.AgentBefore:
		return string(r.Agent), cli.Count(int(r.Assigned), "task") + " before"
	case *coordinator.Calibrated:
		return string(r.Agent), "its bids are judged by " + cli.Count(max(r.Timed, r.Judged), "outcome")
	}
	return "", ""
}

func breakerText(r *coordinator.BreakerChanged) string {
	if r.Agent == "" {
		return "the rules by which agents are ejected have changed: all are trusted"
	}
	with := "with `" + r.Capability + "`"
	if r.Capability == "" {
		with = "with tasks that require nothing"
	}
	switch {
	case r.Gone:
		return "trusted " + with
	case r.State == 1:
		return "ejected, not trusted " + with
	case r.State == 2:
		return "on trial " + with
	default:
		return "trusted " + with + ", " + cli.Count(len(r.Faults), "failure") + " in a row"
	}
}

// reservedText says for which task or call quota is set aside.
func reservedText(r *coordinator.QuotaReserved) string {
	text := "quota is set aside for a task"
	if r.Call {
		text = "quota is set aside for a call"
	}
	if group := cmp.Or(r.Group, r.Payer); group != "" {
		text += " of " + group
	}
	if r.Provider != "" {
		text += " at " + cli.ModelOf(r.Provider, r.Model)
	}
	return text + ": " + cli.UsedText(&r.Amounts)
}

// endedText says how a reservation has ended.
func endedText(r *coordinator.QuotaEnded) string {
	switch r.How {
	case coordinator.QuotaReleased:
		return "quota is given back: nothing was used"
	case coordinator.QuotaExpired:
		return "quota is given back: its end was not reported in time"
	default:
		text := "used: " + cli.UsedText(&r.Used)
		if r.Told != (coordinator.Amounts{}) {
			text += " (what counts of the reported " + cli.UsedText(&r.Told) + ")"
		}
		if r.Late != nil {
			text += ", reported after its time was over"
		}
		return text
	}
}

// heardText says what a provider has said of its limits.
func heardText(r *coordinator.PoolHeard) string {
	text := fmt.Sprintf("provider's pool %s is used at %g%% of its rates", r.Node, float64(r.PerMille)/10)
	if !r.BlockedUntil.IsZero() {
		text += ", and left alone until " + r.BlockedUntil.UTC().Format(time.RFC3339)
	}
	if r.Taken != (coordinator.Amounts{}) {
		text += "; less remains of it than was thought"
	}
	return text
}

// controlledText says how the standing changes to quotas.yaml have changed.
func controlledText(r *coordinator.QuotaControlled) string {
	parts := make([]string, 0, len(r.Set)+len(r.Removed))
	for i := range r.Set {
		c := &r.Set[i]
		what := c.Kind.String() + " " + c.Target
		if c.Key != "" {
			what += " " + c.Key + " " + c.Value
		}
		parts = append(parts, because(what, c.Reason))
	}
	for _, id := range r.Removed {
		parts = append(parts, id+" ends")
	}
	switch day := r.Day.UTC().Format(time.RFC3339); {
	case len(parts) > 0:
		return "quotas changed: " + cli.List(parts, 5)
	case r.Day.IsZero():
		return "quotas are as quotas.yaml has them"
	default:
		return fmt.Sprintf("for the rules of quotas.yaml the day counts from %s, %s", day,
			cli.Count(len(r.Uses), "node"))
	}
}

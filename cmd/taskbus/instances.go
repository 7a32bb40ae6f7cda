package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"taskbus/coordinator/httpapi"
)

// The names under which what several coordinators say of each other stands among the checks of /health.
const (
	checkLeader   = "leader"   // the leader that a standby names does not answer
	checkStandbys = "standbys" // something is wrong with a standby
)

// takenOverIn is how long it takes until another leads for one that hangs, at most.
const takenOverIn = "about 15 s"

// instances asks all coordinators of the list what they are, and what is wrong with those that do not lead: none of
// that is in the answer of the leader. Of one coordinator there is nothing.
func (c *client) instances(ctx context.Context) (found []peer, checks map[string]httpapi.Check) {
	if len(c.bases) < 2 {
		return nil, nil
	}
	found = c.peers(ctx, true)
	checks = make(map[string]httpapi.Check)
	var leader *httpapi.Leader
	var wrong, advice []string
	silent := make(map[string]bool)
	for i := range found {
		p := &found[i]
		switch p.State {
		case "":
			silent[p.URL] = true
			continue
		case "standby":
		default:
			continue
		}
		s, err := c.only(p.URL).status(ctx)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if leader == nil {
			leader = s.Leader
		}
		for name, k := range s.Health.Checks {
			if k.Status == httpapi.Healthy || p.URL == c.base { // what is asked next says its own
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s: %s %s: %s", p.URL, name, k.Status, k.Detail))
			if k.Advice != "" && !slices.Contains(advice, k.Advice) {
				advice = append(advice, k.Advice)
			}
		}
	}
	if lost := c.lostLeader(ctx, found, leader, silent); lost != "" {
		checks[checkLeader] = httpapi.Check{Status: httpapi.Critical, Detail: lost,
			Advice: "if it hangs, another takes over within " + takenOverIn +
				"; if none does, see whether it works and only its HTTP port cannot be reached from here, and its log"}
		if silent[leader.Address] {
			delete(silent, leader.Address)
		} else if len(silent) == 1 {
			clear(silent) // the same one, by another name
		}
	}
	for _, p := range found {
		if silent[p.URL] {
			wrong = append(wrong, p.URL+" does not answer: "+p.Detail)
			advice = append(advice, "start "+p.URL+", or take it out of the list of --url or TASKBUS_HTTP_URL")
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		checks[checkStandbys] = httpapi.Check{Status: httpapi.Degraded, Detail: strings.Join(wrong, "; "),
			Advice: strings.Join(advice, "; ")}
	}
	return found, checks
}

// lostLeader says that the leader that a standby names does not answer; empty: one that answers leads, or no more
// is known than that the leader is none of the list.
func (c *client) lostLeader(ctx context.Context, found []peer, leader *httpapi.Leader, silent map[string]bool) string {
	if leader == nil || len(silent) == 0 || slices.ContainsFunc(found, func(p peer) bool { return p.worthAsking() > 2 }) {
		return ""
	}
	if leader.Address != "" && !silent[leader.Address] {
		ctx, cancel := context.WithTimeout(ctx, seekTimeout)
		defer cancel()
		if p := c.peer(ctx, leader.Address); p.State != "" {
			return ""
		}
	}
	return fmt.Sprintf("the leader %s%s does not answer", leader.Instance, at(leader.Address))
}

// only is a client of that one alone.
func (c *client) only(base string) *client {
	one := *c
	one.base, one.bases, one.sought = base, []string{base}, true
	return &one
}

// withInstances adds what is wrong with others to the health of the one that was asked. What this says too,
// such as that the journal was lost, stands there once.
func withInstances(h httpapi.Health, checks map[string]httpapi.Check) httpapi.Health {
	if len(checks) == 0 {
		return h
	}
	all := make(map[string]httpapi.Check, len(h.Checks)+len(checks))
	for name, k := range h.Checks {
		all[name] = k
	}
	for name, k := range checks {
		for called, own := range h.Checks {
			if own.Detail == "" || !strings.Contains(k.Detail, ": "+own.Detail) {
				continue
			}
			k.Detail = strings.ReplaceAll(k.Detail, ": "+own.Detail, ", see the check `"+called+"`")
			if k.Advice == own.Advice {
				k.Advice = ""
			}
		}
		all[name] = k
		if h.Status == httpapi.Healthy || k.Status == httpapi.Critical {
			h.Status = k.Status
		}
	}
	h.Checks = all
	return h
}

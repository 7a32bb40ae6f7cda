package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator/view"
)

// seekTimeout bounds how long several coordinators are asked which of them leads: one that
// was stopped answers nothing, and the others have answered long before.
const seekTimeout = 2 * time.Second

// Peer is one of several coordinators, and what it says of itself.
type Peer struct {
	URL string `json:"url"`
	// State as in /readyz; empty: it gives no answer, and Detail says why.
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`

	number int
}

// seek finds, of several coordinators, the one to ask: the one that leads; else, the first in the list
// that stands by, else the first that answers. Where none does it stays the first, and the question
// itself says what is wrong. It is done once.
func (c *Client) seek(ctx context.Context) {
	if len(c.Bases) > 1 && !c.sought {
		c.peers(ctx, false)
	}
}

// peers asks all coordinators what they are, in the order of the list; unless all are wanted, it ends with
// the first that leads, and those that have not answered by then are left out.
func (c *Client) peers(ctx context.Context, all bool) []Peer {
	c.sought = true
	ctx, cancel := context.WithTimeout(ctx, seekTimeout)
	defer cancel()
	answers := make(chan Peer, len(c.Bases))
	for i, base := range c.Bases {
		go func() {
			p := c.peer(ctx, base)
			p.number = i
			answers <- p
		}()
	}
	found := make([]Peer, len(c.Bases))
	best := 0
	for range c.Bases {
		p := <-answers
		found[p.number] = p
		worth, most := worthAsking(p.State), worthAsking(found[best].State)
		if worth > most || worth == most && p.number < best {
			best = p.number
		}
		if !all && Leads(p.State) {
			break
		}
	}
	c.Base = c.Bases[best]
	return found
}

// Leads reports whether a coordinator in this state leads.
func Leads(state string) bool { return worthAsking(state) == mostWorth }

// mostWorth is what a leader is worth asking; the others less.
const mostWorth = 4

func worthAsking(state string) int {
	switch state {
	case "active", "blocked", "stalled":
		return mostWorth
	case "draining":
		return 3
	case "standby":
		return 2
	case "":
		return 0
	}
	return 1 // it has no session with the broker
}

// peer asks one coordinator what it is.
func (c *Client) peer(ctx context.Context, base string) Peer {
	p := Peer{URL: base}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		p.Detail = err.Error()
		return p
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		p.Detail = err.Error()
		return p
	}
	defer response.Body.Close()
	var r view.Readiness
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil || json.Unmarshal(body, &r) != nil || r.State == "" {
		p.Detail = "its answer is no coordinator's"
		return p
	}
	p.State, p.Detail = r.State, r.Detail
	return p
}

// The names under which what several coordinators say of each other stands among the checks of /health.
const (
	CheckLeader   = "leader"   // the leader that a standby names does not answer
	CheckStandbys = "standbys" // something is wrong with a standby
)

// takenOverIn is how long it takes until another leads for one that hangs, at most.
const takenOverIn = "about 15 s"

// Instances asks all coordinators of the list what they are, and what is wrong with those that do not lead: none of
// that is in the answer of the leader. Of one coordinator there is nothing.
func (c *Client) Instances(ctx context.Context) (found []Peer, checks map[string]view.Check) {
	if len(c.Bases) < 2 {
		return nil, nil
	}
	found = c.peers(ctx, true)
	checks = make(map[string]view.Check)
	var leader *view.Leader
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
		s, err := c.only(p.URL).Status(ctx)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if leader == nil {
			leader = s.Leader
		}
		for name, k := range s.Health.Checks {
			if k.Status == view.Healthy || p.URL == c.Base { // what is asked next says its own
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s: %s %s: %s", p.URL, name, k.Status, k.Detail))
			if k.Advice != "" && !slices.Contains(advice, k.Advice) {
				advice = append(advice, k.Advice)
			}
		}
	}
	if lost := c.lostLeader(ctx, found, leader, silent); lost != "" {
		checks[CheckLeader] = view.Check{Status: view.Critical, Detail: lost,
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
		checks[CheckStandbys] = view.Check{Status: view.Degraded, Detail: strings.Join(wrong, "; "),
			Advice: strings.Join(advice, "; ")}
	}
	return found, checks
}

// lostLeader says that the leader that a standby names does not answer; empty: one that answers leads, or no more
// is known than that the leader is none of the list.
func (c *Client) lostLeader(ctx context.Context, found []Peer, leader *view.Leader, silent map[string]bool) string {
	if leader == nil || len(silent) == 0 || slices.ContainsFunc(found,
		func(p Peer) bool { return worthAsking(p.State) > 2 }) {
		return ""
	}
	if leader.Address != "" && !silent[leader.Address] {
		ctx, cancel := context.WithTimeout(ctx, seekTimeout)
		defer cancel()
		if p := c.peer(ctx, leader.Address); p.State != "" {
			return ""
		}
	}
	return fmt.Sprintf("the leader %s%s does not answer", leader.Instance, At(leader.Address))
}

// only is a client of that one alone.
func (c *Client) only(base string) *Client {
	one := *c
	one.Base, one.Bases, one.sought = base, []string{base}, true
	return &one
}

// WithInstances adds what is wrong with others to the health of the one that was asked. What this says too,
// such as that the journal was lost, stands there once.
func WithInstances(h view.Health, checks map[string]view.Check) view.Health {
	if len(checks) == 0 {
		return h
	}
	all := make(map[string]view.Check, len(h.Checks)+len(checks))
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
		if h.Status == view.Healthy || k.Status == view.Critical {
			h.Status = k.Status
		}
	}
	h.Checks = all
	return h
}

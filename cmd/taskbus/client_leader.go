package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"taskbus/coordinator/httpapi"
)

// seekTimeout bounds how long several coordinators are asked which of them leads: one that
// was stopped answers nothing, and the others have answered long before.
const seekTimeout = 2 * time.Second

// peer is one of several coordinators, and what it says of itself.
type peer struct {
	URL string `json:"url"`
	// State as in /readyz; empty: it gives no answer, and Detail says why.
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`

	number int
}

// seek finds, of several coordinators, the one to ask: the one that leads; else, the first in the list
// that stands by, else the first that answers. Where none does it stays the first, and the question
// itself says what is wrong. It is done once.
func (c *client) seek(ctx context.Context) {
	if len(c.bases) > 1 && !c.sought {
		c.peers(ctx, false)
	}
}

// peers asks all coordinators what they are, in the order of the list; unless all are wanted, it ends with
// the first that leads, and those that have not answered by then are left out.
func (c *client) peers(ctx context.Context, all bool) []peer {
	c.sought = true
	ctx, cancel := context.WithTimeout(ctx, seekTimeout)
	defer cancel()
	answers := make(chan peer, len(c.bases))
	for i, base := range c.bases {
		go func() {
			p := c.peer(ctx, base)
			p.number = i
			answers <- p
		}()
	}
	found := make([]peer, len(c.bases))
	best := 0
	for range c.bases {
		p := <-answers
		found[p.number] = p
		if worth, most := p.worthAsking(), found[best].worthAsking(); worth > most || worth == most && p.number < best {
			best = p.number
		}
		if !all && p.worthAsking() == leads {
			break
		}
	}
	c.base = c.bases[best]
	return found
}

// leads is what one that leads is worth asking; the others less.
const leads = 4

func (p *peer) worthAsking() int {
	switch p.State {
	case "active", "blocked", "stalled":
		return leads
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
func (c *client) peer(ctx context.Context, base string) peer {
	p := peer{URL: base}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		p.Detail = err.Error()
		return p
	}
	response, err := c.http.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		p.Detail = err.Error()
		return p
	}
	defer response.Body.Close()
	var r httpapi.Readiness
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil || json.Unmarshal(body, &r) != nil || r.State == "" {
		p.Detail = "its answer is no coordinator's"
		return p
	}
	p.State, p.Detail = r.State, r.Detail
	return p
}

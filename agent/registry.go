package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"taskbus/agent/balance"
	"taskbus/messages"
)

// maxStatistics is the most that is read of a registry's answer: some 16,000 agents.
const maxStatistics = 16 << 20

// maxCount is the most items or agents that one number of a registry may be.
const maxCount = 1e9

// registry is BALANCING's registry of agents: the statistics of a coordinator over HTTP,
// for the time in which the bus brings no answers. It tells how the fleet is, and grants
// nothing.
type registry struct {
	statistics string // their URL
	host       string // for the log, which the URL is not
	self       string
	timeout    time.Duration // for all of a reading
	client     *http.Client
}

// newRegistry is nil without a URL. The URL has been checked. dial nil is TCP.
func newRegistry(c balance.Registry, self string, timeout time.Duration, dial dialer) (*registry, error) {
	if c.URL == "" {
		return nil, nil
	}
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("registry.url cannot be read") // and is not shown
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: timeout}).DialContext
	}
	return &registry{
		statistics: base.JoinPath("agents", "stats").String(), host: base.Host, self: self, timeout: timeout,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: proxy, DialContext: dial, MaxResponseHeaderBytes: 64 << 10,
				// It is read once in seconds, when things are bad: a new connection may
				// reach another coordinator, an old one holds on to what has gone.
				DisableKeepAlives: true,
			},
			// Where it leads is the operator's to say.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// dialer connects to an address.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// proxy is that of the environment. Its own error would quote the variable, which may
// hold a password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy in HTTP_PROXY or HTTPS_PROXY is no URL")
	}
	return u, nil
}

// What became of a reading: values of the label outcome.
const (
	registryRead        = "read"
	registryUnreachable = "unreachable" // no connection, or it was lost
	registryTimeout     = "timeout"
	registryRefused     = "refused" // another status than 200
	registryInvalid     = "invalid" // no statistics, or too many
)

// registryOutcomes are all of them.
var registryOutcomes = []string{registryRead, registryUnreachable, registryTimeout, registryRefused, registryInvalid}

// reading is what the registry said, or why it did not. Its error has no URL.
type reading struct {
	begun   time.Time // what was said is at most so old
	others  balance.Others
	outcome string
	err     error // nil: registryRead
}

// statistics are what is used of a coordinator's /agents/stats.
type statistics struct {
	Agents []struct {
		ID       string  `json:"agent_id"`
		State    string  `json:"state"` // none in BALANCING, whose registry has those that are there
		Capacity float64 `json:"capacity_items_per_second"`
		Pending  int     `json:"pending_items"`
	} `json:"agents"`
	All *int `json:"global_queue_depth"` // items, held or not
}

// read asks once. It returns soon after the timeout, or the end of ctx.
func (g *registry) read(ctx context.Context) reading {
	r := reading{begun: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	var body []byte
	if body, r.outcome, r.err = g.get(ctx); r.err == nil {
		r.others, r.err = othersIn(body, g.self)
		r.outcome = registryRead
		if r.err != nil {
			r.outcome = registryInvalid
		}
	}
	return r
}

// get gives the body of the answer, or the outcome and what is wrong.
func (g *registry) get(ctx context.Context) (body []byte, outcome string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.statistics, nil)
	if err != nil {
		return nil, registryUnreachable, errors.New("registry.url cannot be asked")
	}
	request.Header.Set("Accept", "application/json")
	response, err := g.client.Do(request)
	if err != nil {
		return nil, lost(err), bare(err)
	}
	defer func() { _ = response.Body.Close() }() // nothing was written
	switch code := response.StatusCode; {
	case code >= 300 && code < 400:
		return nil, registryRefused, fmt.Errorf("it redirects (%d): give the address to which it does", code)
	case code == http.StatusServiceUnavailable:
		return nil, registryRefused, fmt.Errorf("it answers %d: it does not know the fleet, as while it does not lead", code)
	case code != http.StatusOK:
		return nil, registryRefused, fmt.Errorf("it answers %d %s: is that a coordinator?", code, http.StatusText(code))
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxStatistics+1))
	switch {
	case err != nil:
		return nil, lost(err), bare(err)
	case len(body) > maxStatistics:
		return nil, registryInvalid, fmt.Errorf("its answer has more than %d bytes", maxStatistics)
	}
	return body, "", nil
}

// lost is the outcome of a reading that got no answer, or not all of it.
func lost(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return registryTimeout
	}
	return registryUnreachable
}

// bare is the error without the URL, which may hold a secret in its query, and fit for
// the log: parts of it may be the other side's words.
func bare(err error) error {
	if whole := (*url.Error)(nil); errors.As(err, &whole) {
		err = whole.Err
	}
	return errors.New(messages.Clean(err.Error(), messages.MaxText))
}

// othersIn reads statistics: all agents that are there, but for one.
func othersIn(body []byte, self string) (balance.Others, error) {
	var s statistics
	if err := json.Unmarshal(body, &s); err != nil {
		return balance.Others{}, errors.New("its answer is not a coordinator's /agents/stats: no JSON, or of other types")
	}
	if s.Agents == nil || s.All == nil {
		return balance.Others{}, errors.New(
			"its answer is not a coordinator's /agents/stats: it lacks agents or global_queue_depth")
	}
	held := 0
	var others balance.Others
	for _, a := range s.Agents {
		if a.State != "" && a.State != "online" {
			continue
		}
		pending := min(max(a.Pending, 0), maxCount)
		held += pending
		if a.ID == self { // it knows better itself, and may be thought to be away
			continue
		}
		others.Agents++
		others.Pending += pending
		others.Capacity += max(a.Capacity, 0)
	}
	others.Unclaimed = max(min(*s.All, maxCount)-held, 0)
	return others, nil
}

// lookout reads the registry beside the claims of one session, one reading at a time. Its
// fields are of the goroutine that claims.
type lookout struct {
	registry *registry    // nil: nothing is read
	ended    chan reading // capacity 1: the goroutine that reads never waits
	reads    sync.WaitGroup
	open     bool // a reading has begun that has not been taken
}

func newLookout(g *registry) *lookout { return &lookout{registry: g, ended: make(chan reading, 1)} }

// begin begins a reading, unless one is open.
func (o *lookout) begin(ctx context.Context) {
	if o.registry == nil || o.open {
		return
	}
	o.open = true
	o.reads.Go(func() { o.ended <- o.registry.read(ctx) })
}

// take gives the reading that has ended, if there is one.
func (o *lookout) take() (r reading, ended bool) {
	select {
	case r = <-o.ended:
		o.open = false
		return r, true
	default:
		return reading{}, false
	}
}

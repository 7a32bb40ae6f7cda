package callcache

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/agent/quota"
	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/calls"
)

const (
	// mostCallers bounds those that have leases; what others ask is handed on.
	mostCallers = 1024
	// mostCalls bounds the calls that are remembered: those that run, and those that may be asked about again by their
	// ids.
	mostCalls = 65_536
	// unsettled is when a call that was reserved is charged as it was, if its end is not told: the default of
	// reservation_ttl_seconds.
	unsettled = 15 * time.Minute
	// refusing is for how long questions are handed on once a limit has refused one of the same caller.
	refusing = time.Second
)

// Options are what a Cache is made of. URLs of the coordinators are required.
type Options struct {
	URLs []string
	// HTTP asks the coordinators; nil: a client of its own.
	HTTP *http.Client
	// Lease is what is reserved at once.
	Lease quota.Lease
	// Logger is told what could not be charged; nil: there is none.
	Logger *slog.Logger
}

// Cache is the handler. Its owner closes it when it serves no more.
type Cache struct {
	o       Options
	forward http.Handler

	mu      sync.Mutex
	callers map[caller]*client
	calls   map[name]*call
	oldest  []name // of calls, in order of arrival
}

// caller is the token that was shown, and the agent that was named, which is empty for a gateway that names none.
type caller struct{ token, agent string }

// client has the leases of a caller.
type client struct {
	*quota.Client
	known   bool      // a coordinator knows the caller
	refused time.Time // until then a coordinator is asked at once
}

// name is the id of a call: those of different callers have nothing to do with each other.
type name struct {
	by caller
	id string
}

// call is one that was asked about.
type call struct {
	said    calls.AuthCall
	decided chan struct{} // closed when it is known which answers
	pass    *quota.Pass   // set before that; nil: a coordinator answers
	timer   *time.Timer   // likewise: charges it if it is not settled; nil: it is charged at once
	ended   atomic.Bool
}

// end ends a call that was admitted here; false: it has ended before, or was not. It must have been decided.
func (o *call) end(how func(*quota.Pass)) bool {
	if o.pass == nil || o.ended.Swap(true) {
		return false
	}
	if o.timer != nil {
		o.timer.Stop()
	}
	how(o.pass)
	return true
}

// untold charges it as it was reserved.
func (o *call) untold() {
	<-o.decided
	o.end(func(p *quota.Pass) { p.Settle(nil, nil) })
}

// New makes a cache. Nothing is asked yet.
func New(o Options) (*Cache, error) {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	c := &Cache{o: o, callers: make(map[caller]*client), calls: make(map[name]*call)}
	trial, err := c.newClient(caller{token: "none"})
	if err != nil {
		return nil, err
	}
	if err := trial.Close(context.Background()); err != nil {
		return nil, err
	}
	c.forward, err = newForwarder(o.URLs, o.HTTP.Transport)
	return c, err
}

func (c *Cache) newClient(by caller) (*quota.Client, error) {
	return quota.New(quota.Options{
		URLs: c.o.URLs, Agent: by.agent, Token: by.token, HTTP: c.o.HTTP, Lease: c.o.Lease, Logger: c.o.Logger,
		Patience: -1, MaxCall: 2 * unsettled, // the gateway waits, and asks again
	})
}

// Close gives leases back and tells what was used, until ctx ends. What runs is charged as it was reserved.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	calls, callers := c.calls, c.callers
	c.calls, c.callers = nil, nil
	c.mu.Unlock()
	for _, one := range calls {
		one.untold()
	}
	var all sync.WaitGroup
	errs := make([]error, 0, len(callers))
	var mu sync.Mutex
	for _, one := range callers {
		all.Go(func() {
			err := one.Close(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *Cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answered := false
	// What comes from a page in a browser, or is asked in another form, is for a coordinator to judge.
	page := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	if r.Method == http.MethodGet && r.URL.RawQuery == "" && r.ContentLength == 0 && !page {
		switch r.URL.Path {
		case "/v1/quota/auth":
			answered = c.admit(w, r)
		case "/v1/quota/auth/settle":
			answered = c.settle(w, r)
		}
	}
	if !answered {
		c.forward.ServeHTTP(w, r)
	}
}

// admit answers whether a call may pass; false: a coordinator is to answer.
func (c *Cache) admit(w http.ResponseWriter, r *http.Request) bool {
	said, ok := calls.ReadAuth(r.Header)
	token, shown := credential.Bearer(r.Header["Authorization"])
	switch {
	case !ok || !shown || said.TTL != 0:
		return false
	case said.Reserve && said.ID == "":
		return false // a coordinator makes the id by which it is settled
	case !said.Reserve && !(said.HasInput && said.HasOutput):
		return false // a coordinator estimates what it takes
	}
	by := caller{token, said.Agent}
	one, first := c.begin(name{by, said.ID}, said)
	if one == nil {
		return false
	}
	if first {
		var none bool
		if one.pass, none = c.ask(r.Context(), by, &said); none {
			c.forget(name{by, said.ID}, one)
		}
		if one.pass != nil && said.Reserve {
			one.timer = time.AfterFunc(unsettled, one.untold)
		}
		close(one.decided)
		if one.pass != nil && !said.Reserve {
			one.untold() // what was said of it is what is charged
		}
	}
	select {
	case <-one.decided:
	case <-r.Context().Done():
		return false
	}
	switch {
	case one.pass == nil:
		return false
	case one.said != said:
		calls.AnswerAuth(w, said.ID, coordinator.CallAnswer{State: coordinator.CallTaken})
	case said.Reserve && one.ended.Load(): // nothing stands for it any more
		calls.AnswerAuth(w, said.ID, coordinator.CallAnswer{State: coordinator.CallEnded})
	default:
		calls.AnswerAuth(w, said.ID, coordinator.CallAnswer{State: coordinator.CallGranted, Provider: one.pass.Provider()})
	}
	return true
}

// settle takes what a call has used; false: a coordinator has granted it, or none.
func (c *Cache) settle(w http.ResponseWriter, r *http.Request) bool {
	said, ok := calls.ReadAuthSettled(r.Header)
	token, shown := credential.Bearer(r.Header["Authorization"])
	if !ok || !shown {
		return false
	}
	c.mu.Lock()
	one := c.calls[name{caller{token, said.Agent}, said.ID}]
	c.mu.Unlock()
	if one == nil {
		return false
	}
	select {
	case <-one.decided:
	case <-r.Context().Done():
		return false
	}
	if one.pass == nil {
		return false
	}
	used := one.pass.Expected() // what is not told is charged as reserved
	if said.HasInput {
		used.InputTokens = said.Input
	}
	if said.HasOutput {
		used.OutputTokens = said.Output
	}
	state := coordinator.CallEnded
	if one.end(func(p *quota.Pass) {
		if said.Unused {
			p.Release(nil)
		} else {
			p.Settle(&used, nil)
		}
	}) {
		state = coordinator.CallGranted
	}
	calls.AnswerAuth(w, said.ID, coordinator.CallAnswer{State: state, Provider: one.pass.Provider()})
	return true
}

// begin is the call of that name; first: it was not asked about before, and the caller decides it. nil: the cache is
// closed.
func (c *Cache) begin(of name, said calls.AuthCall) (one *call, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.calls[of]; one != nil || c.calls == nil {
		return one, false
	}
	one = &call{said: said, decided: make(chan struct{})}
	if of.id == "" {
		return one, true // it cannot be asked about again
	}
	if len(c.oldest) == mostCalls {
		if old := c.calls[c.oldest[0]]; old.said.Reserve {
			go old.untold()
		}
		delete(c.calls, c.oldest[0])
		c.oldest = c.oldest[1:]
	}
	c.calls[of] = one
	c.oldest = append(c.oldest, of)
	return one, true
}

// forget removes a call with an invalid token: it is not granted, and must not take the place of another.
func (c *Cache) forget(of name, one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[of] != one {
		return
	}
	delete(c.calls, of)
	for i := len(c.oldest) - 1; i >= 0; i-- { // it has come of late
		if c.oldest[i] == of {
			c.oldest = slices.Delete(c.oldest, i, i+1)
			return
		}
	}
}

// ask admits a call out of a lease; nil: a coordinator is to be asked about it. none: the caller's token is none.
func (c *Cache) ask(ctx context.Context, by caller, said *calls.AuthCall) (pass *quota.Pass, none bool) {
	leases, err := c.leasesOf(by)
	if leases == nil {
		return nil, err != nil
	}
	asked := quota.Call{Group: said.Group, Provider: said.Provider, Model: said.Model, Operation: said.Operation}
	if said.HasInput {
		asked.InputTokens = &said.Input
	}
	if said.HasOutput {
		asked.OutputTokens = &said.Output
	}
	pass, err = leases.Admit(ctx, asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	var refused *quota.Refused
	var wrong *quota.Problem
	switch {
	case err == nil:
		leases.known = true
	case errors.As(err, &refused):
		leases.known, leases.refused = true, time.Now().Add(refusing)
	case errors.As(err, &wrong):
		// Its token may be none: callers with such a one take no other's place.
		if c.callers[by] == leases {
			c.drop(by)
		}
		none = wrong.Status == http.StatusUnauthorized
	}
	return pass, none
}

// leasesOf are those of a caller; nil: it has none, or there is nothing to be had at the moment. err: its token, or
// its id, cannot be one.
func (c *Cache) leasesOf(by caller) (one *client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one = c.callers[by]; one == nil && c.callers != nil && c.hasPlace() {
		made, err := c.newClient(by)
		if err != nil {
			return nil, err
		}
		one = &client{Client: made}
		c.callers[by] = one
	}
	if one == nil || time.Now().Before(one.refused) {
		return nil, nil
	}
	return one, nil
}

// hasPlace tells whether there is a place for another caller: also that of one which no coordinator has answered yet.
func (c *Cache) hasPlace() bool {
	if len(c.callers) < mostCallers {
		return true
	}
	for by, one := range c.callers {
		if !one.known {
			c.drop(by)
			return true
		}
	}
	return false
}

// drop gives the leases of a caller back. What they have admitted is told as it ends.
func (c *Cache) drop(by caller) {
	one := c.callers[by]
	delete(c.callers, by)
	go func() { _ = one.Close(context.Background()) }()
}

package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Client asks the coordinators for quota, and tells them what was used. It is safe for concurrent
// use. Its owner closes it, so that what was used is told.
//
// Reserve, Extend, Settle, Release, Consume, Check and Charge are the operations of
// docs/reference/calls.md, one question each. Admit is what most programs want: it takes calls out of
// leases, and tells of them in the background; [Transport] uses it for HTTP.
type Client struct {
	o        Options
	asker    *asker
	teller   *teller
	pools    *pools
	granters granters
	prefix   string
	numbers  atomic.Uint64

	// What runs in the background: until ctx ends, which Close makes it do.
	ctx     context.Context
	stop    context.CancelFunc
	mu      sync.Mutex
	closed  bool
	ended   chan struct{} // closed when Close has told all it could
	running sync.WaitGroup
}

// New makes a client. Nothing is asked yet: a coordinator that is away is no error here.
func New(o Options) (*Client, error) {
	o, urls, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, asker: newAsker(&o, urls), prefix: "c-" + strings.ToLower(rand.Text()[:13]) + "-"}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.ended = make(chan struct{})
	c.teller = newTeller(c.asker, &c.o, c.newID)
	c.pools = newPools(c)
	return c, nil
}

// newID is an id that no reservation has had.
func (c *Client) newID() string { return c.prefix + strconv.FormatUint(c.numbers.Add(1), 10) }

// Reserve sets quota aside. Errors: *Refused, *Unavailable (after Patience), *Problem, ErrTaken if the
// ID of the call is that of another one, and ErrEnded if it is that of one that has ended.
func (c *Client) Reserve(ctx context.Context, call Call) (*Answer, error) {
	made := call.ID == ""
	if made {
		call.ID = c.newID()
	}
	answer, err := c.do(ctx, opReserve, &call)
	if made && mayBeDone(err) {
		// No other coordinator knows that it may stand.
		c.teller.disown(call.ID, max(call.TTL, c.o.TTL))
	}
	if err == nil {
		c.granters.note(call.ID, answer, time.Now())
	}
	return answer, err
}

// mayBeDone reports whether, for all that is known, it has been done.
func mayBeDone(err error) bool {
	var none *Unavailable
	return errors.As(err, &none) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Consume is Reserve and Settle in one. It is not made again when the same ID is asked for within an hour
// (tombstone_ttl_seconds).
func (c *Client) Consume(ctx context.Context, call Call) (*Answer, error) {
	if call.ID == "" {
		call.ID = c.newID() // so that attempts count once
	}
	return c.do(ctx, opConsume, &call)
}

// Charge tells of a call that was made without asking: it is charged whatever the limits.
func (c *Client) Charge(ctx context.Context, call Call) (*Answer, error) {
	if call.ID == "" {
		call.ID = c.newID()
	}
	return c.do(ctx, opCharge, &call)
}

// Check reports whether there would be quota now. Nothing changes.
func (c *Client) Check(ctx context.Context, call Call) (*Answer, error) {
	return c.do(ctx, opCheck, &call)
}

func (c *Client) do(ctx context.Context, op string, call *Call) (*Answer, error) {
	body, err := c.asker.askingOf(op, call)
	if err != nil {
		return nil, err
	}
	return c.asker.ask(ctx, op, body, c.o.Patience)
}

// Extend sets more aside, or for longer. Of amounts an attempt whose answer was lost may count as
// well: what is settled in the end corrects it. Errors besides Reserve's: ErrUnknown, ErrEnded.
func (c *Client) Extend(ctx context.Context, id string, more More) (*Answer, error) {
	body, err := c.asker.extendingOf(id, more)
	if err != nil {
		return nil, err
	}
	return c.asker.ask(ctx, opExtend, body, c.o.Patience)
}

// Settle charges what was used; nil: as much as was set aside. heard may be nil. What this client has
// reserved unconfirmed is told to the coordinator that has granted it, for a bit longer than two
// minutes: of that one ErrUnknown and *Unavailable are returned after Patience, and may be different
// later. Errors: ErrUnknown, ErrEnded, *Unavailable, *Problem.
func (c *Client) Settle(ctx context.Context, id string, used *Usage, heard *Response) (*Answer, error) {
	body, err := c.asker.tellingOf(opSettle, id, used, heard)
	if err != nil {
		return nil, err
	}
	return c.tellOf(ctx, opSettle, id, body)
}

// Release ends a reservation of which nothing was used. heard may be nil. Errors as of Settle.
func (c *Client) Release(ctx context.Context, id string, heard *Response) (*Answer, error) {
	body, err := c.asker.tellingOf(opRelease, id, nil, heard)
	if err != nil {
		return nil, err
	}
	return c.tellOf(ctx, opRelease, id, body)
}

// Admit admits a call, out of a lease if it can. Exactly one of the methods of the Pass must be
// called when the call has ended. Errors: *Refused, *Unavailable (no coordinator can be asked, and OnLoss
// denies it), *Problem, ErrClosed, and that of ctx. The call's ID, TTL, Requests, CostUSD and
// Concurrency are not used.
func (c *Client) Admit(ctx context.Context, call Call) (*Pass, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	return c.pools.of(&call).admit(ctx, &call)
}

// Stats are what a client has done so far.
type Stats struct {
	// Admitted calls, Refused by a limit, Denied because no coordinator could be asked, and Owed: let pass
	// all the same.
	Admitted, Refused, Denied, Owed uint64
	// Leases that were reserved.
	Leases uint64
	// Lost are ends of calls that could not be told, or were not believed, and Untold those that wait to be
	// told.
	Lost   uint64
	Untold int
}

// Stats tells what the client has done so far.
func (c *Client) Stats() Stats {
	s := Stats{
		Admitted: c.pools.admitted.Load(), Refused: c.pools.refused.Load(), Denied: c.pools.denied.Load(),
		Owed:   c.pools.owed.Load(),
		Leases: c.pools.leases.Load(),
	}
	s.Lost, s.Untold = c.teller.stats()
	return s
}

// begin admits something to the background; false: the client is closed. end must follow.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

func (c *Client) end() { c.running.Done() }

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close gives leases back and reports what was used, until ctx ends; an error says how much could not be
// reported. Calls that still run are reported at their end, by the goroutine that ends them. A second Close
// waits for the first to be done, which returns the error, or for the end of ctx: a program that ends when
// it has closed everything must not end in the middle of that.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		select {
		case <-c.ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("quota client: it is being closed already: %w", ctx.Err())
		}
	}
	defer close(c.ended)
	c.stop()
	c.running.Wait()
	c.pools.close()
	if n := c.teller.close(ctx); n > 0 {
		return fmt.Errorf(
			"quota client: the ends of %d calls or leases could not be reported in time; their quota is back when their "+
				"reservations expire, but what was unconfirmed is charged as it was asked for, and calls without a reservation "+
				"are not charged", n)
	}
	return nil
}

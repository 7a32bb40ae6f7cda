package quota

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options are what a Client is made of. URLs are required, and a credential: Token, or TLS.
type Options struct {
	// URLs of the coordinators, such as http://127.0.0.1:8551, tried in turn: one that does not lead
	// says so. The one that answered last is asked first.
	URLs []string
	// Agent that calls. With a gateway's token or certificate it may be empty: no agent in particular.
	Agent string
	// Token of the agent (`taskbus agents token ID`), or of a gateway.
	Token string
	// TLS holds the client's certificate, with the agent as its common name, and the trusted authorities. Not
	// together with HTTP.
	TLS *tls.Config
	// HTTP asks the coordinators; nil: a client of its own. Its Transport must not be a [Transport].
	HTTP *http.Client
	// Timeout of one attempt at one coordinator (2 s).
	Timeout time.Duration
	// Patience is for how long, beyond the first attempts, it goes on asking when no coordinator
	// answers (5 s). Below 0: not at all. A context that ends is the end of it.
	Patience time.Duration
	// TTL of the reservation of a call that has one of its own, and of a lease whose last calls run
	// (60 s). It is extended while the call runs.
	TTL time.Duration
	// MaxCall is for how long a call is taken to run if its end is not reported (1 h): then its
	// reservation is left to expire.
	MaxCall time.Duration
	// SettleFor is for how long it tries to tell what was used (1 h, as tombstone_ttl_seconds of
	// quotas.yaml: after that the coordinator does not know the call any more).
	SettleFor time.Duration
	// Queue is how many ends of calls may wait to be reported (4096), and as many of what is unconfirmed
	// besides. When it is full, the goroutine that ends a call reports it, and waits.
	Queue int
	// Lease is what is reserved at once, see there.
	Lease Lease
	// OnLoss is what becomes of calls when no coordinator answers and their lease is used up;
	// OnLossOf the same for a provider ("openai") or a model ("openai/gpt-4o") of its own.
	OnLoss   Loss
	OnLossOf map[string]Loss
	// Logger gets what was lost, a few lines at most for each loss; nil: it is not logged. It never gets a
	// token, a prompt or an answer.
	Logger *slog.Logger
}

// Lease is how much is reserved at once: so many calls as the one that asks, for a short time,
// admitted without a question each. What leases hold bounds by how much limits may be overshot
// when a coordinator is lost for longer than their TTL; see the package.
type Lease struct {
	// Calls of one lease (8); 1: every call has a reservation of its own.
	Calls int
	// TTL, 1 s to 24 h (10 s). A take-over that is shorter than half of it is not felt.
	TTL time.Duration
}

type lossMode uint8

const (
	lossDeny lossMode = iota
	lossAllow
	lossSafe
)

// Loss is what becomes of a call when no coordinator can be asked. The zero value denies it.
type Loss struct {
	mode      lossMode
	perMinute int64
}

// Deny refuses the call, with *Unavailable: for what costs money.
func Deny() Loss { return Loss{} }

// Allow lets it pass. What it uses is charged when a coordinator is back, whatever the limits: a debt.
func Allow() Loss { return Loss{mode: lossAllow} }

// Safe lets so many calls pass in a minute, evenly, for each group, provider, model and operation of
// this client, and charges them like Allow. Give each client its part of what is safe for all.
func Safe(perMinute int) Loss { return Loss{lossSafe, int64(max(perMinute, 0))} }

// withDefaults fills in what was left out, and says what is wrong.
func (o Options) withDefaults() (Options, []string, error) {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.Timeout, 2*time.Second)
	set(&o.Patience, 5*time.Second)
	set(&o.TTL, time.Minute)
	set(&o.MaxCall, time.Hour)
	set(&o.SettleFor, time.Hour)
	set(&o.Lease.TTL, 10*time.Second)
	if o.Queue == 0 {
		o.Queue = 4096
	}
	if o.Lease.Calls == 0 {
		o.Lease.Calls = 8
	}
	const day = 24 * time.Hour
	switch {
	case len(o.URLs) == 0:
		return o, nil, errors.New("quota client: Options.URLs is empty; name the coordinators, such as http://127.0.0.1:8551")
	case o.Token == "" && o.TLS == nil && o.HTTP == nil:
		return o, nil,
			errors.New("quota client: no credential; set Options.Token (`taskbus agents token ID`), or TLS with a certificate")
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return o, nil, errors.New("quota client: Options.Token has a character that no token has (a line end of its file?)")
	case o.TLS != nil && o.HTTP != nil:
		return o, nil,
			errors.New(
				"quota client: Options.TLS and Options.HTTP are both set; put the certificate into the client's Transport")
	case o.Lease.Calls < 1 || o.Lease.Calls > 10_000 || o.Queue < 1:
		return o, nil, errors.New("quota client: Options.Lease.Calls must be 1 to 10000, and Queue at least 1")
	case o.Lease.TTL < time.Second || o.Lease.TTL > day || o.TTL < time.Second || o.TTL > day:
		return o, nil, errors.New("quota client: Options.TTL and Lease.TTL must be 1 s to 24 h")
	case o.Timeout < 0 || o.MaxCall < 0 || o.SettleFor < 0:
		return o, nil, errors.New("quota client: Options.Timeout, MaxCall and SettleFor must not be negative")
	}
	var urls []string
	for _, text := range o.URLs {
		u, err := url.Parse(strings.TrimSuffix(strings.TrimSpace(text), "/"))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
			u.Fragment != "" {
			// The text itself may hold a password.
			return o, nil,
				fmt.Errorf("quota client: URL %d of %d must be such as http://127.0.0.1:8551, without a user, query or fragment",
					len(urls)+1, len(o.URLs))
		}
		urls = append(urls, u.String())
	}
	return o, urls, nil
}

// lossOf is what becomes of a call when no coordinator can be asked.
func (o *Options) lossOf(provider, model string) Loss {
	if l, ok := o.OnLossOf[provider+"/"+model]; ok {
		return l
	}
	if l, ok := o.OnLossOf[provider]; ok {
		return l
	}
	return o.OnLoss
}

package quota

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxAnswer bounds what is read of a coordinator's answer.
const maxAnswer = 64 << 10

// The pauses between rounds of attempts, with full jitter, and for how long no coordinator is asked for
// calls once none has answered.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	lostPause  = time.Second
)

// asker asks the coordinators, the one that answered last first.
type asker struct {
	urls    []string
	http    *http.Client
	agent   string
	token   string
	timeout time.Duration
	leader  atomic.Int32 // index of the one that answered last

	mu   sync.Mutex
	lost time.Time // until when it makes no sense to ask; zero: a coordinator answers
}

func newAsker(o *Options, urls []string) *asker {
	a := &asker{urls: urls, http: o.HTTP, agent: o.Agent, token: o.Token, timeout: o.Timeout}
	if a.http == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		// A transport writes into its configuration, and the caller may have others with the same.
		t.TLSClientConfig, t.MaxIdleConnsPerHost = o.TLS.Clone(), 64
		// A coordinator does not send elsewhere; the token goes to no other address.
		a.http = &http.Client{Transport: t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return a
}

// ask asks all coordinators in turn, and again for as long as patience says, until one answers.
// Its errors are *Refused, ErrUnknown, ErrEnded (ErrTaken), *Problem, *Unavailable, and that of ctx.
func (a *asker) ask(ctx context.Context, op string, body []byte, patience time.Duration) (*Answer, error) {
	until := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		first := int(a.leader.Load())
		var last error
		for i := range a.urls {
			at := (first + i) % len(a.urls)
			answer, err := a.attempt(ctx, a.urls[at], op, body)
			if cause := ctx.Err(); cause != nil && answer == nil {
				return nil, fmt.Errorf("quota %s: %w", op, cause)
			}
			var none *Unavailable
			if !errors.As(err, &none) {
				a.leader.Store(int32(at))
				a.answers(true)
				if answer != nil {
					answer.from = a.urls[at]
				}
				return answer, err
			}
			last = none
		}
		wait := jitter(pause)
		if !time.Now().Add(wait).Before(until) {
			if op == opReserve { // a coordinator that cannot take an end now may grant calls all the same (on_loss)
				a.answers(false)
			}
			return nil, last
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("quota %s: %w", op, err)
		}
	}
}

// answers notes whether a coordinator answers.
func (a *asker) answers(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost = time.Now().Add(lostPause); yes {
		a.lost = time.Time{}
	}
}

// silent reports whether no coordinator has answered last time; wait is for how long it makes no sense to
// ask again.
func (a *asker) silent() (yes bool, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost.IsZero() {
		return false, 0
	}
	return true, max(0, time.Until(a.lost))
}

// jitter is a time up to d: the clients of one coordinator do not come back at one instant.
func jitter(d time.Duration) time.Duration { return time.Duration(1 + rand.Int64N(int64(d))) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt asks one coordinator once. *Unavailable: another may know, or the same one later.
func (a *asker) attempt(ctx context.Context, url, op string, body []byte) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/quota/"+op, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("quota %s: %w", op, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if a.agent != "" {
		req.Header.Set("X-Quota-Agent", a.agent)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, &Unavailable{Op: op, RetryAfter: lostPause, Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // what was read is read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &Unavailable{Op: op, RetryAfter: lostPause, Err: fmt.Errorf("%s: reading the answer: %w", url, err)}
	}
	if resp.StatusCode == http.StatusOK {
		var answer granted
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, &Unavailable{Op: op, RetryAfter: lostPause, Err: fmt.Errorf("%s: its answer is not a coordinator's: %w",
				url, err)}
		}
		if !answer.Granted { // nothing would be set aside, which is the answer where no quota concerns a call
			return nil, &Unavailable{Op: op, RetryAfter: lostPause,
				Err: fmt.Errorf("%s: it answers 200, and not that anything is granted: is it a coordinator?", url)}
		}
		return &answer.Answer, nil
	}
	return nil, problemOf(url, op, resp, text)
}

// granted is the body of an answer that grants something, which says so.
type granted struct {
	Granted bool `json:"granted"`
	Answer
}

// told is the body of an answer that grants nothing.
type told struct {
	Title     string    `json:"title"`
	Detail    string    `json:"detail"`
	Policies  []string  `json:"violated-policies"`
	Node      string    `json:"node"`
	Dimension string    `json:"dimension"`
	Limit     string    `json:"limit"`
	RetryAt   time.Time `json:"retry_at"`
}

// problemOf makes an error of an answer.
func problemOf(url, op string, resp *http.Response, text []byte) error {
	var t told
	err := json.Unmarshal(text, &t)
	after := retryAfter(resp.Header)
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusUnprocessableEntity && t.Node != "":
		r := &Refused{
			RetryAfter: after, RetryAt: t.RetryAt, Policies: t.Policies, Node: t.Node, Dimension: t.Dimension, Limit: t.Limit,
			Permanent: status == http.StatusUnprocessableEntity, Detail: t.Detail, body: text,
		}
		if err != nil || r.Detail == "" {
			r.Detail, r.body = "the coordinator has refused it without a reason", nil
		}
		return r
	case status == http.StatusUnprocessableEntity && t.Title == "Beyond belief":
		return fmt.Errorf("%w: %s", ErrNotBelieved, t.Detail)
	case status == http.StatusConflict && t.Title == "Id is taken":
		return ErrTaken
	case status == http.StatusConflict:
		return ErrEnded
	case status == http.StatusNotFound && strings.HasPrefix(t.Title, "Unknown reservation"):
		return ErrUnknown
	case status >= 500:
		if t.Detail == "" {
			t.Detail = "it answers " + strconv.Itoa(status)
		}
		return &Unavailable{Op: op, RetryAfter: max(after, lostPause), Err: fmt.Errorf("%s: %s", url, t.Detail)}
	}
	if t.Title == "" {
		t.Title, t.Detail = "Unexpected answer", "is "+url+" a coordinator?"
	}
	return &Problem{Op: op, Status: resp.StatusCode, Title: t.Title, Detail: t.Detail}
}

// retryAfter is how long to wait as the headers of an answer say, to the millisecond if they do; 0: they say
// nothing.
func retryAfter(h http.Header) time.Duration {
	for _, x := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseInt(h.Get(x.name), 10, 64); err == nil && n >= 0 && n < int64(1<<62/x.unit) {
			return time.Duration(n) * x.unit
		}
	}
	return 0
}

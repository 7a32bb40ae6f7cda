package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"taskbus/coordinator/heard"
)

// mostAnswer is how much of an answer, and of its headers, is read before its connection is closed,
// in bytes.
const mostAnswer = 64 << 10

// answer is what has come of a try: a status and for how long the receiver wants to be left alone, or
// why there is none.
type answer struct {
	of     *delivery
	status int
	asked  time.Duration
	err    error
}

// try sends an event once, in a goroutine of its own, which gives what has come of it.
func (s *Sender) try(ctx context.Context, d *delivery, answers chan<- answer) {
	if d.tries++; d.tries > 1 {
		s.metrics.retries.Inc()
	}
	s.inHand[d.Subject] = true
	go func() {
		a := answer{of: d}
		a.status, a.asked, a.err = s.post(ctx, d)
		answers <- a
	}()
}

// answered sees to what follows from a try.
func (s *Sender) answered(a answer) {
	d, status, asked, err := a.of, a.status, a.asked, a.err
	switch {
	case errors.Is(err, errNotMade):
		s.lost(d, resultRefused, err.Error())
	case err != nil:
		s.again(d, 0, why(err))
	case status >= 200 && status < 300:
		s.metrics.results.WithLabelValues(resultDelivered).Inc()
		s.dropping.Store(false)
		if s.failing {
			s.failing = false
			s.o.Logger.Info().Str("host", s.host).Msg("the webhook takes events again")
		}
	case status == http.StatusTooManyRequests, status >= 500:
		s.again(d, asked, fmt.Sprintf("it answers %d", status))
	case status >= 300 && status < 400:
		s.lost(d, resultRefused, fmt.Sprintf("it answers %d, and redirects are not followed: correct TASKBUS_WEBHOOK_URL",
			status))
	default:
		s.lost(d, resultRefused, fmt.Sprintf("it answers %d", status))
	}
}

// errNotMade says that there is no request to send.
var errNotMade = errors.New("the request cannot be made")

// post sends an event; asked is for how long the receiver wants to be left alone.
func (s *Sender) post(ctx context.Context, d *delivery) (status int, asked time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	body, err := s.o.Format.body(&d.Message)
	if err != nil {
		return 0, 0, errNotMade
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL, bytes.NewReader(body))
	if err != nil {
		return 0, 0, errNotMade // its text has the URL
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "taskbus")
	now := time.Now()
	sign(q.Header, s.o.Keys, d.ID, now, body)
	a, err := s.client.Do(q)
	if err != nil {
		return 0, 0, err
	}
	defer a.Body.Close()
	// Some receivers want to see their answer read; what it says does not matter, nor that it ends.
	defer time.AfterFunc(answerLimit, cancel).Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, mostAnswer))
	return a.StatusCode, heard.Of(now, a.StatusCode, a.Header).RetryAfter, nil
}

// why says in a few words why there was no answer. The error's own text has the URL.
func why(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", tryLimit)
	case errors.Is(err, context.Canceled):
		return "the coordinator ends"
	case errors.As(err, &name):
		return "its name cannot be found"
	case errors.As(err, &certificate):
		return "its certificate is not trusted: " + certificate.Err.Error()
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.As(err, &op):
		return op.Err.Error()
	default:
		return "the connection failed"
	}
}

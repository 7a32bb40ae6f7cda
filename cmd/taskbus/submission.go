package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// maxLine is the longest line that is read, in bytes: what is longer could not
// be a message the coordinator takes, however it is configured.
const maxLine = 8 << 20

// submission is one run of submit over its input.
type submission struct {
	queue    string
	raw      bool
	now      func() time.Time
	decoder  *messages.Decoder
	session  bus.Session // nil: validate only
	tally    *tally
	progress progress
}

// run reads the input to its end, or until ctx ends or the session is lost.
func (s *submission) run(ctx context.Context, input io.Reader) error {
	reader := bufio.NewReaderSize(input, 64<<10)
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before line %d; it and what follows was not published", number)
		}
		line, err := readLine(reader, maxLine)
		switch {
		case errors.Is(err, errLongLine):
			s.tally.refused(number, err.Error())
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read line %d: %w", number, err)
		case len(bytes.TrimSpace(line)) > 0:
			if err := s.line(number, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		s.progress.report(s.now(), s.tally.text)
	}
}

// line validates and publishes one line. An error ends the run.
func (s *submission) line(number int, line []byte) error {
	task, refusal := s.decoder.DecodeTaskAssign(line)
	if refusal != nil && !s.raw {
		s.tally.refused(number, refusal.Text)
		return nil
	}
	s.tally.accepted()
	if s.session == nil {
		return nil
	}
	p := bus.Publication{
		Token: uint64(number), Key: s.queue, Body: line,
		Properties: bus.Properties{AppID: "taskbus-submit", Timestamp: s.now()},
	}
	if refusal == nil {
		p.ContentType, p.Type = "application/json", schemas.TaskAssign
		p.MessageID, p.CorrelationID = string(task.TaskID), task.CorrelationID
	}
	err := s.session.Publish(p)
	var unsendable *bus.EncodingError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsendable):
		s.tally.failed(number, err.Error())
		return nil
	default:
		if cause := s.session.Err(); cause != nil {
			err = cause
		}
		return fmt.Errorf("publish line %d: %w; it and what follows was not published", number, err)
	}
}

var errLongLine = fmt.Errorf("longer than %d bytes", maxLine)

// readLine reads up to the next line feed, which it drops; io.EOF comes with the
// last line. A line longer than limit is skipped to its end and gives
// errLongLine; the memory in use stays bounded. The line is the caller's.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > limit; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLongLine // an end of input comes again at the next call
		default:
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

// maxReported bounds the faults of each kind that are kept to be printed.
const maxReported = 20

// lineFault is what is wrong with one line.
type lineFault struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// submissionSummary is what became of the input.
type submissionSummary struct {
	// Queue is empty when nothing was to be published.
	Queue string `json:"queue,omitempty"`
	// Lines that were not blank, of which Valid could be published.
	Lines            int `json:"lines"`
	Valid            int `json:"valid"`
	Confirmed        int `json:"confirmed"`
	RefusedLines     int `json:"refused_lines"`
	UnconfirmedLines int `json:"unconfirmed_lines"`
	// Refused and Unconfirmed hold the first of each, at most 20.
	Refused     []lineFault `json:"refused"`
	Unconfirmed []lineFault `json:"unconfirmed"`
}

func (s *submissionSummary) bad() bool { return s.RefusedLines+s.UnconfirmedLines > 0 }

// tally counts while lines are read and confirms come in at the same time.
type tally struct {
	mu  sync.Mutex
	sum submissionSummary
}

func newTally() *tally {
	return &tally{sum: submissionSummary{Refused: []lineFault{}, Unconfirmed: []lineFault{}}}
}

func (t *tally) accepted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Lines++
	t.sum.Valid++
}

func (t *tally) refused(line int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Lines++
	t.sum.RefusedLines++
	if len(t.sum.Refused) < maxReported {
		t.sum.Refused = append(t.sum.Refused, lineFault{line, text})
	}
}

func (t *tally) failed(line int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.UnconfirmedLines++
	if len(t.sum.Unconfirmed) < maxReported {
		t.sum.Unconfirmed = append(t.sum.Unconfirmed, lineFault{line, text})
	}
}

// settled is bus.SessionSpec.OnSettled; the token is the line's number.
func (t *tally) settled(token uint64, outcome bus.Outcome) {
	text := ""
	switch outcome {
	case bus.Confirmed:
		t.mu.Lock()
		t.sum.Confirmed++
		t.mu.Unlock()
		return
	case bus.Unroutable:
		text = "the queue does not exist; start the coordinator once or run `taskbus topology apply`"
	case bus.Rejected:
		text = "the broker refused it, as a queue does that is full"
	default:
		text = "the connection ended first; it may have arrived, submitting it again is safe"
	}
	t.failed(int(token), text)
}

func (t *tally) summary() submissionSummary {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// text is the progress line.
func (t *tally) text() string {
	s := t.summary()
	return fmt.Sprintf("%d lines read, %d confirmed, %d refused", s.Lines, s.Confirmed, s.RefusedLines)
}

package task

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// maxLine is the longest line that is read, in bytes: what is longer could not
// be a message the coordinator takes, however it is configured.
const maxLine = 8 << 20

// submission is one run of submit over its input.
type submission struct {
	queue    string   // of all of them; empty: by priority (see bus.AssignQueue)
	queues   []string // that were published to
	raw      bool
	from     int // the first line that counts
	now      func() time.Time
	decoder  *messages.Decoder
	where    string      // the broker
	session  bus.Session // nil: validate only
	tally    *tally
	progress cli.Progress

	outcomes *outcomes // nil: they are not waited for

	// atLine is held while a line is dealt with; stopped: no more of them is.
	atLine  sync.Mutex
	stopped bool
}

// errStopped is the end of a run by a signal.
var errStopped = errors.New("stopped by a signal")

// watched reads the input to its end, or until ctx ends or the session is lost, whatever keeps it from
// reading or publishing. An input that gives nothing is left to itself.
func (s *submission) watched(ctx context.Context, input io.Reader) error {
	done := make(chan error, 1)
	go func() { done <- s.run(input) }()
	var lost <-chan struct{}
	if s.session != nil {
		lost = s.session.Done()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return s.over(errStopped)
	case <-lost:
		if err := s.session.Err(); err != nil {
			return fmt.Errorf("the connection to %s is lost: %w", s.where, err)
		}
		return fmt.Errorf("the connection to %s is lost", s.where)
	}
}

// over sees to it that no more lines are dealt with, and says with which line to go on after an early
// end. A line that is on its way to a broker that takes nothing is let go by the end of the session,
// which comes first.
func (s *submission) over(err error) error {
	if s.session == nil || closed(s.session.Done()) {
		s.atLine.Lock()
		s.stopped = true
		s.atLine.Unlock()
	}
	return err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// confirmed waits for what is on its way: for the end of an alarm as long as it takes, else for
// confirmTimeout from one confirm to the next.
func (s *submission) confirmed(ctx context.Context) error {
	late := time.NewTimer(confirmTimeout)
	defer late.Stop()
	for s.tally.onTheWay() > 0 {
		select {
		case <-s.tally.changed:
			late.Reset(confirmTimeout)
		case <-late.C:
			held := s.tally.held()
			select {
			case <-s.tally.changed: // at the same moment: the alarm may have ended just now
			default:
				if !held {
					return fmt.Errorf("%s has confirmed nothing for %v", s.where, confirmTimeout)
				}
			}
			late.Reset(confirmTimeout)
		case <-ctx.Done():
			return errStopped
		case <-s.session.Done():
			return nil // what was not confirmed is named
		}
	}
	return nil
}

// ended waits until each task that was confirmed has ended, or ctx or the session ends.
func (s *submission) ended(ctx context.Context) error {
	for left := s.outcomes.left(); left > 0; left = s.outcomes.left() {
		s.progress.Report(s.now(), func() string { return cli.Count(left, "task") + " to end" })
		select {
		case <-s.outcomes.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w; %s without an outcome", errStopped, cli.Count(left, "task"))
		case <-s.session.Done():
			return fmt.Errorf("the connection to %s is lost, and %s without an outcome; see taskbus tasks", s.where,
				cli.Count(left, "task"))
		}
	}
	return nil
}

// run reads the input to its end, or until the session ends.
func (s *submission) run(input io.Reader) error {
	reader := bufio.NewReaderSize(input, 64<<10)
	for number := 1; ; number++ {
		line, err := readLine(reader, maxLine)
		if err != nil && !errors.Is(err, errLongLine) && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		if over, lineErr := s.next(number, line, errors.Is(err, errLongLine), errors.Is(err, io.EOF)); over ||
			lineErr != nil {
			return lineErr
		}
		s.progress.Report(s.now(), s.tally.text)
	}
}

// next deals with one line, unless the run is over; last: nothing follows.
func (s *submission) next(number int, line []byte, long, last bool) (over bool, err error) {
	s.atLine.Lock()
	defer s.atLine.Unlock()
	if s.stopped {
		return true, nil
	}
	switch {
	case number < s.from:
	case long:
		s.tally.refused(number, errLongLine.Error())
	case len(bytes.TrimSpace(line)) > 0:
		if err := s.line(number, line); err != nil {
			return true, err
		}
	}
	s.tally.past(number, last)
	return last, nil
}

// line validates and publishes one line. An error ends the run.
func (s *submission) line(number int, line []byte) error {
	task, refusal := s.decoder.DecodeTaskAssign(line)
	if refusal != nil && !s.raw {
		s.tally.refused(number, refusal.Text)
		return nil
	}
	if refusal == nil && len(task.Unknown) > 0 {
		s.tally.misspelt(number, s.unknown(task.Unknown))
	}
	if s.session == nil {
		s.tally.accepted()
		return nil
	}
	queue := s.queue
	switch {
	case queue != "":
	case refusal == nil:
		queue = bus.AssignQueue(int(task.Priority))
	default:
		queue = bus.QueueAssign
	}
	if !slices.Contains(s.queues, queue) {
		s.queues = append(s.queues, queue)
		slices.Sort(s.queues)
	}
	p := bus.Publication{
		Token: uint64(number), Key: queue, Body: line,
		Properties: bus.Properties{AppID: "taskbus-submit", Timestamp: s.now()},
	}
	if refusal == nil {
		p.ContentType, p.Type = "application/json", schemas.TaskAssign
		p.MessageID, p.CorrelationID = string(task.TaskID), task.CorrelationID
	}
	if s.outcomes != nil {
		p.ReplyTo = s.outcomes.queue
		s.outcomes.await(number, task.TaskID)
	}
	err := s.session.Publish(p)
	var unsendable *bus.EncodingError
	switch {
	case err == nil:
		s.tally.accepted()
		return nil
	case errors.As(err, &unsendable):
		s.tally.accepted()
		s.tally.failed(number, err.Error())
		if s.outcomes != nil {
			s.outcomes.published(number, false)
		}
		return nil
	default:
		if cause := s.session.Err(); cause != nil {
			err = cause
		}
		return fmt.Errorf("publish line %d: %w", number, err)
	}
}

// settled is bus.SessionSpec.OnSettled; the token is the line's number.
func (s *submission) settled(token uint64, outcome bus.Outcome) {
	if s.outcomes != nil {
		s.outcomes.published(int(token), outcome == bus.Confirmed)
	}
	s.tally.settled(token, outcome)
}

// unknown says of fields that a task does not have what may have been meant.
func (s *submission) unknown(fields []string) string {
	parts := make([]string, len(fields))
	for i, field := range fields {
		parts[i] = field
		if near := s.decoder.Nearest(schemas.TaskAssign, field); near != "" {
			parts[i] += " (" + near + ")"
		}
	}
	return "no field of a task, and without effect: " + strings.Join(parts, ", ")
}

// published names the queues to which lines were published.
func (s *submission) published() string {
	s.atLine.Lock()
	defer s.atLine.Unlock()
	if len(s.queues) == 0 {
		return cmp.Or(s.queue, bus.QueueAssign)
	}
	return strings.Join(s.queues, " and ")
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
	// Queue is that, or those, to which it was published; empty when nothing was to be.
	Queue string `json:"queue,omitempty"`
	// Lines that were not blank, of which Valid could be published.
	Lines            int `json:"lines"`
	Valid            int `json:"valid"`
	Confirmed        int `json:"confirmed"`
	RefusedLines     int `json:"refused_lines"`
	UnconfirmedLines int `json:"unconfirmed_lines"`
	// MisspeltLines have fields that no task has. They are valid all the same.
	MisspeltLines int `json:"misspelt_lines,omitempty"`
	// Refused, Unconfirmed and Misspelt hold the first of each, at most 20.
	Refused     []lineFault `json:"refused"`
	Unconfirmed []lineFault `json:"unconfirmed"`
	Misspelt    []lineFault `json:"misspelt,omitempty"`
	// UnconfirmedRanges are all lines that were not confirmed, in order.
	UnconfirmedRanges []lineRange `json:"unconfirmed_ranges"`
	// Outcomes are those of the tasks, if they were waited for.
	Outcomes *outcomeSummary `json:"outcomes,omitempty"`
	// NextLine is the first that was not looked at, because the run has ended early: with it the next
	// run goes on (--from-line); 0: the whole input was read.
	NextLine int `json:"next_line,omitempty"`
}

// lineRange are the lines from the first to the last, both of them.
type lineRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// rangesOf puts lines in order, and those together that follow upon each other.
func rangesOf(lines []int) []lineRange {
	slices.Sort(lines)
	ranges := []lineRange{}
	for _, n := range lines {
		if last := len(ranges) - 1; last >= 0 && ranges[last].Last >= n-1 {
			ranges[last].Last = n
		} else {
			ranges = append(ranges, lineRange{n, n})
		}
	}
	return ranges
}

func rangesText(ranges []lineRange) string {
	var text strings.Builder
	for i, r := range ranges {
		if i > 0 {
			text.WriteString(", ")
		}
		if fmt.Fprintf(&text, "%d", r.First); r.Last > r.First {
			fmt.Fprintf(&text, "-%d", r.Last)
		}
	}
	if len(ranges) == 1 && ranges[0].First == ranges[0].Last {
		return "line " + text.String()
	}
	return "lines " + text.String()
}

func (s *submissionSummary) bad() bool {
	return s.RefusedLines+s.UnconfirmedLines > 0 || s.Outcomes.bad()
}

// tally counts while lines are read and confirms come in at the same time.
type tally struct {
	changed chan struct{} // capacity 1: something was settled, or the broker goes on

	mu          sync.Mutex
	sum         submissionSummary
	unconfirmed []int
	settledAny  int  // publications that ended, well or not
	unsent      int  // valid lines that could not even be published
	blocked     bool // the broker takes nothing
}

func newTally(from int) *tally {
	return &tally{
		changed: make(chan struct{}, 1),
		sum:     submissionSummary{Refused: []lineFault{}, Unconfirmed: []lineFault{}, NextLine: from},
	}
}

// past notes that a line was dealt with.
func (t *tally) past(line int, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case last:
		t.sum.NextLine = 0
	default:
		t.sum.NextLine = max(t.sum.NextLine, line+1)
	}
}

// hold notes that the broker takes nothing, or goes on.
func (t *tally) hold(blocked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocked = blocked
	t.signal() // before the change can be seen
}

func (t *tally) held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.blocked
}

func (t *tally) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// onTheWay is how many lines were published and have not ended yet.
func (t *tally) onTheWay() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum.Valid - t.unsent - t.settledAny
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

// misspelt notes a valid line with fields that no task has.
func (t *tally) misspelt(line int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.MisspeltLines++
	if len(t.sum.Misspelt) < maxReported {
		t.sum.Misspelt = append(t.sum.Misspelt, lineFault{line, text})
	}
}

// failed notes a line that was not even published.
func (t *tally) failed(line int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsent++
	t.unconfirm(line, text)
}

// unconfirm notes a line that the broker has not confirmed. t.mu is held.
func (t *tally) unconfirm(line int, text string) {
	t.sum.UnconfirmedLines++
	t.unconfirmed = append(t.unconfirmed, line)
	if len(t.sum.Unconfirmed) < maxReported {
		t.sum.Unconfirmed = append(t.sum.Unconfirmed, lineFault{line, text})
	}
}

// settled counts what became of a line; the token is its number.
func (t *tally) settled(token uint64, outcome bus.Outcome) {
	defer t.signal()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settledAny++
	text := ""
	switch outcome {
	case bus.Confirmed:
		t.sum.Confirmed++
		return
	case bus.Unroutable:
		text = "the queue does not exist; start the coordinator once or run `taskbus topology apply`"
	case bus.Rejected:
		text = "the broker refused it, as a queue does that is full"
	default:
		text = "the connection ended first; it may have arrived (see --help before you submit it again)"
	}
	t.unconfirm(int(token), text)
}

// summary may be called while lines are read: they are not copied but at the end.
func (t *tally) summary() submissionSummary {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// final is the summary with all lines that were not confirmed.
func (t *tally) final() submissionSummary {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.UnconfirmedRanges = rangesOf(t.unconfirmed)
	return t.sum
}

// text is the progress line.
func (t *tally) text() string {
	s := t.summary()
	return fmt.Sprintf("%d lines read, %d confirmed, %d refused", s.Lines, s.Confirmed, s.RefusedLines)
}

package task

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/tests/support/clitest"
	"taskbus/tests/support/membus"
)

func task(id string) string {
	return fmt.Sprintf(
		`{"message_type":"task.assign","task_id":%q,"task_type":"translate","payload":{"text":"guten Tag"},`+
			`"correlation_id":"trace-%s"}`, id, id)
}

func urgent(id string, priority int) string {
	return fmt.Sprintf(`{"message_type":"task.assign","task_id":%q,"task_type":"translate","payload":{},"priority":%d}`,
		id, priority)
}

// withQueues gives the rig's broker the queues that producers write to.
func withQueues(t *testing.T, r *clitest.Rig) {
	t.Helper()
	s, err := r.Broker.Open(t.Context(), bus.SessionSpec{Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{
		{Name: bus.QueueAssign, Kind: bus.Quorum}, {Name: bus.QueueAssignHigh, Kind: bus.Quorum},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSubmit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		args  string
		input string
		reply membus.Reply
		code  int
		// ids of the messages in task.assign and task.assign.high
		assign, high []string
		out, err     string
	}{
		{
			name: "two tasks", args: "submit -", input: task("a") + "\n" + task("b") + "\n",
			code: cli.ExitOK, assign: []string{"a", "b"}, out: "2 lines, 0 refused, 2 confirmed in task.assign, 0 not confirmed",
		},
		{
			name: "a misspelt field is told of", args: "submit -", input: task("a") + "\n" +
				strings.Replace(task("b"), `"payload"`, `"prioritiy":3,"payload"`, 1) + "\n",
			code: cli.ExitOK, assign: []string{"a", "b"}, out: "2 lines, 0 refused, 2 confirmed",
			err: "line 2: warning: no field of a task, and without effect: prioritiy (did you mean priority?)",
		},
		{
			name: "the last line needs no end", args: "submit -", input: task("a"),
			code: cli.ExitOK, assign: []string{"a"}, out: "1 line, 0 refused, 1 confirmed",
		},
		{
			name: "blank lines and carriage returns do not count", args: "submit -", input: "\n \t\r\n" + task("a") + "\r\n\n",
			code: cli.ExitOK, assign: []string{"a"}, out: "1 line,",
		},
		{
			name: "nothing", args: "submit -", input: "",
			code: cli.ExitOK, out: "0 lines, 0 refused, 0 confirmed",
		},
		{
			name: "the lane for what must not wait", args: "submit --high -", input: task("a"),
			code: cli.ExitOK, high: []string{"a"}, out: "in task.assign.high",
		},
		{
			name: "what is urgent does not wait behind the rest", args: "submit -", input: urgent("a", 3) + "\n" + task("b") +
				"\n" + urgent("c", 2) + "\n" + urgent("d", 0) + "\n",
			code: cli.ExitOK, assign: []string{"b", "d"}, high: []string{"a", "c"},
			out: "4 confirmed in task.assign and task.assign.high",
		},
		{
			name: "a bad line is reported with its number, the others go", args: "submit -",
			input: task("a") + "\n\n{\"broken\n" + task("b") + "\n" + `{"message_type":"task.assign"}`,
			code:  cli.ExitFailed, assign: []string{"a", "b"}, out: "4 lines, 2 refused, 2 confirmed",
			err: "line 3: not valid JSON",
		},
		{
			name: "validate only", args: "submit --validate-only -", input: task("a") + "\nx",
			code: cli.ExitFailed, out: "2 lines, 1 valid, 1 refused", err: "line 2:",
		},
		{
			name: "raw lines go as they are", args: "submit --raw -", input: task("a") + "\n{\"broken\n",
			code: cli.ExitOK, assign: []string{"a", ""}, out: "2 lines, 0 refused, 2 confirmed",
		},
		{
			name: "a queue that refuses", args: "submit -", input: task("a"), reply: membus.Nack,
			code: cli.ExitFailed, out: "0 confirmed in task.assign, 1 not confirmed",
			err: "line 1: not confirmed: the broker refused it",
		},
		{
			name: "a queue that is not there", args: "submit -", input: task("a"), reply: membus.Return,
			code: cli.ExitFailed, out: "1 not confirmed", err: "topology apply",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			withQueues(t, r)
			r.Broker.SetConfirm(func(bus.Publication) membus.Reply { return tc.reply })
			r.In = strings.NewReader(tc.input)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if out := r.Out.String(); !strings.Contains(out, tc.out) || strings.Count(out, "\n") != 1 {
				t.Errorf("stdout %q, want one line with %q", out, tc.out)
			}
			if text := r.Err.String(); !strings.Contains(text, tc.err) || (tc.err == "") != (text == "") {
				t.Errorf("stderr %q, want %q", text, tc.err)
			}
			for queue, want := range map[string][]string{bus.QueueAssign: tc.assign, bus.QueueAssignHigh: tc.high} {
				var got []string
				for _, m := range r.Broker.Messages(queue) {
					got = append(got, m.MessageID)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s holds %v, want %v", queue, got, want)
				}
			}
		})
	}
}

// The message goes out byte for byte, with what tools look at in its properties.
func TestSubmitProperties(t *testing.T) {
	r := newRig()
	withQueues(t, r)
	r.In = strings.NewReader(task("a") + "\n")
	if code := r.Run(t, "submit", "-", "-o", "json"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, r.Err.String())
	}
	var sum submissionSummary
	if err := json.Unmarshal([]byte(r.Out.String()), &sum); err != nil || sum.Confirmed != 1 || sum.Refused == nil {
		t.Errorf("summary %+v (%v)", sum, err)
	}
	held := r.Broker.Messages(bus.QueueAssign)
	if len(held) != 1 {
		t.Fatalf("%d messages", len(held))
	}
	m := held[0]
	if string(m.Body) != task("a") {
		t.Errorf("body %s", m.Body)
	}
	if m.Type != "task.assign" || m.ContentType != "application/json" || m.CorrelationID != "trace-a" ||
		m.AppID != "taskbus-submit" || !m.Timestamp.Equal(clitest.Noon) {
		t.Errorf("properties %+v", m.Properties)
	}
}

func TestSubmitWithoutBroker(t *testing.T) {
	r := newRig()
	r.Broker.SetOpenError(errors.New("connection refused"))
	r.In = strings.NewReader(task("a"))
	if code := r.Run(t, "submit", "-"); code != cli.ExitFailed ||
		!strings.Contains(r.Err.String(), "RABBITMQ_URL is not set; set it to") {
		t.Errorf("exit code %d, stderr %s", code, r.Err.String())
	}
}

// A connection that is lost half-way: what is unsure counts as not confirmed.
func TestSubmitLosesTheConnection(t *testing.T) {
	r := newRig()
	withQueues(t, r)
	r.Broker.SetConfirm(func(bus.Publication) membus.Reply { return membus.Lose })
	first, second := strings.NewReader(task("a")+"\n"), &cutter{r.Broker}
	r.In = io.MultiReader(first, second, strings.NewReader(task("b")+"\n"))
	if code := r.Run(t, "submit", "-"); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	if text := r.Err.String(); !strings.Contains(text, "line 1: not confirmed: the connection ended first") ||
		!strings.Contains(text, "what follows was not published") {
		t.Errorf("stderr %s", text)
	}
}

// cutter is an input that ends every session when it is read.
type cutter struct{ broker *membus.Broker }

func (c *cutter) Read([]byte) (int, error) { c.broker.Cut(); return 0, io.EOF }

func TestSubmitFromALine(t *testing.T) {
	r := newRig()
	withQueues(t, r)
	r.In = strings.NewReader("{\"broken\n" + task("a") + "\n" + task("b") + "\nx\n" + task("c") + "\n")
	if code := r.Run(t, "submit", "--from-line", "3", "-"); code != cli.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	if out, text := r.Out.String(), r.Err.String(); !strings.Contains(out, "3 lines, 1 refused, 2 confirmed") ||
		!strings.Contains(text, "line 4:") || strings.Contains(text, "line 1:") {
		t.Errorf("stdout %s, stderr %s", out, text)
	}
	if code := r.Run(t, "submit", "--from-line", "0", "-"); code != cli.ExitUsage {
		t.Errorf("from line 0: exit code %d", code)
	}
}

// All lines that were not confirmed are named, however many.
func TestSubmitNamesUnconfirmedLines(t *testing.T) {
	for _, output := range []string{cli.OutputTable, cli.OutputJSON} {
		r := newRig()
		withQueues(t, r)
		var input strings.Builder
		for i := range 100 {
			input.WriteString(task(fmt.Sprint("t-", i+1)) + "\n")
		}
		confirmed := map[string]bool{"t-1": true, "t-2": true, "t-50": true, "t-100": true}
		r.Broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if confirmed[p.MessageID] {
				return membus.Answer
			}
			return membus.Nack
		})
		r.In = strings.NewReader(input.String())
		if code := r.Run(t, "submit", "-o", output, "-"); code != cli.ExitFailed {
			t.Errorf("exit code %d", code)
		}
		if output == cli.OutputTable {
			if text := r.Err.String(); !strings.Contains(text, "not confirmed: lines 3-49, 51-99\n") {
				t.Errorf("stderr %s", text)
			}
			continue
		}
		var sum submissionSummary
		if err := json.Unmarshal([]byte(r.Out.String()), &sum); err != nil ||
			fmt.Sprint(sum.UnconfirmedRanges) != "[{3 49} {51 99}]" || sum.NextLine != 0 {
			t.Errorf("%+v (%v)", sum, err)
		}
	}
}

// Whatever ends a run early, its summary is printed, with the line to go on with.
func TestSubmitEndsEarly(t *testing.T) {
	for _, tc := range []struct {
		name    string
		blocked bool // by the broker, from the beginning
		end     func(r *clitest.Rig)
		took    time.Duration
		out     string
		err     []string
	}{
		{"a signal while nothing comes to be read", false, func(r *clitest.Rig) { r.Signals <- syscall.SIGTERM }, stopTimeout,
			"2 lines, 0 refused, 2 confirmed in task.assign, 0 not confirmed",
			[]string{"stopped by a signal", "go on with --from-line 3"}},
		{"the connection is lost meanwhile", false, func(r *clitest.Rig) { r.Broker.Cut() }, stopTimeout,
			"2 lines, 0 refused, 2 confirmed in task.assign, 0 not confirmed", []string{"is lost", "go on with --from-line 3"}},
		// The second line is on its way, too, or waits for the end of the alarm: that depends on whether the alarm
		// was told of before it.
		{"a signal in an alarm", true, func(r *clitest.Rig) { r.Signals <- syscall.SIGINT }, time.Second,
			"2 lines, 0 refused, 0 confirmed in task.assign, 2 not confirmed",
			[]string{"takes nothing at the moment", "not confirmed: lines 1-2\n", "stopped by a signal",
				"go on with --from-line 3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := strings.NewReplacer("2 lines", "1 line", "2 not confirmed", "1 not confirmed", "lines 1-2", "line 1",
					"--from-line 3", "--from-line 2")
				r := newRig()
				withQueues(t, r)
				r.Broker.Block(tc.blocked)
				input, producer := io.Pipe()
				r.In = input
				exit := make(chan int)
				go func() { exit <- r.Run(t, "submit", "-") }()
				if _, err := io.WriteString(producer, task("a")+"\n"+task("b")+"\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				began := time.Now()
				tc.end(r)
				if code := <-exit; code != cli.ExitFailed {
					t.Errorf("exit code %d", code)
				}
				if took := time.Since(began); took > tc.took {
					t.Errorf("it ended after %v, want %v at most", took, tc.took)
				}
				first := tc.blocked && strings.HasPrefix(r.Out.String(), "1 line,")
				if first {
					tc.out = one.Replace(tc.out)
				}
				if out := r.Out.String(); !strings.Contains(out, tc.out) {
					t.Errorf("stdout %q, want %q", out, tc.out)
				}
				for _, want := range tc.err {
					if first {
						want = one.Replace(want)
					}
					if !strings.Contains(r.Err.String(), want) {
						t.Errorf("stderr %q, want %q", r.Err.String(), want)
					}
				}
				_ = producer.Close() // the reader is left to itself until then
			})
		})
	}
}

// An alarm is waited for, however long it lasts, also when everything has been read.
func TestSubmitWaitsForTheEndOfAnAlarm(t *testing.T) {
	synctest.Test(t, testSubmitWaitsForTheEndOfAnAlarm)
}

func testSubmitWaitsForTheEndOfAnAlarm(t *testing.T) {
	r := newRig()
	withQueues(t, r)
	r.Broker.Block(true)
	time.AfterFunc(10*time.Minute, func() { r.Broker.Block(false) })
	r.In = strings.NewReader(task("a") + "\n")
	if code := r.Run(t, "submit", "-"); code != cli.ExitOK ||
		!strings.Contains(r.Out.String(), "1 confirmed in task.assign, 0 not confirmed") {
		t.Errorf("exit code %d, %s%s", code, r.Out.String(), r.Err.String())
	}
}

func TestReadLine(t *testing.T) {
	const limit = 40
	for _, tc := range []struct {
		input string
		want  []string // "LONG" for a line beyond the limit
	}{
		{"", []string{""}},
		{"a", []string{"a"}},
		{"a\nb\n", []string{"a", "b", ""}},
		{strings.Repeat("x", limit-1) + "\ny", []string{strings.Repeat("x", limit-1), "y"}}, // the line feed counts
		{strings.Repeat("x", limit) + "\ny", []string{"LONG", "y"}},
		{strings.Repeat("x", 500) + "\ny\n", []string{"LONG", "y", ""}},
		{strings.Repeat("x", 500), []string{"LONG", ""}},
	} {
		r := bufio.NewReaderSize(strings.NewReader(tc.input), 16) // smaller than the limit: lines come in parts
		var got []string
		for {
			line, err := readLine(r, limit)
			if errors.Is(err, errLongLine) {
				got = append(got, "LONG")
				continue
			}
			got = append(got, string(line))
			if err != nil {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%.20q…: %q, want %q", tc.input, got, tc.want)
		}
	}
}

func TestReportedFaultsAreBounded(t *testing.T) {
	r := newRig()
	r.In = strings.NewReader(strings.Repeat("x\n", 1000))
	if code := r.Run(t, "submit", "--validate-only", "-"); code != cli.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	// 20 lines and one that says how many more.
	if n := strings.Count(r.Err.String(), "\n"); n != maxReported+1 || !strings.Contains(r.Err.String(), "and 980 more") {
		t.Errorf("%d lines on stderr: %s", n, r.Err.String())
	}
}

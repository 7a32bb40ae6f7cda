package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// producer listens in my.replies, which holds so many at most (0: any number).
func (r *rig) producer(most int) {
	r.t.Helper()
	s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
		Mode: bus.Declare, Queues: []bus.Queue{{Name: "my.replies", Kind: bus.Quorum, DeliveryLimit: 5, MaxLength: most}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.others = append(r.others, s)
}

func toMyReplies(p *bus.Properties) { p.ReplyTo = "my.replies" }

// The producer gets the output as its agent wrote it: white space, digits beyond a float, order of keys. The event has
// its size and hash, and neither the event nor the log the output itself.
func TestAnswerHasTheOutput(t *testing.T) {
	const output = `{"z": 12345678901234567890, "secret":[1,  2], "e":1e300}`
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		r.producer(0)
		r.worker("a1", false)
		r.task("t-1", "build", `,"correlation_id":"trace-1"`, toMyReplies)
		r.result("a1", "t-1", "succeeded", `,"output":`+output+`,"usage":{"output_tokens":7}`)

		m := r.only("my.replies")
		if !strings.Contains(string(m.Body), `"output":`+output) {
			t.Errorf("the answer: %s", m.Body)
		}
		if m.MessageID != "t-1.completed" || m.CorrelationID != "trace-1" || m.Type != "task.completed" ||
			m.text("outcome") != "succeeded" || m.text("agent_id") != "a1" || m.fields["attempt"] != 1.0 {
			t.Errorf("the answer: %+v %s", m.Properties, m.Body)
		}
		events := r.events("task.completed")
		if len(events) != 1 {
			t.Fatalf("%d events, want 1", len(events))
		}
		sum := sha256.Sum256([]byte(output))
		e := events[0]
		if e.fields["output_size"] != float64(len(output)) || e.text("output_sha256") != hex.EncodeToString(sum[:]) {
			t.Errorf("the event: %s", e.Body)
		}
		if strings.Contains(string(e.Body), "secret") || strings.Contains(fmt.Sprint(r.log), "secret") {
			t.Errorf("an event or the log has the output: %s\n%s", e.Body, r.log)
		}
	})
}

// Each end by an agent's word is answered, with an output or without: also what failed, and where an output is.
func TestEveryEndIsAnswered(t *testing.T) {
	const ref = `{"uri":"s3://bucket/key","sha256":"` +
		`0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","size":12345678}`
	for _, c := range []struct{ outcome, extra, want string }{
		{"succeeded", ``, `"outcome":"succeeded"`},
		{"failed", `,"error":"no such page"`, `"error":"no such page"`},
		{"failed", `,"output":null`, `"output":null`},
		{"cancelled", `,"output":"as far as it came"`, `"output":"as far as it came"`},
		{"succeeded", `,"output_ref":` + ref, `"output_ref":` + ref},
	} {
		inRig(t, fleet, func(r *rig) {
			r.producer(0)
			r.worker("a1", false)
			r.task("t-1", "build", "", toMyReplies)
			r.result("a1", "t-1", c.outcome, c.extra)
			if m := r.only("my.replies"); m.text("outcome") != c.outcome || !strings.Contains(string(m.Body), c.want) {
				t.Errorf("%s%s: %s", c.outcome, c.extra, m.Body)
			}
		})
	}
}

// An output that cannot be passed on ends its task, with words: too large by a byte (max_output_bytes: 1,024), nested
// deeper than a message may be, with a key twice, no UTF-8; and so does a result that is too large altogether.
func TestOutputThatCannotBePassedOn(t *testing.T) {
	for name, c := range map[string]struct{ extra, want string }{
		"too large": {`,"output":"` + strings.Repeat("x", 1023) + `"`,
			"/output: 1025 bytes, more than the 1024 allowed (max_output_bytes)"},
		"too deep": {`,"output":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
			"nested more deeply than 64 levels"},
		"key twice":   {`,"output":{"a":1,"a":2}`, "a key occurs twice"},
		"not UTF-8":   {",\"output\":\"\xff\"", "not valid UTF-8"},
		"all of it":   {`,"x":"` + strings.Repeat("x", 2<<20) + `"`, "bytes, more than the"},
		"no JSON":     {`,"output":nonsense`, "not valid JSON"},
		"half a body": {`,"output":{"a":`, "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			small := strings.Replace(fleet, "global_settings: {", "global_settings: {max_output_bytes: 1024, ", 1)
			inRig(t, small, func(r *rig) {
				r.producer(0)
				r.worker("a1", false)
				r.task("t-1", "build", "", toMyReplies)
				r.task("t-2", "build", "", toMyReplies)
				r.result("a1", "t-1", "succeeded", c.extra)
				r.result("a1", "t-2", "succeeded", `,"output":"`+strings.Repeat("x", 1022)+`"`)
				all := r.in("my.replies")
				if len(all) != 2 {
					t.Fatalf("%d answers, want 2; log:\n%.2000s", len(all), fmt.Sprint(r.log))
				}
				if all[0].text("outcome") != "failed" || !strings.Contains(all[0].text("error"), c.want) {
					t.Errorf("%s, want %q", all[0].Body, c.want)
				}
				if all[1].text("outcome") != "succeeded" {
					t.Errorf("the other, whose output just fits: %.300s", all[1].Body)
				}
			})
		})
	}
}

// A reply queue that is full is tried again while it may get room; nothing else waits for it, and after a while it is
// given up.
func TestAnswerIntoAFullQueue(t *testing.T) {
	for _, room := range []bool{true, false} {
		inRig(t, fleet, func(r *rig) {
			bindAll(r)
			r.producer(0)
			r.worker("a1", false)
			var full atomic.Bool
			full.Store(true)
			r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
				if full.Load() && p.Key == "my.replies" {
					return membus.Nack
				}
				return membus.Answer
			})
			r.task("t-1", "build", "", toMyReplies)
			r.result("a1", "t-1", "succeeded", `,"output":1`)
			r.task("t-2", "build", "")
			r.result("a1", "t-2", "succeeded", "")
			if n := len(r.events("task.completed")); n != 2 {
				t.Errorf("%d events while the queue is full, want both", n)
			}
			r.pass(5 * time.Second)
			full.Store(!room)
			r.pass(time.Minute)
			full.Store(false)
			r.pass(time.Minute)
			if n := len(r.in("my.replies")); (n == 1) != room {
				t.Errorf("room in time: %v, and %d answers", room, n)
			}
		})
	}
}

// Neither a queue that is gone nor one of an agent gets an answer, and nothing waits for it.
func TestAnswerThatHasNoQueue(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.producer(0)
		r.worker("a1", false)
		for i, queue := range []string{"no.such.queue", "agent.a2", bus.QueueAssign, "my.replies"} {
			r.task(fmt.Sprint("t-", i), "build", "", func(p *bus.Properties) { p.ReplyTo = queue })
		}
		for i := range 4 {
			r.result("a1", fmt.Sprint("t-", i), "succeeded", "")
		}
		if m := r.only("my.replies"); m.text("task_id") != "t-3" {
			t.Errorf("answer %s", m.Body)
		}
		r.empty("agent.a2")
		r.empty(bus.QueueAssign)
	})
}

// A session that ends before the broker has confirmed the answer is followed by one that gives it again, with its
// output, under the same message id.
func TestAnswerComesAgainAfterAFault(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.producer(0)
		r.worker("a1", false)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Key == "my.replies" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("t-1", "build", "", toMyReplies)
		r.result("a1", "t-1", "succeeded", `,"output":"found"`)
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(20 * time.Second)
		all := r.in("my.replies")
		if len(all) != 2 {
			t.Fatalf("%d answers, want the one that was not confirmed and its repetition", len(all))
		}
		for _, m := range all {
			if m.MessageID != "t-1.completed" || m.text("output") != "found" {
				t.Errorf("%s: %s", m.MessageID, m.Body)
			}
		}
	})
}

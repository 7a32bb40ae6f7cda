package messages

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// benchTask is a task.assign of about 500 bytes with a small payload.
func benchTask(tb testing.TB) []byte {
	body :=
		[]byte(
			`{"message_type": "task.assign", "task_id": "0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b21", "task_type": ` +
				`"optimize_memory", ` +
				`"payload": {"target": "cache-7", "goal": "halve the resident set without a restart", "limits": {"cpu": 2, ` +
				`"memory_mb": 512, "steps": [1, 2, 3]}, "dry_run": false}, ` +
				`"priority": 2, "correlation_id": "4bf92f3577b34da6a3ce929d0e0e4736", "timeout_seconds": 300, ` +
				`"required_capabilities": ["go", "memory"], "labels": {"team": "platform", "region": "eu-west-1", "tier": "2"}, ` +
				`"group": "research"}`)
	if len(body) < 480 || len(body) > 560 {
		tb.Fatalf("the sample has %d bytes, want about 500", len(body))
	}
	return body
}

func BenchmarkDecodeTaskAssign(b *testing.B) {
	d := newDecoder(b)
	body := benchTask(b)
	b.Run("fast", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, refusal := d.DecodeTaskAssign(body); refusal != nil {
				b.Fatal(refusal.Text)
			}
		}
	})
	b.Run("slow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, refusal := d.slowTaskAssign(body); refusal != nil {
				b.Fatal(refusal.Text)
			}
		}
	})
	for _, kib := range []int{16, 256} {
		large := []byte(strings.Replace(assign(), "{}", `{"text":"`+strings.Repeat("lorem ipsum ", kib*1024/12)+`"}`, 1))
		b.Run(fmt.Sprintf("payload=%dKiB", kib), func(b *testing.B) {
			b.SetBytes(int64(len(large)))
			for b.Loop() {
				if _, refusal := d.DecodeTaskAssign(large); refusal != nil {
					b.Fatal(refusal.Text)
				}
			}
		})
	}
}

func BenchmarkDecodeAgentStatus(b *testing.B) {
	d := newDecoder(b)
	body := []byte(status())
	var m AgentStatus
	b.ReportAllocs()
	for b.Loop() {
		if refusal := d.DecodeAgentStatus(body, &m); refusal != nil {
			b.Fatal(refusal.Text)
		}
	}
}

// BenchmarkDecodeTaskResult: a result that carries usage, from another agent of
// another task each time, as a stream of many agents' results has them.
func BenchmarkDecodeTaskResult(b *testing.B) {
	d := newDecoder(b)
	var bodies [2][]byte
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil,
			`{"message_type":"task.result","task_id":"0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b2%[1]d","agent_id":"worker-%[1]d",`+
				`"outcome":"succeeded",`+
				`"correlation_id":"4bf92f3577b34da6a3ce929d0e0e473%[1]d","timestamp":"2026-01-31T23:59:59.123456Z",`+
				`"dispatch_id":"0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b2%[1]d.1",`+
				`"attempt":1,"duration_ms":1234.5,"usage":{"requests":3,"input_tokens":1200,"output_tokens":345,`+
				`"cost_usd":0.0123,"provider":"cloud-a","model":"m-large"}}`, i)
	}
	for _, c := range []struct {
		name   string
		decode func([]byte, *TaskResult) *Refusal
	}{{"fast", d.DecodeTaskResult}, {"slow", d.slowTaskResult}} {
		b.Run(c.name, func(b *testing.B) {
			var m TaskResult
			b.ReportAllocs()
			b.SetBytes(int64(len(bodies[0])))
			for i := 0; b.Loop(); i++ {
				if refusal := c.decode(bodies[i%2], &m); refusal != nil {
					b.Fatal(refusal.Text)
				}
			}
		})
	}
}

func BenchmarkDecodeTaskBid(b *testing.B) {
	d := newDecoder(b)
	body := AppendTaskBid(nil, &TaskBid{TaskID: "0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b21",
		AuctionID: "0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b21.1", AgentID: "worker-17",
		Fitness: 2.0 / 3, ActiveTasks: 3, EstimatedDurationSeconds: 12.5, CorrelationID: "4bf92f3577b34da6a3ce929d0e0e4736"})
	for _, c := range []struct {
		name   string
		decode func([]byte) *Refusal
	}{
		{"fast", func(body []byte) *Refusal { _, refusal := d.DecodeTaskBid(body); return refusal }},
		{"slow", func(body []byte) *Refusal { _, refusal := d.slowTaskBid(body); return refusal }},
		{"request", func(body []byte) *Refusal { _, refusal := d.DecodeRequest(body); return refusal }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if refusal := c.decode(body); refusal != nil {
					b.Fatal(refusal.Text)
				}
			}
		})
	}
}

// BenchmarkTaskAvailable: one offer, as it is sent to an agent and as that reads it.
func BenchmarkTaskAvailable(b *testing.B) {
	d := newDecoder(b)
	offers := []TaskOffer{{TaskID: "0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b21",
		AuctionID: "0198c1f2-7b1e-7cc3-9f11-3c5a9e0d4b21.1", TaskType: "optimize_memory",
		RequiredCapabilities: []string{"go", "memory"}, BidWindowMS: 500, Attempt: 1, Priority: 2,
		CorrelationID: "4bf92f3577b34da6a3ce929d0e0e4736"}}
	body, _ := AppendTaskAvailable(nil, "worker-17", offers)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, _ = AppendTaskAvailable(body[:0], "worker-17", offers)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, refusal := d.DecodeControl(body); refusal != nil {
				b.Fatal(refusal.Text)
			}
		}
	})
}

func benchDispatch(b *testing.B) (*coordinator.Dispatch, []byte) {
	m, refusal := newDecoder(b).DecodeTaskAssign(benchTask(b))
	if refusal != nil {
		b.Fatal(refusal.Text)
	}
	dispatch := sampleDispatch()
	dispatch.Task = m.Task(Arrival{Now: at, ContentHash: 7})
	return dispatch, m.Payload
}

func BenchmarkAppendDispatch(b *testing.B) {
	dispatch, payload := benchDispatch(b)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendDispatch(dst[:0], dispatch, payload)
	}
}

func BenchmarkEncodeHeaders(b *testing.B) {
	dispatch, _ := benchDispatch(b)
	again := *dispatch
	again.Attempt, again.Tried = 2, []coordinator.AgentID{"agent_123"}
	for _, c := range []struct {
		name   string
		encode func() string
	}{
		{"task", func() string { return EncodeTaskHeader(dispatch.Task) }},
		{"plain task", func() string { return EncodeTaskHeader(&coordinator.Task{AcceptedAt: at, ContentHash: 7}) }},
		{"tried, first attempt", func() string { return EncodeTriedHeader(dispatch) }},
		{"tried, second attempt", func() string { return EncodeTriedHeader(&again) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.encode()
			}
			b.ReportMetric(float64(len(c.encode())), "bytes")
		})
	}
}

func BenchmarkDecodeTaskDispatch(b *testing.B) {
	d := newDecoder(b)
	dispatch, payload := benchDispatch(b)
	body := AppendDispatch(nil, dispatch, payload)
	for _, c := range []struct {
		name   string
		decode func([]byte) (*TaskDispatch, *Refusal)
	}{{"fast", d.DecodeTaskDispatch}, {"slow", d.slowTaskDispatch}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, refusal := c.decode(body); refusal != nil {
					b.Fatal(refusal.Text)
				}
			}
		})
	}
}

func BenchmarkDecodeReturned(b *testing.B) {
	d := newDecoder(b)
	dispatch, payload := benchDispatch(b)
	body, header := AppendDispatch(nil, dispatch, payload), EncodeTaskHeader(dispatch.Task)
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := d.DecodeReturned(body, header, ""); refusal != nil {
			b.Fatal(refusal.Text)
		}
	}
}

func BenchmarkTask(b *testing.B) {
	m, refusal := newDecoder(b).DecodeTaskAssign(benchTask(b))
	if refusal != nil {
		b.Fatal(refusal.Text)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Task(Arrival{Now: at})
	}
}

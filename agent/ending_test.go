package agent

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"taskbus/messages"
)

// longestEnding is a dispatch that has ended with all that a result can say.
func longestEnding(number int) *dispatch {
	id := strings.Repeat("d", 154) + strconv.Itoa(100_000+number) // 160 bytes, the most
	return &dispatch{
		key: id, task: &Task{}, endedAt: time.Now(),
		names: messages.TaskResult{DispatchID: id, CorrelationID: strings.Repeat("c", 255)},
		verdict: &verdict{
			outcome: messages.Failed, text: strings.Repeat("x", messages.MaxText),
			usage: &Usage{Requests: 1, Provider: strings.Repeat("p", maxUsageName), Model: strings.Repeat("m", maxUsageName)},
		},
	}
}

// What is remembered is bounded in number and in bytes. The longest endings cost
//
//	200 (overhead) + 160 (id) + 140 (structs) + 512 (text) + 255 (trace id) + 64 + 128 + 128 (usage) = 1,587 bytes
//
// of which 8 MiB hold 8,388,608 / 1,587 = 5,285.
func TestEndingsAreBounded(t *testing.T) {
	w := &worker{ended: memory[ending]{limit: maxEnded, bytes: maxEndedBytes, size: ending.size}}
	for n := range 20_000 {
		w.over(longestEnding(n))
	}
	if got, want := len(w.ended.values), 5285; got != want {
		t.Errorf("%d of the longest endings are remembered, want %d", got, want)
	}
	for n := range 20_000 {
		w.over(&dispatch{task: &Task{}, verdict: &verdict{outcome: messages.Succeeded},
			names: messages.TaskResult{DispatchID: strconv.Itoa(n)}})
	}
	if got, want := len(w.ended.values), maxEnded; got != want {
		t.Errorf("%d short endings are remembered, want %d", got, want)
	}
	if _, known := w.ended.get("9999"); known {
		t.Error("the oldest are not the first to go")
	}
	if _, known := w.ended.get("10000"); !known {
		t.Error("the 10,000 latest are not all remembered")
	}
}

// The size that is counted is not less than the real one, and nothing of the
// handler's own, perhaps large, memory is kept.
func TestEndingIsItsOwn(t *testing.T) {
	d := longestEnding(0)
	e := newEnding(d)
	if len(e.verdict.text) > keptText || e.verdict.outcome != messages.Failed || *e.verdict.usage != *d.verdict.usage {
		t.Errorf("kept %+v", e)
	}
	if unsafe.StringData(e.verdict.usage.Provider) == unsafe.StringData(d.verdict.usage.Provider) {
		t.Error("a string of the handler's is kept")
	}
	real := int(unsafe.Sizeof(e)) + len(e.verdict.text) + int(unsafe.Sizeof(*e.verdict.usage)) + 2*maxUsageName
	if got := e.size(); got < real {
		t.Errorf("counted as %d bytes, takes %d", got, real)
	}
}

// An agent that runs for years keeps nothing of a task whose handler came back after
// its result was confirmed.
func TestNothingIsKeptOfAHungHandler(t *testing.T) {
	w, err := newWorker(t.Context(), Config{Slots: 1, Logger: slog.New(slog.DiscardHandler)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &dispatch{key: "t.1", names: messages.TaskResult{TaskID: "t", DispatchID: "t.1"}, task: &Task{}, running: true,
		verdict: &verdict{}}
	w.enter(d)
	w.runs["t"], w.running[d] = d, struct{}{}
	w.finish(d, false)
	if w.runs["t"] != d {
		t.Error("its task could be begun beside it")
	}
	w.returned(d, verdict{})
	if n := len(w.runs) + len(w.running) + len(w.open) + len(w.numbered); n != 0 {
		t.Errorf("%d entries are left: %+v", n, w.runs)
	}
}

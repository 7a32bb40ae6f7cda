package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The targets.
const (
	targetExtraCPU  = 20.0 // µs per task beyond the relay's
	targetRate      = 0.50 // of the relay's
	targetBareRate  = 0.60 // likewise, without the journal
	targetLatency   = 2.0  // times the relay's, p50 and p99
	targetDecisions = 500_000.0
	targetFleet     = 100 // agents at which targetDecisions holds
	targetMemory    = 64 << 20
	growthFrom      = 100     // agents
	growthTo        = 100_000 // agents
	growthAgents    = growthTo / growthFrom
	passed, missed  = "PASS", "MISSED"
	notMeasured     = "not measured"
	noTarget        = "–"
)

// results is everything measured, as it stands in the JSON file.
type results struct {
	Started    time.Time       `json:"started"`
	Machine    machine         `json:"machine"`
	Verdicts   []verdict       `json:"verdicts"`
	Throughput []throughputRun `json:"throughput"`
	Latency    []latencyRun    `json:"latency"`
	Memory     memoryResult    `json:"memory"`
	Results    []resultsRun    `json:"results"`
	Cycle      []cycleRun      `json:"cycle"`
	Burst      burstRun        `json:"burst"`
	Market     marketResult    `json:"market"`
	Pull       []pullRun       `json:"pull"`
	Quotas     []throughputRun `json:"quotas"`
	// QuotasWaiting is likewise where tasks wait, QuotasEngine of the engine alone, QuotasCheck
	// of one check of all limits.
	QuotasWaiting []quotaWaitRun  `json:"quotas_waiting"`
	QuotasEngine  []engineRun     `json:"quotas_engine"`
	QuotasCheck   []engineRun     `json:"quotas_check"`
	Calls         []callRun       `json:"calls"`
	Beside        besideResult    `json:"beside"`
	Detection     detectionResult `json:"detection"`
	Looks         looksResult     `json:"looks"`
	Standby       standbyResult   `json:"standby"`
	Start         startResult     `json:"start"`
	Window        windowResult    `json:"dedupe_window"`
	Engine        []engineRun     `json:"engine"`
	Choosing      []engineRun     `json:"choosing"`
	// Fault is why the run is not complete; empty when it is.
	Fault string `json:"fault,omitempty"`
}

// machine is what the figures depend on.
type machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Go      string `json:"go"`
	Broker  string `json:"rabbitmq"`
	LoadAvg string `json:"load_average"` // when the run began
}

func describeMachine(broker string) machine {
	m := machine{CPU: "unknown CPU", Cores: runtime.NumCPU(), Go: runtime.Version(), Broker: broker}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.LoadAvg, _, _ = strings.Cut(string(data), " ")
	}
	return m
}

// verdict holds one target against its result.
type verdict struct {
	What   string `json:"what"`
	Target string `json:"target"`
	Result string `json:"result"`
	Word   string `json:"verdict"`
	Note   string `json:"note,omitempty"`
}

// judge makes the verdicts. A target without a measurement says so.
func (r *results) judge() {
	r.Verdicts = append([]verdict{
		r.judgeCPU("taskbus"), r.judgeRate("taskbus"),
		r.judgeLatency("p50", func(l latencyRun) float64 { return l.P50Millis }),
		r.judgeLatency("p99", func(l latencyRun) float64 { return l.P99Millis }),
		r.judgeMemory(), r.judgeDecisions(), r.judgeGrowth(),
	}, slices.Concat(r.judgeChoosing(), r.judgeLoop(), []verdict{r.judgeBurst()}, r.judgeMarket(), r.judgeAllQuotas(), r.judgeCalls(), r.judgeJournal())...)
}

func (v verdict) measured(good bool, result, note string) verdict {
	v.Result, v.Note, v.Word = result, note, missed
	if good {
		v.Word = passed
	}
	return v
}

// of picks one figure of every run of a subject.
func throughputOf(runs []throughputRun, subject string, f func(throughputRun) float64) []float64 {
	return collect(slices.DeleteFunc(slices.Clone(runs), func(t throughputRun) bool { return t.Subject != subject }), f)
}

func latencyOf(runs []latencyRun, subject string, f func(latencyRun) float64) []float64 {
	return collect(slices.DeleteFunc(slices.Clone(runs), func(t latencyRun) bool { return t.Subject != subject }), f)
}

// inOtherWays says what is not as usual with a subject.
func inOtherWays(subject string) string {
	switch subject {
	case "taskbus":
		return ""
	case withoutJournal:
		return " without the journal"
	}
	return " with " + subject
}

func (r *results) judgeCPU(subject string) verdict {
	v := verdict{What: "CPU per task, beyond the relay's" + inOtherWays(subject), Target: fmt.Sprintf("≤ %.0f µs", targetExtraCPU), Word: notMeasured}
	cpu := func(t throughputRun) float64 { return t.CPUMicros }
	relay, taskbus := throughputOf(r.Throughput, "relay", cpu), throughputOf(r.Throughput, subject, cpu)
	if len(taskbus) == 0 {
		return v
	}
	extra := median(pairwise(relay, taskbus, func(a, b float64) float64 { return b - a }))
	return v.measured(extra <= targetExtraCPU, fmt.Sprintf("%.1f µs", extra),
		fmt.Sprintf("relay %.1f, taskbus %.1f", median(relay), median(taskbus)))
}

func (r *results) judgeRate(subject string) verdict {
	target := targetRate
	if subject == withoutJournal {
		target = targetBareRate
	}
	v := verdict{What: "throughput, of the relay's" + inOtherWays(subject), Target: fmt.Sprintf("≥ %.2f", target), Word: notMeasured}
	rate := func(t throughputRun) float64 { return t.TasksPerSec }
	relay, taskbus := throughputOf(r.Throughput, "relay", rate), throughputOf(r.Throughput, subject, rate)
	if len(taskbus) == 0 {
		return v
	}
	ratios := pairwise(relay, taskbus, func(a, b float64) float64 { return b / a })
	ratio := median(ratios)
	return v.measured(ratio >= target, fmt.Sprintf("%.2f", ratio),
		fmt.Sprintf("relay %.0f/s, taskbus %.0f/s; pairs %.2f", median(relay), median(taskbus), ratios))
}

func (r *results) judgeLatency(name string, f func(latencyRun) float64) verdict {
	v := verdict{What: fmt.Sprintf("%s at %d tasks/s, of the relay's", name, latencyRate), Target: fmt.Sprintf("≤ %.1f×", targetLatency), Word: notMeasured}
	relay, taskbus := latencyOf(r.Latency, "relay", f), latencyOf(r.Latency, "taskbus", f)
	if len(taskbus) == 0 {
		return v
	}
	ratio := median(taskbus) / median(relay)
	return v.measured(ratio <= targetLatency, fmt.Sprintf("%.2f×", ratio),
		fmt.Sprintf("relay %.2f ms, taskbus %.2f ms", median(relay), median(taskbus)))
}

func (r *results) judgeMemory() verdict {
	v := verdict{What: fmt.Sprintf("resident, %d agents, %d in flight", fleetSize, memoryTasks), Target: fmt.Sprintf("≤ %d MiB", targetMemory>>20), Word: notMeasured}
	m := r.Memory
	if m.RSSBytes == 0 || m.WaitingRSSBytes == 0 {
		return v
	}
	return v.measured(m.RSSBytes <= targetMemory, fmt.Sprintf("%.1f MiB", mebibytes(m.RSSBytes)),
		fmt.Sprintf("%.1f MiB with %d more waiting", mebibytes(m.WaitingRSSBytes), m.InFlight))
}

func (r *results) judgeDecisions() verdict {
	v := verdict{What: fmt.Sprintf("engine, decisions at %d agents", targetFleet), Target: fmt.Sprintf("≥ %.0f/s", targetDecisions), Word: notMeasured}
	e, ok := r.engineAt(targetFleet)
	if !ok {
		return v
	}
	return v.measured(e.DecisionsPerSec >= targetDecisions, fmt.Sprintf("%.0f/s", e.DecisionsPerSec),
		fmt.Sprintf("%.0f ns, %.0f B, %.0f allocations", e.NanosPerOp, e.BytesPerOp, e.AllocsPerOp))
}

func (r *results) judgeGrowth() verdict {
	v := verdict{What: fmt.Sprintf("engine, time from %d to %d agents", growthFrom, growthTo), Target: fmt.Sprintf("< %d×", growthAgents), Word: notMeasured}
	from, ok := r.engineAt(growthFrom)
	to, ok2 := r.engineAt(growthTo)
	if !ok || !ok2 {
		return v
	}
	growth := from.DecisionsPerSec / to.DecisionsPerSec
	return v.measured(growth < growthAgents, fmt.Sprintf("%.1f×", growth), fmt.Sprintf("%.0f decisions/s at %d agents", to.DecisionsPerSec, growthTo))
}

// engineAt is the median run among those with that many agents.
func (r *results) engineAt(agents int) (engineRun, bool) {
	return medianOf(r.Engine, func(e engineRun) bool { return e.Agents == agents })
}

// medianOf is the median run by time among those wanted, the slower of the middle
// two.
func medianOf(all []engineRun, wanted func(engineRun) bool) (engineRun, bool) {
	runs := slices.DeleteFunc(slices.Clone(all), func(e engineRun) bool { return !wanted(e) })
	if len(runs) == 0 {
		return engineRun{}, false
	}
	slices.SortFunc(runs, func(a, b engineRun) int { return cmp.Compare(a.DecisionsPerSec, b.DecisionsPerSec) })
	return runs[(len(runs)-1)/2], true
}

// pairwise combines the runs that were made side by side.
func pairwise(a, b []float64, f func(a, b float64) float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = f(a[i], b[i])
	}
	return out
}

// arrivals says, of a run without a fault, how the tasks arrived.
func (r *results) arrivals() string {
	if r.Standby.Twice == 0 {
		return "Every task of every run arrived exactly once."
	}
	return fmt.Sprintf("Every task of every run arrived, and exactly once but for %d around the kill of a coordinator.", r.Standby.Twice)
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

func (r *results) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// print writes the table.
func (r *results) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nwhat\ttarget\tresult\t\t\n")
	for _, v := range r.Verdicts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", v.What, v.Target, v.Result, v.Word, v.Note)
	}
	fmt.Fprintf(t, "\n")
	for _, e := range r.Engine {
		fmt.Fprintf(t, "%s\t%.0f decisions/s\t%.0f ns\t%.0f B\t%.0f allocs\n", e.Name, e.DecisionsPerSec, e.NanosPerOp, e.BytesPerOp, e.AllocsPerOp)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the results: %w", err)
	}
	m := r.Machine
	_, err := fmt.Fprintf(w, "\n%s, %d cores shared with the broker and the generators, load %s at the start; %s, RabbitMQ %s; %s\n",
		m.CPU, m.Cores, m.LoadAvg, m.Go, m.Broker, r.Started.Format(time.DateTime+" MST"))
	if err == nil && r.Fault == "" {
		_, err = fmt.Fprintln(w, r.arrivals())
	}
	return err
}

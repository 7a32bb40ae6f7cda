package fairshare_test

import (
	"container/heap"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/simulator"
)

// The columns of the table in algorithms.md 1.3: how two tenants that never run out of
// requests are served by one provider with 32 slots. Costs are input + 2·output tokens; an
// input token takes 0.2 ms, an output token 25 ms.
const (
	traceSlots  = 32
	traceInput  = 200 * time.Microsecond
	traceOutput = 25 * time.Millisecond
)

// policy is who goes next, and what a call is charged when it is dispatched (0: nothing).
type policy struct {
	name string
	// roundRobin goes by requests, and not by shares.
	roundRobin bool
	// estimate of a request of which the input is known, and the mean output of those of its
	// tenant that were settled.
	estimate func(input, mean int64) int64
}

var policies = []policy{
	{name: "request round-robin", roundRobin: true},
	{name: "charge only at finish", estimate: func(int64, int64) int64 { return 1 }},
	{name: "reserve 4,096 tokens of output, settle", estimate: func(in, _ int64) int64 { return in + 2*4096 }},
	{name: "reserve input only, settle", estimate: func(in, _ int64) int64 { return in }},
	{name: "reserve input + mean output, settle", estimate: func(in, mean int64) int64 { return in + 2*mean }},
}

func azure(t *testing.T, name string) []simulator.Request {
	t.Helper()
	file, err := os.Open(filepath.Join("../../../shared/traces", simulator.TraceFile(name)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the Azure traces are not there (see ../shared/traces/README.md): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	requests, err := simulator.ReadTrace(file)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

// tenant is one of the two.
type tenant struct {
	requests []simulator.Request
	next     int
	weight   int64
	leaf     int
	// served is what was dispatched, at what it cost in the end; dearest the most that a call
	// cost or was charged; mostOpen how many were open at a time.
	served, dearest, open, mostOpen int64
	settled, outputs                int64
}

// traceCall is one that runs.
type traceCall struct {
	ends              time.Duration
	tenant            *tenant
	estimated, actual int64
	output            int64
}

type running []traceCall

func (r running) Len() int           { return len(r) }
func (r running) Less(i, j int) bool { return r[i].ends < r[j].ends }
func (r running) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *running) Push(x any)        { *r = append(*r, x.(traceCall)) }
func (r *running) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// serve both until one has no more, and tell the largest gap between what they were
// served by weight, with the bound of the theorem.
func serve(t *testing.T, p policy, code, conv []simulator.Request, weights [2]int64) (gap, bound float64, took time.Duration) {
	s := fairshare.NewShares()
	if err := s.Install([]fairshare.ShareNode{
		{Name: "code", Parent: -1, Weight: weights[0]}, {Name: "conv", Parent: -1, Weight: weights[1]},
	}, 0); err != nil {
		t.Fatal(err)
	}
	b := fairshare.NewBacklog(s, func(a, b int) bool { return a < b }, func(int, int) {})
	both := []*tenant{
		{requests: code, weight: weights[0], leaf: s.Leaf("code")},
		{requests: conv, weight: weights[1], leaf: s.Leaf("conv")},
	}
	byLeaf := map[int]*tenant{}
	for _, x := range both {
		byLeaf[x.leaf] = x
		for i := range x.requests {
			b.Push(x.leaf, 0, i)
		}
	}
	var calls running
	for n := 0; ; n++ {
		if len(calls) == traceSlots {
			c := heap.Pop(&calls).(traceCall)
			took = c.ends
			c.tenant.open--
			c.tenant.settled++
			c.tenant.outputs += c.output
			s.Correct(c.tenant.leaf, c.estimated, c.actual)
		}
		x := both[n%2]
		if !p.roundRobin {
			head, _ := b.First(0)
			x = byLeaf[head.Leaf]
		}
		r := x.requests[x.next]
		input, output := int64(r.Input), int64(r.Output)
		c := traceCall{ends: took + time.Duration(input)*traceInput + time.Duration(output)*traceOutput, tenant: x, actual: input + 2*output, output: output}
		if !p.roundRobin {
			c.estimated = max(p.estimate(input, x.outputs/max(x.settled, 1)), 1)
		}
		s.Charge(x.leaf, c.estimated)
		b.Remove(x.leaf, 0, 0)
		heap.Push(&calls, c)
		x.next++
		x.open++
		x.mostOpen = max(x.mostOpen, x.open)
		x.served += c.actual
		x.dearest = max(x.dearest, c.actual, c.estimated)

		now := float64(both[0].served)/float64(weights[0]) - float64(both[1].served)/float64(weights[1])
		gap = max(gap, now, -now)
		if x.next == len(x.requests) {
			break
		}
	}
	for _, x := range both {
		bound += float64(x.mostOpen*x.dearest) / float64(x.weight)
	}
	return gap, bound, took
}

// TestServiceGap is algorithms.md 1.3 with the Azure traces: how far apart two tenants' service
// by weight comes while both wait.
func TestServiceGap(t *testing.T) {
	code, conv := azure(t, "azure-code"), azure(t, "azure-conv")
	for _, weights := range [][2]int64{{1, 1}, {3, 1}} {
		gaps := map[string]float64{}
		for _, p := range policies {
			gap, bound, took := serve(t, p, code, conv, weights)
			gaps[p.name] = gap
			t.Logf("%d:1  %-40s gap %10.0f  bound %10.0f  after %v", weights[0], p.name, gap, bound, took.Round(time.Second))
			if !p.roundRobin && gap > bound {
				t.Errorf("%s at %d:1: a gap of %.0f is beyond the bound of %.0f", p.name, weights[0], gap, bound)
			}
			if p.roundRobin && gap < bound {
				t.Errorf("the gap of round-robin, %.0f, does not grow", gap)
			}
		}
		robin, finish, reserve, input, mean := gaps[policies[0].name], gaps[policies[1].name], gaps[policies[2].name], gaps[policies[3].name], gaps[policies[4].name]
		if !(mean < input && input < finish && finish < reserve && 10*reserve < robin) {
			t.Errorf("at %d:1 the order of policies is not: the mean, the input, charging at the end, reserving the most, turns by request", weights[0])
		}
	}
}

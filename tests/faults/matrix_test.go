package faults

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

// cell is one fault in the middle of the work.
type cell struct {
	name string
	// short: part of the short form.
	short bool
	// config is its agents.yaml; empty: quartet.
	config string
	// holds are the promises that are checked after the drain.
	holds []invariant
	// play lets work go on, lets the fault strike, proves that it has (rig.struck,
	// during, proven), and takes it back. It leaves a coordinator that takes tasks.
	play func(r *rig)
}

// quartet is the fleet of most cells: four agents with five slots.
var quartet = fleet(4, 5)

// The matrix. Cells in a virtual host of their own run side by side; those that do
// something to a whole node have one for all of them and run one after the other.
var (
	hostCells = concat(processCells, networkCells, brokerCells, messageCells, fleetCells, configCells, failpointCells(),
		laneCells(), edgeCells)
	nodeCells = concat(outageCells, alarmCells)
)

func concat(groups ...[]cell) (all []cell) {
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	runCells(t, nil, hostCells, true)
}

func TestMatrixOfNodes(t *testing.T) {
	t.Parallel()
	groups := [][]cell{outageCells, alarmCells}
	if !*wholeMatrix {
		groups = [][]cell{nodeCells} // one node is enough for a few
	}
	for i, cells := range groups {
		t.Run(fmt.Sprint("node ", i+1), func(t *testing.T) {
			t.Parallel()
			node := brokertest.Private(t, brokertest.Options{})
			runCells(t, node, cells, false)
		})
	}
}

// runCells runs those that the flags ask for.
func runCells(t *testing.T, node *brokertest.Node, cells []cell, sideBySide bool) {
	t.Helper()
	seen, ran := map[string]bool{}, 0
	for _, c := range cells {
		if seen[c.name] {
			t.Errorf("two cells are called %s", c.name)
		}
		seen[c.name] = true
		if !c.short && !*wholeMatrix {
			continue
		}
		ran++
		t.Run(c.name, func(t *testing.T) {
			if sideBySide {
				t.Parallel()
			}
			c.run(t, node)
		})
	}
	t.Logf("%d of %d cells; -faults.all runs all", ran, len(cells))
}

// run is one cell from start to verdict.
func (c cell) run(t *testing.T, node *brokertest.Node) {
	config := c.config
	if config == "" {
		config = quartet
	}
	begun := time.Now()
	r := newRig(t, node, config, cellSeed(c.name))
	t.Cleanup(func() { c.report(r, begun) })
	r.book.collect()
	c.play(r)
	if len(r.strikes) == 0 {
		t.Errorf("no fault was proven to have fired")
	}
	r.drain()
	r.verdict(c.holds)
}

// cellSeed makes of the seed of the run one of the cell, so that a cell alone does the
// same as among the others.
func cellSeed(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails (hash.Hash)
	return *seed ^ h.Sum64()
}

// verdict checks the promises and says, for each that is broken, what was seen.
func (r *rig) verdict(holds []invariant) {
	r.t.Helper()
	const most = 5
	for _, i := range holds {
		broken := i.check(r)
		if len(broken) == 0 {
			continue
		}
		r.t.Errorf("%s (%s) is broken %d times:\n  %s", i.name, i.says, len(broken),
			strings.Join(broken[:min(len(broken), most)], "\n  "))
	}
}

// whereabouts says where tasks without an end were last seen: what the queues hold, and what the journal
// has of the first of them.
func (r *rig) whereabouts(open []string) {
	if len(open) == 0 {
		return
	}
	r.t.Logf("queues:\n%s", r.broker.Ctl(r.t, "list_queues", "-p", r.broker.VHost, "name", "messages_ready",
		"messages_unacknowledged", "consumers"))
	path, err := programs.plain()
	if err != nil {
		return // it has been said why there is none
	}
	for _, id := range open[:min(len(open), 3)] {
		show := exec.Command(path, "journal", "show", id)
		show.Env = append(os.Environ(), "RABBITMQ_URL="+r.broker.URL)
		out, err := show.CombinedOutput()
		r.t.Logf("the journal of %s (%v):\n%s", id, err, out)
	}
}

// report says what the cell was made of, to repeat it.
func (c cell) report(r *rig, begun time.Time) {
	open, confirmed := r.book.open()
	duplicated, recovered := r.duplicated()
	var faults []string
	r.mu.Lock()
	for i, s := range r.strikes {
		if i == 10 {
			faults = append(faults, fmt.Sprintf("… %d in all", len(r.strikes)))
			break
		}
		faults = append(faults, fmt.Sprintf("%s (fired %d)", s.what, s.fired))
	}
	spoken := strings.Join(r.spoken, "; ")
	r.mu.Unlock()
	wire := r.trace.Counts()
	r.t.Logf(
		"%v, seed %d: %d tasks confirmed, %d without an end, %d duplicated, %d recovered; %d coordinators, %d connections,"+
			" %d tasks delivered, %d acked; faults: %s. %s",
		time.Since(begun).Round(100*time.Millisecond), r.seed, confirmed, len(open), duplicated, recovered,
		len(r.processes), wire.Connections, wire.Delivered, wire.Acked, strings.Join(faults, ", "), spoken)
	if r.t.Failed() {
		r.whereabouts(open)
		names := make([]string, len(c.holds))
		for i, h := range c.holds {
			names[i] = h.name
		}
		r.t.Logf("checked: %s\nagents.yaml was:\n%s", strings.Join(names, ", "), configOf(c))
	}
}

func configOf(c cell) string {
	if c.config == "" {
		return quartet
	}
	return c.config
}

package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

// leadersAreKilled kills one leader after the other under load, and starts a new
// standby each time.
func leadersAreKilled(t *testing.T) {
	vhost := brokertest.Vhost(t)
	r := newRig(t, vhost.URL)
	leader := r.launch("coordinator 1", r.url)
	leader.awaitState("active")
	standby := r.launch("coordinator 2", r.url)
	standby.awaitState("standby")
	r.hire().letGo()
	online(leader)
	l := r.load("t", 300)
	begun(r)
	before := look(vhost, leader)

	readies, dispatches := make([]time.Duration, *takeOvers), make([]time.Duration, *takeOvers)
	for i := range *takeOvers {
		if leader.metric("taskbus_leading") != 1 || standby.metric("taskbus_leading") != 0 {
			t.Fatalf("take-over %d: %s should lead, and %s not", i+1, leader.name, standby.name)
		}
		died := leader.kill()
		readies[i], dispatches[i] = standby.takeOver(died)
		leader, standby = standby, r.launch(fmt.Sprint("coordinator ", i+3), r.url)
		standby.awaitState("standby")
		leader.awaitDispatches(100)
	}
	t.Logf("/readyz 200 after %s; first dispatch after %s", spread(readies), spread(dispatches))
	if worst := slices.Max(dispatches); median(readies) > takeOverWithin || median(dispatches) > takeOverWithin ||
		worst > 5*takeOverWithin {
		t.Errorf("want the median within %v, and all within %v", takeOverWithin, 5*takeOverWithin)
	}
	after := look(vhost, leader)
	l.finish()
	r.drained()
	r.conclude(leader, *takeOvers+1)

	t.Logf("before: %+v", before)
	t.Logf("after:  %+v", after)
	// Each of these is the same after one take-over and after a hundred; a few more or
	// less are what happens to be open at the moment.
	if after.queues != before.queues {
		t.Errorf("%d queues, there were %d", after.queues, before.queues)
	}
	if after.connections > before.connections+4 || after.consumers > before.consumers+4 ||
		after.goroutines > before.goroutines+20 {
		t.Error("connections, consumers or goroutines have become more")
	}
	// The memory of ids grows with the tasks, and is bounded (dedupe.max_ids).
	if most := before.memory*2 + 64<<20; after.memory > most {
		t.Errorf("the leader has %d MiB, the first had %d MiB", after.memory>>20, before.memory>>20)
	}
}

// size is what could grow with the number of take-overs.
type size struct {
	queues, connections, consumers, goroutines int
	memory                                     int64
}

func look(vhost brokertest.Broker, leader *process) size {
	leader.r.t.Helper()
	count := func(of string, what ...string) int {
		return strings.Count(vhost.Ctl(leader.r.t, append([]string{"-q", "--no-table-headers"}, what...)...), of)
	}
	return size{
		queues: count("\n", "-p", vhost.VHost, "list_queues", "name"),
		// Of all virtual hosts, with the name of theirs.
		connections: count(vhost.VHost+"\n", "list_connections", "vhost"),
		consumers:   count("\n", "-p", vhost.VHost, "list_consumers", "queue_name"),
		goroutines:  int(leader.metric("go_goroutines")), memory: leader.memory(),
	}
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func spread(all []time.Duration) string {
	return fmt.Sprintf("%v (median of %d, %v to %v)", median(all).Round(time.Millisecond), len(all),
		slices.Min(all).Round(time.Millisecond), slices.Max(all).Round(time.Millisecond))
}

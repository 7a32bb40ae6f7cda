package failover

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// nodeTakeOver bounds a take-over after the loss of the leader's node. The cluster has to
// elect new leaders for its queues and streams, too; it may answer 541 INTERNAL_ERROR
// while it does, and then the coordinator tries again after a pause of at most 15 s.
const nodeTakeOver = 20 * time.Second

// TestTakeOverOnACluster takes nodes away. The tests of minutes have a cluster each.
func TestTakeOverOnACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	t.Run("the node of the leader is lost", func(t *testing.T) { nodeOfTheLeaderIsLost(t, nodes.in(t)) })
	t.Run("a channel begins while a node is lost", func(t *testing.T) {
		nodes := nodes.in(t)
		nodes.start(2) // lost in the test before
		channelBeginsWhileANodeIsLost(t, nodes)
	})
	if *long {
		t.Run("the node of the queues is lost", nodeOfTheQueuesIsLost)
		t.Run("nodes are upgraded and lost", nodesAreUpgradedAndLost)
	}
}

// nodeOfTheLeaderIsLost kills the RabbitMQ node that the leader is connected to, on
// which the leaders of all queues and streams are as well, because that is where they
// were declared. The other coordinator is connected to another node; agents and
// producers to the third. The second node is away in the end.
func nodeOfTheLeaderIsLost(t *testing.T, nodes *cluster) {
	r := newRig(t, nodes.urls[3])
	first := r.launch("the one on node 1", nodes.urls[1])
	first.awaitState("active")
	second := r.launch("the one on node 2", nodes.urls[2])
	second.awaitState("standby")
	k := r.hire()
	online(first)
	r.offer(task("held", "keep"))
	l := r.load("t", 150)
	begun(r)
	replicated(t, nodes, 3)

	died := nodes.kill(1)
	ready, dispatched := second.takeOver(died)
	t.Logf("after SIGKILL of the leader's node: /readyz 200 after %v, first dispatch after %v",
		ready.Round(time.Millisecond), dispatched.Round(time.Millisecond))
	if ready > nodeTakeOver || dispatched > nodeTakeOver {
		t.Errorf("want both within %v", nodeTakeOver)
	}
	if n := second.agent("keeper").Leased; n != 1 {
		t.Errorf("%d leases of keeper, want 1", n)
	}
	first.awaitState("connecting") // it lives, and goes on trying
	second.awaitDispatches(100)
	nodes.start(1)
	back := time.Now()
	first.awaitState("standby")
	t.Logf("standby %v after its node was back", time.Since(back).Round(time.Millisecond))
	awaitReplicas(r, nodes)

	// Now the other way round: the node that was away has caught up, and serves.
	died = nodes.kill(2)
	ready, dispatched = first.takeOver(died)
	t.Logf("after SIGKILL of the other node: /readyz 200 after %v, first dispatch after %v", ready.Round(time.Millisecond),
		dispatched.Round(time.Millisecond))
	if ready > nodeTakeOver || dispatched > nodeTakeOver {
		t.Errorf("want both within %v", nodeTakeOver)
	}
	first.awaitDispatches(100)
	k.letGo()
	l.finish()
	r.drained()
	if e := r.book.look("held"); len(e.done) != 1 || len(e.ends) == 0 || e.ends[0].what != "succeeded" {
		t.Errorf("what was held through both: %+v", e)
	}
	// A cluster that loses a node may end another session with an error of its own, just as that begins to lead.
	epochs := int(first.status().Leader.Epoch)
	if epochs < 3 {
		t.Errorf("epoch %d, want the third at least", epochs)
	}
	r.conclude(first, epochs)
}

// nodeOfTheQueuesIsLost kills the node with the leaders of all queues and streams, to
// which no client is connected: the leader's connections live, and it has to live with
// what the broker does not answer.
func nodeOfTheQueuesIsLost(t *testing.T) {
	nodes := startCluster(t)
	r := newRig(t, nodes.urls[3])
	declares := r.launch("the one on node 1", nodes.urls[1])
	declares.awaitState("active")
	declares.signal(syscall.SIGTERM)
	if code := declares.wait(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	leader := r.launch("the one on node 2", nodes.urls[2])
	leader.awaitState("active")
	r.hire().letGo()
	online(leader)
	l := r.load("t", 150)
	begun(r)
	sessions := leader.status().Broker.Sessions
	died := nodes.kill(1)
	gone := time.Now()
	var first time.Time
	r.eventually(2*patience, "a task arrives that was decided after the fault", func() (bool, string) {
		first = r.book.firstAfter(gone)
		return !first.IsZero(), "none yet"
	})
	t.Logf("the node of the queues was killed: the next dispatch came after %v", first.Sub(died).Round(time.Millisecond))
	leader.awaitDispatches(500)
	if n := leader.status().Broker.Sessions; n != sessions {
		t.Errorf("%d sessions, %d before: the leader was not connected to that node", n, sessions)
	}
	l.finish()
	r.drained()
	r.conclude(leader, int(leader.status().Leader.Epoch))
}

// channelBeginsWhileANodeIsLost: a client that publishes to a queue for the first time while the
// queue's leader is lost gets through. RabbitMQ 3.10 refuses everything for that queue on
// the channel that came too early, for as long as it lives (see package amqpbus).
func channelBeginsWhileANodeIsLost(t *testing.T, nodes *cluster) {
	queue := bus.Queue{Name: "q", Kind: bus.Quorum, DeliveryLimit: 10}
	declares, err := amqpbus.New(amqpbus.Config{URL: nodes.urls[1]}).Open(t.Context(), bus.SessionSpec{
		Name: "declares", Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{queue}}})
	if err != nil {
		t.Fatal(err)
	}
	defer declares.Close(context.WithoutCancel(t.Context()))
	if got := nodes.replicas(3)[queue.Name]; got != "quorum 3/3" {
		t.Fatalf("the queue is replicated as %q", got)
	}
	const publishers, apart = 40, 20 * time.Millisecond
	type newcomer struct {
		bus.Session
		answers chan bus.Outcome
	}
	var all [publishers]newcomer
	for i := range all {
		answers := make(chan bus.Outcome, 1)
		s, err := amqpbus.New(amqpbus.Config{URL: nodes.urls[2]}).Open(t.Context(), bus.SessionSpec{
			Name: "newcomer", Topology: bus.Topology{Mode: bus.Off}, OnSettled: func(_ uint64, o bus.Outcome) { answers <- o }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.WithoutCancel(t.Context()))
		all[i] = newcomer{s, answers}
	}
	died := make(chan struct{})
	go func() {
		nodes.kill(1)
		close(died)
	}()
	var refused, through atomic.Int32
	var publishing sync.WaitGroup
	for _, one := range all {
		publishing.Go(func() {
			for began := time.Now(); time.Since(began) < nodeTakeOver; time.Sleep(200 * time.Millisecond) {
				if err := one.Publish(bus.Publication{Key: queue.Name, Body: []byte("{}")}); err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				if <-one.answers == bus.Confirmed {
					through.Add(1)
					return
				}
				refused.Add(1)
			}
		})
		time.Sleep(apart)
	}
	publishing.Wait()
	<-died
	t.Logf("%d refusals; %d of %d got through", refused.Load(), through.Load(), publishers)
	if through.Load() != publishers {
		t.Errorf("only %d of %d got through within %v", through.Load(), publishers, nodeTakeOver)
	}
}

// nodesAreUpgradedAndLost takes a cluster through what its operators do to it, and
// what may happen then: the nodes of both coordinators are stopped in order and started
// again, as in an upgrade; then both are lost at once, so that the third stops serving,
// and nothing works until they are back.
func nodesAreUpgradedAndLost(t *testing.T) {
	nodes := startCluster(t)
	r := newRig(t, nodes.urls[3])
	r.agentsLived = false // theirs is the third node
	r.configure(strings.Replace(fleet, "assignment_timeout_seconds: 5", "assignment_timeout_seconds: 60", 1))
	all := []*process{r.launch("the one on node 1", nodes.urls[1])}
	all[0].awaitState("active")
	all = append(all, r.launch("the one on node 2", nodes.urls[2]))
	all[1].awaitState("standby")
	r.hire().letGo()
	online(all[0])
	l := r.load("t", 100)
	begun(r)
	for node := 1; node <= 2; node++ {
		nodes.script("stop-node", fmt.Sprint(node))
		began := time.Now()
		leader := whoLeads(r, all)
		leader.awaitDispatches(100)
		t.Logf("node %d stopped: 100 tasks more were dispatched by %s after %v", node, leader.name,
			time.Since(began).Round(time.Millisecond))
		nodes.start(node)
		awaitReplicas(r, nodes)
	}
	nodes.kill(1)
	nodes.kill(2)
	for _, c := range all {
		c.awaitState("connecting")
	}
	nodes.startAll()
	began := time.Now()
	leader := whoLeads(r, all)
	leader.awaitDispatches(100)
	t.Logf("two of three nodes were lost: 100 tasks more were dispatched %v after they were back",
		time.Since(began).Round(time.Millisecond))
	l.finish()
	r.drained()
	leader = whoLeads(r, all)
	r.conclude(leader, int(leader.status().Leader.Epoch))
}

// whoLeads waits until one of the coordinators leads.
func whoLeads(r *rig, all []*process) (leader *process) {
	r.t.Helper()
	r.eventually(2*patience, "somebody leads", func() (bool, string) {
		seen := ""
		for _, c := range all {
			code, body := c.get("/readyz")
			if code == http.StatusOK {
				leader = c
				return true, ""
			}
			seen += body
		}
		return false, seen
	})
	return leader
}

// replicated checks that every queue and stream that is to survive has a running
// replica on each node.
func replicated(t *testing.T, nodes *cluster, via int) {
	t.Helper()
	all := nodes.replicas(via)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if got := all[name]; got != "quorum 3/3" && got != "stream 3/3" {
			t.Errorf("%s is replicated as %s", name, got)
		}
	}
	if len(all) < 15 {
		t.Errorf("only %d queues and streams are replicated: %v", len(all), all)
	}
}

// awaitReplicas waits until all replicas run again.
func awaitReplicas(r *rig, nodes *cluster) {
	r.t.Helper()
	r.eventually(patience, "every queue and stream runs on three nodes", func() (bool, string) {
		missing := ""
		for name, got := range nodes.replicas(3) {
			if got != "quorum 3/3" && got != "stream 3/3" {
				missing += fmt.Sprintf("%s %s; ", name, got)
			}
		}
		return missing == "", missing
	})
}

package failover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

// clusterTimeout is how long a cluster may take to start or stop.
const clusterTimeout = 3 * time.Minute

// cluster is three RabbitMQ nodes, as one test has them.
type cluster struct {
	t    *testing.T
	dir  string
	urls []string // of node 1, 2, 3, at 1, 2, 3
}

// startCluster starts one, which ends with the test.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	brokertest.Needs(t, "a cluster of brokers")
	c := &cluster{t: t, dir: filepath.Join(t.TempDir(), "cluster"), urls: make([]string, 4)}
	t.Cleanup(func() { c.script("stop") })
	c.script("start", "--until-gone", strconv.Itoa(os.Getpid()))
	for line := range strings.Lines(c.script("env")) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if number, ok := strings.CutPrefix(name, "TASKBUS_TEST_CLUSTER_URL_"); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n >= len(c.urls) {
				t.Fatalf("scripts/cluster.sh env names a node %q", number)
			}
			c.urls[n] = value
		}
	}
	return c
}

// in is the same cluster for a subtest.
func (c *cluster) in(t *testing.T) *cluster { return &cluster{t: t, dir: c.dir, urls: c.urls} }

// kill ends a node as a crash would, and tells when it began to.
func (c *cluster) kill(node int) (at time.Time) {
	c.t.Helper()
	at = time.Now()
	c.script("kill-node", strconv.Itoa(node))
	return at
}

// start starts a node again and waits until it is ready.
func (c *cluster) start(node int) { c.t.Helper(); c.script("start-node", strconv.Itoa(node)) }

// startAll starts every node that does not run. Two that were lost at once wait for each
// other.
func (c *cluster) startAll() { c.t.Helper(); c.script("start") }

// replicas are how many members each queue and stream has, and how many of them run,
// as one of the nodes says. Queues that are not replicated are left out.
func (c *cluster) replicas(node int) map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(c.script("ctl", strconv.Itoa(node), "-q", "--no-table-headers", "list_queues", "name",
		"type", "members", "online")) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 && f[1] != "classic" {
			all[f[0]] = fmt.Sprintf("%s %d/%d", f[1], strings.Count(f[3], "@"), strings.Count(f[2], "@"))
		}
	}
	return all
}

// script runs scripts/cluster.sh and returns what it printed on stdout.
func (c *cluster) script(verb string, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	all := append([]string{verb, "--dir", c.dir}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "cluster.sh"), all...)
	cmd.WaitDelay = 5 * time.Second // a node that inherited a pipe of ours must not hang the test
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("scripts/cluster.sh %s: %v\n%s%s", strings.Join(all, " "), err, stderr.String(), stdout.String())
	}
	return stdout.String()
}

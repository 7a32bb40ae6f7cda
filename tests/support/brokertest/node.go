package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nodeTimeout is how long a node may take to start or stop; broker.sh gives up
// earlier by itself.
const nodeTimeout = 2 * time.Minute

// Options of a private node; the zero value is right for most tests.
type Options struct {
	// Conf is appended to the node's rabbitmq.conf.
	Conf string
}

// Node is a RabbitMQ node that belongs to one test. The embedded Broker is its
// virtual host "/".
type Node struct{ Broker }

// Private starts a node of the test's own and removes it when the test ends. A
// start takes about 6 s and a stop as long, and the node takes some 150 MB: use
// it only where a whole broker must stop, die or raise an alarm.
func Private(t testing.TB, opts Options) *Node {
	t.Helper()
	Needs(t, "a broker")
	dir := filepath.Join(t.TempDir(), "broker")
	n := &Node{Broker{VHost: "/", dir: dir}}
	// If this process dies without its cleanups (a test time-out does that), the
	// node must not outlive it.
	args := []string{"--until-gone", strconv.Itoa(os.Getpid())}
	if opts.Conf != "" {
		conf := filepath.Join(t.TempDir(), "extra.conf")
		if err := os.WriteFile(conf, []byte(opts.Conf), 0o600); err != nil {
			t.Fatalf("write the node's configuration: %v", err)
		}
		args = append(args, "--conf", conf)
	}
	t.Cleanup(func() { n.Stop(t) })
	script(t, dir, "start", args...)
	n.readEnvironment(t)
	return n
}

// Stop ends the node in order, as an upgrade would.
func (n *Node) Stop(t testing.TB) { t.Helper(); script(t, n.dir, "stop") }

// Kill9 ends the node at once, as a crash would. It does not cut the power: what
// the kernel has not written to disk yet is not lost. RabbitMQ 3.10.8 registers a
// new quorum queue on disk with a delay of some seconds; one that is killed before
// that answers 541 INTERNAL_ERROR afterwards. A [Node.Restart] after the
// declarations settles them.
func (n *Node) Kill9(t testing.TB) {
	t.Helper()
	script(t, n.dir, "kill")
	n.awaitPorts(t)
}

// awaitPorts waits until the kernel has closed the ports of a node that was killed. Its
// first thread may be gone before the last one is: until then a new start would take
// the ports for those of another program, and choose others.
func (n *Node) awaitPorts(t testing.TB) {
	t.Helper()
	state, err := os.ReadFile(filepath.Join(n.dir, "node"))
	if err != nil {
		t.Fatalf("read the node's ports: %v", err)
	}
	for line := range strings.Lines(string(state)) {
		name, port, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name != "amqp" && name != "mgmt" && name != "dist" || port == "0" {
			continue
		}
		for late := time.Now().Add(patience); ; {
			conn, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
			if err != nil {
				break
			}
			_ = conn.Close()
			if time.Now().After(late) {
				t.Fatalf("the port %s (%s) of the killed node is still open", port, name)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// Start starts the node again, on the same ports and with the same data.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	before := n.URL
	script(t, n.dir, "start", "--until-gone", strconv.Itoa(os.Getpid()))
	n.readEnvironment(t)
	if n.URL != before {
		t.Fatal("another program took one of the node's ports while it was down: run the test again")
	}
}

// Restart stops the node in order and starts it again.
func (n *Node) Restart(t testing.TB) { t.Helper(); n.Stop(t); n.Start(t) }

func (n *Node) readEnvironment(t testing.TB) {
	t.Helper()
	vars := map[string]string{}
	for line := range strings.Lines(script(t, n.dir, "env")) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		vars[name] = value
	}
	n.URL, n.api = vars[EnvAMQP], newAPI(t, vars[EnvMgmt])
	n.Mgmt = n.api.base
}

// script runs scripts/broker.sh and returns what it printed on stdout.
func script(t testing.TB, dir, verb string, args ...string) string {
	t.Helper()
	out, err := tryScript(t, dir, verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tryScript is script for what may fail.
func tryScript(t testing.TB, dir, verb string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	all := append([]string{verb, "--dir", dir}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(ModuleRoot(t), "scripts", "broker.sh"), all...)
	// The node inherits no pipe of ours, but if it did, waiting for its end of
	// file would hang the test.
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("scripts/broker.sh %s: %w\n%s%s", strings.Join(all, " "), err, stderr.String(), stdout.String())
	}
	return stdout.String(), nil
}

// ModuleRoot is the directory of go.mod: tests run in their package's folder.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = fmt.Errorf("no go.mod above it")
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("find the project from the working directory: %w", err)
}

package failover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskbus/agent/quota"
	"taskbus/tests/support/brokertest"
)

// TestClientDoesNotFeelATakeover kills the leader while four programs make ten calls a second each
// with the Go client. The standby hangs then for 3 s, so that none answers for as long. Leases are
// of 128 calls for 10 s: when the leader dies, 64 calls at least are left, and 9 − 10/3 = 5.7 s; 3.5 s
// need 35. No call fails or waits, each is charged once, and nothing stays set aside. It is not
// parallel: the time of a single call is measured, to which other tests on the machine would add.
func TestClientDoesNotFeelATakeover(t *testing.T) {
	const (
		programs = 4
		calls    = 120 // each, 12 s
		tokens   = 10
	)
	r := newRig(t, brokertest.Vhost(t).URL)
	const quotas = "pool: {limits: {total_tokens: {amount: 1000000, per: year}}}\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.config), "quotas.yaml"), []byte(quotas), 0o600); err != nil {
		t.Fatal(err)
	}
	leader := r.launch("the leader", r.url)
	leader.awaitState("active")
	standby := r.launch("the standby", r.url)
	standby.awaitState("standby")

	var longest atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for i := range programs {
		client, err := quota.New(quota.Options{
			URLs: []string{leader.base, standby.base}, Agent: fmt.Sprint("program-", i), Token: gatewayToken,
			Lease: quota.Lease{Calls: 128},
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range calls {
				begun := time.Now()
				pass, err := client.Admit(ctx, quota.Call{Provider: "openai", InputTokens: new(int64(tokens)),
					OutputTokens: new(int64(0))})
				if err != nil {
					t.Errorf("program %d: %v", i, err)
					break
				}
				if d := int64(time.Since(begun)); d > longest.Load() { // roughly: they may cross
					longest.Store(d)
				}
				time.Sleep(100 * time.Millisecond)
				pass.Settle(nil, nil)
			}
			if err := client.Close(ctx); err != nil || client.Stats().Lost > 0 {
				t.Errorf("program %d: %v, %+v", i, err, client.Stats())
			}
		})
	}
	time.Sleep(5 * time.Second)
	killed := time.Now()
	standby.signal(syscall.SIGSTOP)
	leader.kill()
	time.Sleep(3 * time.Second)
	standby.signal(syscall.SIGCONT)
	standby.awaitState("active")
	took := time.Since(killed)
	all.Wait()
	t.Logf("the next one led %v after the kill; the longest wait of a call was %v", took.Round(time.Millisecond),
		time.Duration(longest.Load()).Round(time.Millisecond))
	if d := time.Duration(longest.Load()); d > time.Second {
		t.Errorf("a call waited for %v", d)
	}
	r.eventually(patience, "everything is charged, once", func() (bool, string) {
		p := standby.pool()
		return p.Used == programs*calls*tokens && p.Reserved == 0, fmt.Sprintf("%+v", p)
	})
}

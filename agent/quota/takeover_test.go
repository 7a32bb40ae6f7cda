package quota_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbus/agent/quota"
)

// A take-over of 4 s is not felt by clients that make a call every second or two: no call is refused,
// none waits, and every one is charged once.
func TestTakeoverIsNotFelt(t *testing.T) {
	inRig(t, pool(1_000_000, ""), func(r *rig) {
		var calls atomic.Int64
		var all sync.WaitGroup
		var clients []*quota.Client
		for k := range 4 {
			c := r.client(fmt.Sprint("agent-", k))
			clients = append(clients, c)
			all.Go(func() {
				for range 60 {
					before := time.Now()
					p, err := c.Admit(context.Background(), taking(50, 50))
					if err != nil {
						t.Error(err)
						return
					}
					if d := time.Since(before); d > 100*time.Millisecond {
						t.Errorf("a call waited for %v", d)
					}
					calls.Add(1)
					time.Sleep(time.Duration(1000+100*k) * time.Millisecond)
					p.Settle(nil, nil)
				}
			})
		}
		for _, next := range [][2]string{{"one", "two"}, {"two", "one"}} {
			time.Sleep(15 * time.Second)
			r.kill(next[0])
			time.Sleep(3 * time.Second)
			r.start(next[1]) // within a second it leads
		}
		all.Wait()
		for _, c := range clients {
			r.close(c)
		}
		r.stands("one", int(calls.Load())*100, 0)
	})
}

// Three clients hold a lease of 4 calls of 100 tokens each: 3 · 400 = 1,200 of the 10,000. While
// no coordinator can be asked they make these calls, which run long, and no others. A fourth one then uses
// all that the next coordinator gives away.
//
//	lost for 3 s, less than the lease's 10: the leases stand, so it gives 10,000 − 1,200;
//	all in all 10,000 are used.
//	lost for 15 s: the leases have expired, so it gives 10,000, and the calls are charged when
//	they end: 10,000 + 1,200. That is the bound: the limit, and what the leases held.
func TestOvershootIsBoundedByTheLeases(t *testing.T) {
	const budget, clients, perLease, tokens = 10_000, 3, 4, 100
	for lost, want := range map[time.Duration]int{3 * time.Second: budget,
		15 * time.Second: budget + clients*perLease*tokens} {
		t.Run(lost.String(), func(t *testing.T) {
			inRig(t, pool(budget, ""), func(r *rig) {
				var all []*quota.Client
				var running []*quota.Pass
				for k := range clients {
					c := r.client(fmt.Sprint("agent-", k), leases(perLease))
					all = append(all, c)
					running = append(running, admit(t, c, tokens), admit(t, c, tokens))
				}
				r.stands("one", 0, clients*perLease*tokens)
				r.kill("one")
				begun := time.Now()
				for _, c := range all {
					running = append(running, admit(t, c, tokens), admit(t, c, tokens))
				}
				for _, c := range all {
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					if _, err := c.Admit(ctx, taking(50, 50)); err == nil {
						t.Error("a call more than the lease has")
					}
					cancel()
				}
				time.Sleep(lost - time.Since(begun) - time.Second)
				r.start("two")
				greedy := r.client("greedy", leases(1))
				for range 2 {
					for {
						p, err := greedy.Admit(context.Background(), taking(50, 50))
						if err != nil {
							break
						}
						p.Settle(nil, nil)
					}
					time.Sleep(20 * time.Second) // what was reserved for calls to come is given back
				}
				for _, p := range running {
					p.Settle(nil, nil)
				}
				for _, c := range append(all, greedy) {
					r.close(c)
				}
				r.stands("two", want, 0)
			})
		})
	}
}

// Whatever happens: what is used is at most the budget and what leases held when a coordinator was
// lost, and nothing stays set aside.
func TestOvershootInRandomHistories(t *testing.T) {
	const budget, clients, workers, tokens = 30_000, 4, 3, 100
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inRig(t, pool(budget, ""), func(r *rig) {
				chance := rand.New(rand.NewPCG(seed, 8))
				var charged atomic.Int64
				var all sync.WaitGroup
				var open []*quota.Client
				for k := range clients {
					c := r.client(fmt.Sprint("agent-", k), leases(1+chance.IntN(8)))
					open = append(open, c)
					for w := range workers {
						mine := rand.New(rand.NewPCG(seed, uint64(100*k+w)))
						all.Go(func() {
							for begun := time.Now(); time.Since(begun) < time.Minute; {
								p, err := c.Admit(context.Background(), taking(tokens/2, tokens/2))
								if err != nil {
									time.Sleep(time.Second)
									continue
								}
								time.Sleep(time.Duration(mine.Int64N(int64(3 * time.Second))))
								if mine.IntN(10) == 0 {
									p.Release(nil)
									continue
								}
								charged.Add(tokens)
								p.Settle(nil, nil)
							}
						})
					}
				}
				held, leader := 0, "one"
				for _, next := range []string{"two", "one"} {
					time.Sleep(time.Duration(5+chance.IntN(10)) * time.Second)
					_, reserved := r.budget(leader)
					held += reserved
					r.kill(leader)
					time.Sleep(time.Duration(chance.IntN(20)) * time.Second)
					r.start(next)
					leader = next
				}
				all.Wait()
				for _, c := range open {
					r.close(c)
				}
				u, reserved := r.budget(leader)
				if u != int(charged.Load()) || reserved != 0 {
					t.Errorf("%d used and %d set aside, want %d and nothing: what calls have used", u, reserved, charged.Load())
				}
				if u > budget+held {
					t.Errorf("%d used, more than the budget of %d and the leases of %d", u, budget, held)
				}
			})
		})
	}
}

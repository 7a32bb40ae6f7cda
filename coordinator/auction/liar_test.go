package auction

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// bidder is one agent of the liar's fleet.
type bidder struct {
	id      coordinator.AgentID
	success float64 // true, and what an honest one claims
	lies    bool    // claims 1.0 and 1 s always, and that it is idle
	busy    []int   // when each of its tasks ends
	record  Calibration
	done    int
	good    int
}

const (
	auctions  = 200
	lastOnes  = 50
	slots     = 4
	taskTakes = 5 // seconds, for everybody
)

// share plays 200 auctions, one each second, among five honest agents, whose success
// is 0.75 to 0.95, and "f" with merit. It gives how many of the last 50 f won.
//
// Success is measured as by package learning: a prior of 0.9 that counts ten outcomes.
// Whether an agent's n-th task succeeds is the same in every play of one seed.
func share(t *testing.T, mode Mode, merit float64, lies bool, seed uint64) (won int) {
	t.Helper()
	fleet := make([]bidder, 6)
	for i, success := range []float64{0.95, 0.9, 0.85, 0.8, 0.75, merit} {
		fleet[i] = bidder{id: ids(6)[i], success: success}
	}
	fleet[5].lies = lies
	for round := range auctions {
		now := after(time.Duration(round) * time.Second)
		appraise := func(bid Bid) Appraisal {
			f := &fleet[bid.Agent[0]-'a']
			measured := (9 + float64(f.good)) / (10 + float64(f.done))
			return Appraise(mode, Merit{Coverage: 1, Success: measured, Depth: Depth(float64(f.done)), Active: len(f.busy)},
				&f.record, bid)
		}
		book := Open(coordinator.TaskID(fmt.Sprint("task ", round)), seed, ids(6), now, window, appraise)
		for i := range fleet {
			f := &fleet[i]
			for len(f.busy) > 0 && f.busy[0] <= round {
				f.busy = f.busy[1:]
				succeeded := hash.Unit(hash.Of(fmt.Sprint(f.id, f.done), seed)) < f.success
				claimed, estimated := f.claim()
				f.record.Observe(claimed, estimated, taskTakes*time.Second, succeeded)
				if f.done++; succeeded {
					f.good++
				}
			}
			if len(f.busy) == slots {
				continue // it is full and does not bid
			}
			claimed, estimated := f.claim()
			bid := Bid{Agent: f.id, Fitness: claimed, Active: len(f.busy), Duration: estimated, Relevance: notGiven}
			if f.lies {
				bid.Active = 0
			}
			if r := book.Bid(now, bid); r != coordinator.BidCounts {
				t.Fatalf("round %d: the bid of %s is refused: %s", round, f.id, r)
			}
		}
		winner, ok := book.Best()
		if !ok {
			t.Fatalf("round %d: nobody bid: five tasks run at once, there are 24 slots", round)
		}
		f := &fleet[winner.Agent[0]-'a']
		f.busy = append(f.busy, round+taskTakes)
		if f.id == "f" && round >= auctions-lastOnes {
			won++
		}
	}
	return won
}

func (b *bidder) claim() (fitness float64, estimated time.Duration) {
	if b.lies {
		return 1, time.Second
	}
	return b.success, taskTakes * time.Second
}

// TestLiar: lying gains nothing. Taken at its word f wins whenever it has a free slot:
// 4 slots, 5 s for each task, a task a second: 4/5, 40 of the last 50. Appraised, its
// claim of 1.0 has a Brier score of 0.5 and a bias of 0.5, so that δ = 0; its measured
// success is near 0.5 and 0.5·depth is below the 0.75·0.8 = 0.6 of the worst of the
// others. So it gets what it gets when honest, 5 points (2.5 of 50) more at most.
func TestLiar(t *testing.T) {
	for seed := range uint64(20) {
		honest, lying, believed := share(t, Appraised, 0.5, false, seed), share(t, Appraised, 0.5, true, seed),
			share(t, Reported, 0.5, true, seed)
		if float64(lying) > float64(honest)+0.05*lastOnes {
			t.Errorf("seed %d: the liar won %d of the last %d, %d when honest", seed, lying, lastOnes, honest)
		}
		if believed != 40 {
			t.Errorf("seed %d: taken at its word it won %d of the last %d, want 40", seed, believed, lastOnes)
		}
		t.Logf("seed %d, last %d: lying %d, honest %d, taken at its word %d", seed, lastOnes, lying, honest, believed)
	}
}

// TestOverbidder: one that is better than that gains nothing either by claiming 1.0.
// One play is a matter of luck, so what counts is the mean share of 50 plays.
func TestOverbidder(t *testing.T) {
	const plays = 50
	for _, merit := range []float64{0.6, 0.7, 0.8, 0.85, 0.9} {
		honest, lying := 0, 0
		for seed := range uint64(plays) {
			honest += share(t, Appraised, merit, false, seed)
			lying += share(t, Appraised, merit, true, seed)
		}
		gain := 100 * float64(lying-honest) / (plays * lastOnes)
		t.Logf("true success %v: %.1f %% of the tasks when honest, %+.1f points by lying", merit,
			100*float64(honest)/(plays*lastOnes), gain)
		if gain > 5 {
			t.Errorf("true success %v: lying gains %.1f points", merit, gain)
		}
	}
}

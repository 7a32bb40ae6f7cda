package main

import (
	"context"
	"time"
)

// Auctions that all come at once.

const awardedMetric = `taskbus_auctions_total{outcome="awarded"}`

// allAtOnce measures marketCount auctions that begin together: where every bidder could
// have all tasks, and where they have as many slots together as there are tasks.
func (b *bench) allAtOnce(ctx context.Context, slots int, r *marketResult) error {
	z, err := b.startBazaar(ctx, choosersFile(slots, ceilingAtOnce, "pull"), 0)
	if err != nil {
		return err
	}
	rounds := marketRounds
	if slots < amplySlots {
		rounds = 1 // nobody ends with what it has
	}
	for i := 0; i < rounds && err == nil; i++ {
		var run atOnceRun
		if run, err = z.atOnce(ctx, slots); err == nil {
			b.say("%d auctions at once, %d slots each: %.0f ms, %d awarded, %.1f bids each counted, %.2f ms CPU each",
				run.Auctions, slots, 1e3*run.Seconds, run.Awarded, float64(run.Bids)/float64(run.Auctions), run.CPUMillis)
			r.AtOnce = append(r.AtOnce, run)
		}
	}
	return z.end(err)
}

func (z *bazaar) atOnce(ctx context.Context, slots int) (run atOnceRun, err error) {
	before, err := z.s.process.stat()
	if err != nil {
		return run, err
	}
	m, err := z.s.metrics(ctx)
	if err != nil {
		return run, err
	}
	begun := time.Now()
	if _, err := z.steadily(ctx, marketCount, 0, allAuctioned); err != nil {
		return run, err
	}
	run = atOnceRun{Slots: slots, Auctions: marketCount, Seconds: time.Since(begun).Seconds()}
	time.Sleep(2 * afterwork) // late bids are answered, too
	if run.CPUMillis, err = z.s.process.cpuPer(1000*marketCount, before); err != nil {
		return run, err
	}
	after, err := z.s.metrics(ctx)
	if err != nil {
		return run, err
	}
	const bids = "taskbus_auction_bids_sum"
	run.Awarded, run.Bids = int(after[awardedMetric]-m[awardedMetric]), int(after[bids]-m[bids])
	return run, nil
}

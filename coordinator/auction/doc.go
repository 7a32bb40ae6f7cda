// Package auction answers one question: which bidder gets the task, and when does waiting end?
//
//	n candidates ─► Invite ─► Open ─► Book.Bid … ─► Book.Closing ─► Book.Ranked
//	                          │  ▲        │                            winner first
//	                 Window.Length   Window.Observe
//
// [Invite] picks which agents to ask, [Window] says how long to wait, [Book] holds the bids
// of one auction, [Appraise] makes of a bid its estimate, and
// [Calibration] is what outcomes show of an agent's claims. [Assign] is for
// several tasks at once: which gets which, so that the whole is best.
//
// # The estimate from a bid
//
// The fitness is computed, from what it has measured:
//
//	own     = coverage · success · depth
//	fitness = own + δ/2·clamp((claim − own)/δ, −1, 1) + δ/2·(2·relevance − 1)
//	δ       = 0.2 · max(0, 1 − Brier/0.25) · max(0, 1 − |bias|/0.2)
//
// The last term is left out where no relevance was given. Brier is the mean of
// (claim − outcome)², an outcome being 1 or 0; bias is the mean of claim − outcome.
// An agent that always says 0.5 has a Brier score of 0.25; its claims, and those that
// are off by 0.2 on average, count for nothing. An overbidder therefore gains
// at most δ, and δ becomes 0. That the winner of an auction tends to be the one that
// overrates itself most (the winner's curse) costs no more than δ either.
//
// # What it must never do
//
// It does no I/O, reads no clock and rolls no dice: what looks like chance is a hash
// of task id, agent id or index, and seed. No answer depends on the order in which
// bids arrive, nor on the order of a map. It never panics over what a bid says, and
// it knows neither messages nor slots: that a winner can still take the task is for
// the engine to see, which goes down the ranking.
package auction

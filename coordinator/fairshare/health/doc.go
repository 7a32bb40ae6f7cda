// Package health answers: may calls go to this pool, or model, by the answers of its provider?
//
// A State is until when it is left alone after a refusal, which part of its rates is used (cut at once, given back by
// the minute), and how its calls have gone of late. What one agent alone reports counts within bounds. Kept are the
// states of those that quotas do not list. It must never read a clock, hold a rate or budget, or let one agent alone
// close a pool for good.
package health

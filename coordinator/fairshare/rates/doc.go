// Package rates answers: may so much pass now, and if not, when?
//
// A Bucket is one rate (GCRA), a Shaper the rate of a node of a tree: what is assured to it, and what it may take of
// what those above it have left, beyond what its siblings are assured of. It must never round a rate up, let a refusal
// change anything, or let a clock that goes back let more pass.
package rates

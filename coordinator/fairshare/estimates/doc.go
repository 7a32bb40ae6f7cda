// Package estimates answers: how many tokens will this call take?
//
// It learns the 90th percentile and the mean from calls that have ended: by tenant, model and input length, and where
// too few are known by less of these. It must never read a clock, use chance or floating point, or grow without bound:
// equal calls in equal order give equal estimates, so a journal need hold no more than what was observed.
package estimates

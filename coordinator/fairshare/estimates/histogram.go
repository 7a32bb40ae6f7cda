package estimates

import "math/bits"

const (
	// keptSamples is how many a histogram counts before it halves them: even, so that half is
	// exact, and so few that every count fits in a byte.
	keptSamples = 240
	// exactBelow is the first amount that shares its bin with others.
	exactBelow = 16
	// binsPerOctave divide what lies between two powers of two, evenly.
	binsPerOctave = 8
	// mostBits of an amount that is distinguished from greater ones.
	mostBits = 24
	numBins  = exactBelow + (mostBits-4)*binsPerOctave
	// aboveP90 is the part of the samples, 1 in so many, that may lie above the p90.
	aboveP90 = 10
)

// histogram learns the mean and the 90th percentile of amounts of tokens from samples of
// them, and forgets old ones. It is integers only, and equal samples in equal order make
// equal histograms. The zero value has no samples.
//
// # Bins
//
// Amounts below 16 have a bin each; above, every octave has 8 (as in HdrHistogram with 3
// significant bits), up to 2²⁴−1 tokens, which also stands for all beyond. A bin is at most
// 1/8 as wide as its least amount. Within the bin of the p90 its samples are taken to be
// spread evenly, the greatest at the upper end, so the p90 errs by less than 1/8 of itself at
// worst (all samples are one amount at the lower end of a bin), by about 1 % on smooth data,
// and more often upward, where it is safe.
//
// # Forgetting
//
// With 240 samples all counts are halved, so a sample weighs 1 while it is one of the last
// 120 or so, then 1/2, 1/4 ...: there is always the weight of 120 to 239 samples. An odd
// half is carried down to the next bin instead of being lost (or the tail, which is made of
// bins with one sample, would be): the weight above any amount is never off by a whole
// sample, however long it has been halved, because ½ + ¼ + ⅛ + ... < 1.
//
// After a sudden change upward the p90 follows once more than 10 % of the weight is new: 25
// samples at most. After one downward it follows once less than 10 % is old: 408 at most.
//
// # Why not a window
//
// A window of the last 200 amounts forgets exactly, but needs the amounts in order and
// sorted, 1.6 KB, and its snapshot is all of them. This is 200 bytes, a snapshot of some tens
// of small numbers; on the Azure traces it reserves the same to within 2 %.
type histogram struct {
	sum int64 // of all samples by their weight
	n   int32 // the weight of all, 0 to keptSamples-1
	// at is the bin of the p90, and above the weight in the bins over it:
	// above ≤ n/aboveP90 < above + counts[at]. Observe keeps it so.
	at, above int32
	counts    [numBins]uint8
}

// observe adds a sample of at least 0.
func (h *histogram) observe(tokens int64) {
	tokens = min(tokens, 1<<mostBits-1)
	bin := binOf(tokens)
	h.sum += tokens
	h.n++
	h.counts[bin]++
	if bin > h.at {
		h.above++
	}
	if h.n >= keptSamples {
		h.halve()
		return
	}
	h.seek()
}

// halve lets every sample count for half of what it did.
func (h *histogram) halve() {
	h.n, h.sum = 0, (h.sum+1)/2
	odd := uint8(0)
	for b := numBins - 1; b >= 0; b-- {
		c := h.counts[b] + odd
		h.counts[b], odd = c/2, c%2
		h.n += int32(c / 2)
	}
	h.find()
}

// find looks for the p90 from the top.
func (h *histogram) find() {
	h.at, h.above = numBins-1, 0
	h.seek()
}

// seek moves to the bin of the p90: usually not at all, or to the next that is not empty.
func (h *histogram) seek() {
	allowed := h.n / aboveP90
	for h.above > allowed {
		h.at++
		h.above -= int32(h.counts[h.at])
	}
	for h.at > 0 && h.above+int32(h.counts[h.at]) <= allowed {
		h.above += int32(h.counts[h.at])
		h.at--
	}
}

// p90 returns the least amount that at most a tenth of the samples exceed. There must be samples.
func (h *histogram) p90() int64 {
	least, width := binRange(h.at)
	rank := int64(h.n/aboveP90 - h.above) // of the p90 among the samples of its bin, from the top
	return least + width - 1 - rank*width/int64(h.counts[h.at])
}

// mean is rounded to the nearest whole. There must be samples.
func (h *histogram) mean() int64 { return (h.sum + int64(h.n)/2) / int64(h.n) }

// binOf returns the bin of an amount of 0 to 2²⁴−1.
func binOf(tokens int64) int32 {
	if tokens < exactBelow {
		return int32(tokens)
	}
	shift := bits.Len64(uint64(tokens)) - 4 // leaves four digits: 1 and those that select the bin
	return int32(exactBelow + (shift-1)*binsPerOctave + int(tokens>>shift) - binsPerOctave)
}

// binRange returns the least amount of a bin, and how many amounts it holds.
func binRange(bin int32) (least, width int64) {
	if bin < exactBelow {
		return int64(bin), 1
	}
	shift := (bin-exactBelow)/binsPerOctave + 1
	return int64((bin-exactBelow)%binsPerOctave+binsPerOctave) << shift, 1 << shift
}

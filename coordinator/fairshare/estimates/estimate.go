package estimates

import "math/bits"

const (
	// MinSamples is how many a histogram must have to be used.
	MinSamples = 20
	// DefaultOutput and DefaultInput are the tokens of a call of which nothing is known. The
	// second is the mean context of the code trace of Azure 2023; conversations have half.
	DefaultOutput = 512
	DefaultInput  = 2048
	// MaxHistograms bounds what an Estimator remembers: at 200 bytes each, with what leads to
	// them less than 8 MB.
	MaxHistograms = 20_000

	numBuckets = mostBits + 1
)

// Level is on which samples an estimate rests. The numbers are part of the journal
// and never change.
type Level uint8

// The levels, from the widest to the narrowest.
const (
	LevelDefault Level = 0 // none: the configured amount
	LevelModel   Level = 1 // calls of the model by all tenants
	LevelTenant  Level = 2 // the tenant's calls of the model
	LevelBucket  Level = 3 // those of them with inputs of about the same length
)

// Estimate is how many tokens a call will probably take. The two numbers serve two purposes
// (and neither the other's): a limit must not be overrun, so it is asked for the p90; an order
// of turns that is charged with large reservations is less fair than one charged with means.
type Estimate struct {
	// Reserve is the 90th percentile and Expect the mean, neither above what was said to be
	// the most. Where few calls are very long the mean may be the greater.
	Reserve, Expect int64
	// Samples it rests on, by weight: below 240, as older ones are forgotten by halves.
	Samples int
	Level   Level
}

// Estimator learns from the calls that have ended what the next will take: by tenant, by
// model, and by input length, because answers to inputs of about the same length (log₂) are
// of about the same length themselves.
//
// It is deterministic: Observe alone changes it, so the same calls of Observe in the same order make the
// same Estimator, and a journal need record no more than their
// arguments. Reading changes nothing, not even what is forgotten first. Neither reading nor
// observing allocates for what is known. Not for concurrent use.
type Estimator struct {
	defaultOutput int64
	limit         int // histograms
	used          int
	pairs         map[tenantModel]*learned
	models        map[string]*learned
	// The list of all by their last use. A model is used after the tenant that uses it, so
	// it comes to be the oldest only when all tenants with it are forgotten.
	newest, oldest *learned
}

// tenantModel is a tenant with a model. Both may be empty: that is a name like any other.
type tenantModel struct{ tenant, model string }

// learned is what is known of a pair, or of a model over all tenants.
type learned struct {
	tenantModel
	all             *learned // the model's; nil of the model itself
	inputs, outputs histogram
	// buckets are outputs by the number of binary digits of the input; only of pairs.
	buckets      [numBuckets]*histogram
	used         int // histograms: these two, and the buckets there are
	newer, older *learned
}

// New makes one that knows nothing.
func New() *Estimator { return newEstimator(MaxHistograms) }

// newEstimator bounds the histograms; 32 at least, so that one call's have room.
func newEstimator(limit int) *Estimator {
	return &Estimator{
		defaultOutput: DefaultOutput,
		limit:         limit,
		pairs:         map[tenantModel]*learned{},
		models:        map[string]*learned{},
	}
}

// SetDefaultOutput sets the output tokens that are assumed where nothing is known; 0 or less
// is DefaultOutput. This is configuration, not learnt: Export leaves it out.
func (e *Estimator) SetDefaultOutput(tokens int64) {
	if tokens <= 0 {
		tokens = DefaultOutput
	}
	e.defaultOutput = tokens
}

// Observe learns from a call that has ended how many tokens it has taken. Below 0 counts as
// 0; a call without any token was not measured and teaches nothing. What is beyond the limit
// is forgotten, least recently observed tenant and model first.
//
// This is the one step that a journal must hold.
func (e *Estimator) Observe(tenant, model string, input, output int64) {
	input, output = max(input, 0), max(output, 0)
	if input == 0 && output == 0 {
		return
	}
	own := e.own(tenant, model)
	if input > 0 {
		e.bucket(own, bucketOf(input)).observe(output)
	}
	for _, l := range [...]*learned{own, own.all} {
		l.inputs.observe(input)
		l.outputs.observe(output)
		e.use(l)
	}
	for e.used > e.limit {
		e.forgetOldest()
	}
}

// Estimate returns how many output tokens a call will take that has so many input tokens (0:
// unknown) and may put out at most maxOutput (0: unknown).
func (e *Estimator) Estimate(tenant, model string, input, maxOutput int64) Estimate {
	own, all := e.known(tenant, model)
	if own != nil {
		if input > 0 {
			if h := own.buckets[bucketOf(input)]; h != nil && h.n >= MinSamples {
				return h.estimate(LevelBucket, maxOutput)
			}
		}
		if own.outputs.n >= MinSamples {
			return own.outputs.estimate(LevelTenant, maxOutput)
		}
	}
	if all != nil && all.outputs.n >= MinSamples {
		return all.outputs.estimate(LevelModel, maxOutput)
	}
	return assumed(e.defaultOutput, maxOutput)
}

// EstimateInput returns how many input tokens a call will take that states none. Its output is then that of
// an unknown input: a guess would choose the wrong bucket.
func (e *Estimator) EstimateInput(tenant, model string) Estimate {
	own, all := e.known(tenant, model)
	switch {
	case own != nil && own.inputs.n >= MinSamples:
		return own.inputs.estimate(LevelTenant, 0)
	case all != nil && all.inputs.n >= MinSamples:
		return all.inputs.estimate(LevelModel, 0)
	}
	return assumed(DefaultInput, 0)
}

func (h *histogram) estimate(level Level, most int64) Estimate {
	return Estimate{Reserve: atMost(h.p90(), most), Expect: atMost(h.mean(), most), Samples: int(h.n), Level: level}
}

func assumed(tokens, most int64) Estimate {
	tokens = atMost(tokens, most)
	return Estimate{Reserve: tokens, Expect: tokens}
}

// atMost bounds tokens where there is a bound.
func atMost(tokens, most int64) int64 {
	if most <= 0 {
		return tokens
	}
	return min(tokens, most)
}

// bucketOf returns the number of binary digits of an input of at least 1: bucket b holds inputs
// of 2^(b−1) to 2^b−1 tokens, the last one also all beyond.
func bucketOf(input int64) int { return min(bits.Len64(uint64(input)), numBuckets-1) }

// known returns what is known of a tenant with a model, and of the model; nil: nothing.
func (e *Estimator) known(tenant, model string) (own, all *learned) {
	if own = e.pairs[tenantModel{tenant, model}]; own != nil {
		return own, own.all
	}
	return nil, e.models[model]
}

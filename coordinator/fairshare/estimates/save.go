package estimates

import "fmt"

// guessedBins is how many bins of a histogram are not empty, about.
const guessedBins = 16

// Row is one histogram of an [Estimator] in plain numbers.
type Row struct {
	// Tenant and Model of the calls that it counts; at LevelModel the tenant is empty.
	Tenant, Model string
	// Level is LevelModel, LevelTenant or LevelBucket.
	Level Level
	// Input says that these are input tokens; else output tokens. Not at LevelBucket.
	Input bool
	// Bucket of the inputs, 1 to 24, at LevelBucket: 2^(Bucket-1) to 2^Bucket-1 tokens. Else 0.
	Bucket int
	// Sum of all samples by their weight, in tokens.
	Sum int64
	// Counts are pairs of a bin and its weight of at least 1, bins ascending.
	Counts []uint32
}

// Export copies what has been learnt. The order is part of it: least recently observed first.
// Equal Estimators give equal rows.
func (e *Estimator) Export() []Row {
	rows := make([]Row, 0, e.used)
	counts := make([]uint32, 0, 2*guessedBins*e.used) // one piece for all rows, or a few
	add := func(row Row, h *histogram) {
		from := len(counts)
		for b, c := range &h.counts {
			if c > 0 {
				counts = append(counts, uint32(b), uint32(c))
			}
		}
		row.Sum, row.Counts = h.sum, counts[from:len(counts):len(counts)]
		rows = append(rows, row)
	}
	for l := e.oldest; l != nil; l = l.newer {
		row := Row{Tenant: l.tenant, Model: l.model, Level: LevelTenant}
		if l.all == nil {
			row.Level = LevelModel
		}
		add(row, &l.outputs)
		row.Input = true
		add(row, &l.inputs)
		row.Input, row.Level = false, LevelBucket
		for b, h := range l.buckets {
			if h != nil {
				row.Bucket = b
				add(row, h)
			}
		}
	}
	return rows
}

// Import puts rows in the place of everything learnt so far: from then on it is as the
// Estimator that exported them, in what it estimates and in what it will forget first. Rows
// that no Estimator exports are refused as a whole, naming the first, and change nothing.
func (e *Estimator) Import(rows []Row) error {
	fresh := newEstimator(e.limit)
	fresh.defaultOutput = e.defaultOutput
	for i := range rows {
		if err := fresh.restore(&rows[i]); err != nil {
			return fmt.Errorf(
				"row %d of the estimates (tenant %q, model %q, level %d): %w; leave the estimates out, they are learnt anew",
				i, rows[i].Tenant, rows[i].Model, rows[i].Level, err)
		}
	}
	for l := fresh.oldest; l != nil; l = l.newer {
		if l.inputs.n == 0 || l.outputs.n == 0 {
			return fmt.Errorf(
				"tenant %q, model %q: its inputs or outputs are not among the estimates; leave the estimates out, they are "+
					"learnt anew", l.tenant, l.model)
		}
	}
	for fresh.used > fresh.limit {
		fresh.forgetOldest()
	}
	*e = *fresh
	return nil
}

// restore adds the histogram of a row. The record it belongs to becomes the most recently
// used, as all rows of one record follow each other.
func (e *Estimator) restore(row *Row) error {
	if row.Level == LevelBucket != (row.Bucket != 0) || row.Bucket < 0 || row.Bucket >= numBuckets {
		return fmt.Errorf("it cannot be of bucket %d", row.Bucket)
	}
	var l *learned
	switch {
	case row.Level == LevelModel && row.Tenant == "":
		l = e.model(row.Model)
	case row.Level == LevelTenant, row.Level == LevelBucket && !row.Input:
		l = e.own(row.Tenant, row.Model)
	default:
		return fmt.Errorf("there are no such rows")
	}
	if l.all != nil && (l.all.inputs.n > 0 || l.all.outputs.n > 0) {
		return fmt.Errorf("it comes after its model, which is forgotten last")
	}
	h := &l.outputs
	switch {
	case row.Level == LevelBucket:
		h = e.bucket(l, row.Bucket)
	case row.Input:
		h = &l.inputs
	}
	if h.n != 0 {
		return fmt.Errorf("it comes twice")
	}
	e.use(l)
	return h.restore(row.Sum, row.Counts)
}

// restore fills an empty histogram.
func (h *histogram) restore(sum int64, counts []uint32) error {
	if len(counts) == 0 || len(counts)%2 != 0 {
		return fmt.Errorf("%d counts are not pairs of a bin and its weight", len(counts))
	}
	last := -1
	for i := 0; i < len(counts); i += 2 {
		bin, weight := counts[i], counts[i+1]
		if int64(bin) <= int64(last) || bin >= numBins {
			return fmt.Errorf("bin %d is out of order or not between 0 and %d", bin, numBins-1)
		}
		if weight == 0 || weight >= keptSamples-uint32(h.n) {
			return fmt.Errorf("the weight of bin %d is 0, or that of all exceeds %d", bin, keptSamples-1)
		}
		last = int(bin)
		h.counts[bin] = uint8(weight)
		h.n += int32(weight)
	}
	if sum < 0 || sum > int64(h.n)<<mostBits {
		return fmt.Errorf("%d samples cannot have a sum of %d tokens", h.n, sum)
	}
	h.sum = sum
	h.find()
	return nil
}

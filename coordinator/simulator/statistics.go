package simulator

import (
	"math"
	"strconv"
)

// Ratio is a/b, 0 where there is nothing to divide by.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Quantile of sorted values: the smallest that at least the share q of them does
// not exceed.
func Quantile(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func cumulated(course []float64) []float64 {
	sum, sums := 0.0, make([]float64, len(course))
	for i, x := range course {
		sum += x
		sums[i] = sum
	}
	return sums
}

// means averages a course over the runs, point by point; runs without it count not.
func means(runs []outcome, course func(*outcome) []float64) []float64 {
	var sum []float64
	n := 0.0
	for i := range runs {
		c := course(&runs[i])
		if len(c) == 0 {
			continue
		}
		if sum == nil {
			sum = make([]float64, len(c))
		}
		for j, x := range c {
			sum[j] += x
		}
		n++
	}
	for j := range sum {
		sum[j] = tidy(sum[j] / n)
	}
	return sum
}

// Summarise gives the mean of a value over the runs, one for each seed, with its interval:
// ± t·s/√n, t for n−1 degrees of freedom.
func Summarise[R any](runs []R, value func(*R) float64) Value {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = value(&runs[i])
	}
	n := float64(len(values))
	var v Value
	for _, x := range values {
		v.Mean += x / n
	}
	squares := 0.0
	for _, x := range values {
		squares += (x - v.Mean) * (x - v.Mean)
	}
	if len(values) > 1 {
		v.Interval = tidy(student975(len(values)-1) * math.Sqrt(squares/(n-1)/n))
	}
	v.Mean = tidy(v.Mean)
	return v
}

// tidy rounds to nine significant digits: what follows them is noise of arithmetic,
// which differs between processors and makes files hard to read.
func tidy(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 9, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// student975 is the 97.5 % quantile of Student's t distribution, to three digits;
// beyond 30 degrees of freedom that of the normal distribution, which is 4 % less
// at most.
func student975(degrees int) float64 {
	table := [...]float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
	if degrees > len(table) {
		return 1.960
	}
	return table[degrees-1]
}

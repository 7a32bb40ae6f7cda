package messages

import (
	"strconv"

	"taskbus/coordinator"
)

// appendBrief appends a choice in one line for people: what Text says, the figures of the best
// candidates, and why the others were out, the nearest first and by name where they are few:
// "gpu-1 by reward_rate, best of 2 eligible among 9 agents (score 0.9; gpu-2 0.85); out: 1 full
// (gpu-3), 6 lack a required capability".
func appendBrief(dst []byte, d *coordinator.Decision) []byte {
	dst = appendFigures(d.AppendChoice(dst), d)
	sep, named := "; out: ", d.Refusals
	for why := coordinator.Ineligibility(coordinator.NumIneligibilities) - 1; why > coordinator.Eligible; why-- {
		of := 0 // of those named
		for of < len(named) && named[of].Why == why {
			of++
		}
		if n := d.Refused[why]; n > 0 {
			dst = appendCount(append(dst, sep...), n, why.Phrase())
			dst = appendNames(dst, named[:of], n)
			sep = ", "
		}
		named = named[of:]
	}
	if d.WithoutQuota > 0 {
		dst = appendCount(append(dst, sep...), d.WithoutQuota, "without quota of their own")
	}
	return dst
}

// appendFigures appends the score of the candidates, or what else the strategy compares first.
func appendFigures(dst []byte, d *coordinator.Decision) []byte {
	if len(d.Candidates) == 0 || d.Candidates[0].Agent != d.Agent || !d.Scored && len(d.Terms) == 0 {
		return dst
	}
	name := "score"
	if !d.Scored {
		name = d.Terms[0]
	}
	dst = append(append(dst, " ("...), name...)
	sep := " "
	for i := range d.Candidates {
		c := &d.Candidates[i]
		value := -c.Key.First
		if !d.Scored {
			value = c.Terms[0]
		}
		dst = append(dst, sep...)
		if i > 0 {
			dst = append(append(dst, c.Agent...), ' ')
		}
		dst = strconv.AppendFloat(dst, value, 'g', 4, 64)
		sep = ", "
		if i == 0 {
			sep = "; "
		}
	}
	return append(dst, ')')
}

// appendNames appends the names of n agents if all of them are known.
func appendNames(dst []byte, named []coordinator.Refusal, n int) []byte {
	if len(named) != n {
		return dst
	}
	sep := " ("
	for _, r := range named {
		dst = append(append(dst, sep...), r.Agent...)
		sep = " "
	}
	return append(dst, ')')
}

func appendCount(dst []byte, n int, what string) []byte {
	return append(append(strconv.AppendInt(dst, int64(n), 10), ' '), what...)
}

package coordinator

import "strconv"

// AppendBrief appends a choice in one line for people: what Text says, the figures of the best
// candidates, and why the others were out, the nearest first and by name where they are few:
// "gpu-1 by reward_rate, best of 2 eligible among 9 agents (score 0.9; gpu-2 0.85); out: 1 full
// (gpu-3), 6 lack a required capability".
func (d *Decision) AppendBrief(dst []byte) []byte {
	dst = d.appendFigures(d.appendChoice(dst))
	sep, named := "; out: ", d.Refusals
	for why := Ineligibility(NumIneligibilities) - 1; why > Eligible; why-- {
		of := 0 // of those named
		for of < len(named) && named[of].Why == why {
			of++
		}
		if n := d.Refused[why]; n > 0 {
			dst = appendCount(append(dst, sep...), n, ineligibilities[why].phrase)
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

// appendChoice appends the agent, the strategy, and among how many it was chosen.
func (d *Decision) appendChoice(dst []byte) []byte {
	place, of := ", best of ", " eligible among "
	if d.First {
		place = ", first of "
	}
	if d.Auction == AuctionAwarded {
		of = " bidders among "
	}
	dst = append(append(append(dst, d.Agent...), " by "...), d.Strategy...)
	dst = strconv.AppendInt(append(dst, place...), int64(d.Eligible), 10)
	dst = strconv.AppendInt(append(dst, of...), int64(d.Fleet), 10)
	dst = append(dst, " agents"...)
	if d.Preferred {
		dst = append(dst, " (preferred)"...)
	}
	if why := d.Auction.withoutBid(); why != "" {
		dst = append(append(dst, "; "...), why...)
	}
	return dst
}

// appendFigures appends the score of the candidates, or what else the strategy compares first.
func (d *Decision) appendFigures(dst []byte) []byte {
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
func appendNames(dst []byte, named []Refusal, n int) []byte {
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

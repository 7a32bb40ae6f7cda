package fairqueue

// Parts returns for every leaf which part, 0 to 1, of what is dispatched its weights give it while only the
// active leaves are served: at each inner group what comes to it is divided by weight among the children
// with an active leaf. Of children
// without weight each has an equal part where no active sibling has weight, else none. The
// result is by the number of the leaf; it takes O(groups).
func (s *Shares) Parts(active func(leaf int) bool) []float64 {
	parts := make([]float64, len(s.groups))
	wants := make([]bool, len(s.groups))
	for i := len(s.groups) - 1; i > 0; i-- { // children come after their parents
		g := &s.groups[i]
		if g.first == g.end {
			wants[i] = active(i)
		}
		if wants[i] {
			wants[g.parent] = true
		}
	}
	parts[0] = 1
	for i := range s.groups {
		g := &s.groups[i]
		var weights, weightless float64
		for j := g.first; j < g.end; j++ {
			switch {
			case !wants[j]:
			case s.groups[j].weight == 0:
				weightless++
			default:
				weights += float64(s.groups[j].weight)
			}
		}
		for j := g.first; j < g.end; j++ {
			switch {
			case !wants[j]:
			case s.groups[j].weight > 0:
				parts[j] = parts[i] * float64(s.groups[j].weight) / weights
			case weights == 0:
				parts[j] = parts[i] / weightless
			}
		}
	}
	return parts
}

// IsLeaf reports whether tasks may be charged to the group of that number.
func (s *Shares) IsLeaf(n int) bool { return n > 0 && s.groups[n].first == s.groups[n].end }

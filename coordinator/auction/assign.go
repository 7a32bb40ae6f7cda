package auction

import (
	"math"
	"slices"
)

// MaxSide is the largest number of rows, and of columns, that [Assign] solves.
const MaxSide = 256

// Problem is several tasks at once: a row for each task, a column for each free slot
// of an agent.
type Problem struct {
	Rows, Cols int
	// Values of the pairs, row by row, Rows·Cols of them: the larger, the better. NaN
	// and the infinities forbid the pair.
	Values []float64
}

// whole reports whether there is a value for each pair.
func (p *Problem) whole() bool {
	return p.Rows >= 0 && p.Cols >= 0 && len(p.Values) == p.Rows*p.Cols
}

// forbidden is true for NaN and the infinities alone.
func forbidden(value float64) bool { return value-value != 0 }

// Assignment says which task gets which slot.
type Assignment struct {
	// Columns holds for each row its column, or -1 if the task gets none.
	Columns []int
	// Assigned is how many rows have a column, Value the sum over their pairs.
	Assigned int
	Value    float64
	// Optimal: no other assignment gives more tasks a slot, and none that gives as
	// many is worth more. False: it is the greedy one.
	Optimal bool
}

// Assign gives each task at most one slot and each slot at most one task, so that as
// many tasks as possible get one, and the sum of values is the largest among those.
//
// It follows shortest augmenting paths with potentials (Jonker, Volgenant, Computing
// 38, 1987, in the rectangular form of Crouse, IEEE TAES 52(4), 2016): a row after the
// other gets the column that costs the whole least, others making room.
//
// steps bounds the work instead of a clock, so that a replay decides alike: it is how
// many pairs may be looked at (MaxSide³/2 + MaxSide²/2 always suffice). When they are used
// up, or a side is longer than [MaxSide], the answer is that of [Greedy].
// Of equally good answers it gives one that depends on the order of rows and columns:
// a caller that wants no constant favourite shuffles the columns. A problem without a value for
// each pair is given up: no row gets a column.
func Assign(p Problem, steps int) Assignment {
	if !p.whole() || p.Rows > MaxSide || p.Cols > MaxSide {
		return Greedy(p)
	}
	s := newSolver(&p)
	for row := range s.rows {
		if !s.augment(row, &steps) {
			return Greedy(p)
		}
	}
	columns := none(p.Rows)
	for row, col := range s.colOf {
		if p.Rows > p.Cols {
			row, col = col, row // it was solved the other way round
		}
		if !forbidden(p.Values[row*p.Cols+col]) {
			columns[row] = col
		}
	}
	a := p.assignment(columns)
	a.Optimal = true
	return a
}

// solver is a minimisation with rows ≤ cols in which every row gets a column: a pair
// that is forbidden costs so much that no sum of others reaches it, and is taken out
// afterwards.
type solver struct {
	values             []float64
	rows, cols         int
	rowStride          int // distances in values: the problem may lie on its side
	colStride          int
	scale, prohibitive float64
	rowPrice, colPrice []float64 // the potentials
	colOf, rowOf       []int     // -1: none yet
	distance           []float64 // of each column from the row that is being placed
	from               []int     // the row before each column on the shortest path
	open               []int     // columns not yet reached
	reached            []int     // columns reached, in order
}

func newSolver(p *Problem) *solver {
	s := &solver{values: p.Values, rows: p.Rows, cols: p.Cols, rowStride: p.Cols, colStride: 1}
	if s.rows > s.cols {
		s.rows, s.cols, s.rowStride, s.colStride = p.Cols, p.Rows, 1, p.Cols
	}
	largest := 0.0
	for _, v := range p.Values {
		if !forbidden(v) {
			largest = max(largest, math.Abs(v))
		}
	}
	if largest > 0 {
		s.scale = largest
	} else {
		s.scale = 1
	}
	// A pair costs 1 − value/largest: 0 to 2. Giving one more row a real pair must be
	// worth more than all that the others can lose by it.
	s.prohibitive = float64(2*s.rows + 1)
	s.rowPrice, s.colPrice = make([]float64, s.rows), make([]float64, s.cols)
	s.colOf, s.rowOf = none(s.rows), none(s.cols)
	s.distance, s.from = make([]float64, s.cols), make([]int, s.cols)
	s.open, s.reached = make([]int, s.cols), make([]int, 0, s.cols)
	return s
}

// augment places one more row by the shortest path to a free column (Dijkstra over
// reduced costs, none of which is negative). False: the steps were used up.
func (s *solver) augment(start int, steps *int) bool {
	s.open, s.reached = s.open[:s.cols], s.reached[:0]
	for col := range s.open {
		s.open[col] = col
		s.distance[col] = math.Inf(1)
	}
	row, length, end := start, 0.0, -1
	for end < 0 {
		if *steps < len(s.open) {
			return false
		}
		*steps -= len(s.open)
		nearest, least := -1, math.Inf(1)
		base := length - s.rowPrice[row]
		for at, col := range s.open {
			cost := s.prohibitive
			if v := s.values[row*s.rowStride+col*s.colStride]; !forbidden(v) {
				cost = 1 - v/s.scale
			}
			if d := base + cost - s.colPrice[col]; d < s.distance[col] {
				s.distance[col], s.from[col] = d, row
			}
			// Of columns equally near a free one ends the search at once.
			if d := s.distance[col]; d < least || d == least && s.rowOf[col] < 0 {
				nearest, least = at, d
			}
		}
		col := s.open[nearest]
		last := len(s.open) - 1
		s.open[nearest] = s.open[last]
		s.open = s.open[:last]
		s.reached = append(s.reached, col)
		length = least
		if row = s.rowOf[col]; row < 0 {
			end = col
		}
	}
	// Prices move so that every pair on the path costs nothing more, and no pair less
	// than nothing.
	s.rowPrice[start] += length
	for _, col := range s.reached {
		slack := length - s.distance[col]
		s.colPrice[col] -= slack
		if r := s.rowOf[col]; r >= 0 {
			s.rowPrice[r] += slack
		}
	}
	// Every row on the path moves to the column after it.
	for col := end; ; {
		r := s.from[col]
		s.rowOf[col] = r
		col, s.colOf[r] = s.colOf[r], col
		if r == start {
			return true
		}
	}
}

// Greedy gives the pair of the largest value first, then the largest of what is left,
// and so on; of equal values the smaller row, then the smaller column. It may leave
// tasks without a slot that [Assign] would place. Its work is that of sorting the
// pairs. A problem without a value for each pair is given up, as in Assign.
func Greedy(p Problem) Assignment {
	if !p.whole() {
		return Assignment{Columns: none(max(p.Rows, 0))}
	}
	// The values are copied beside their places: sorting places alone, with a look at
	// the values for each comparison, takes twice as long.
	type pair struct {
		value float64
		at    int
	}
	order := make([]pair, 0, len(p.Values))
	for at, v := range p.Values {
		if !forbidden(v) {
			order = append(order, pair{v, at})
		}
	}
	slices.SortFunc(order, func(a, b pair) int {
		switch {
		case a.value > b.value:
			return -1
		case a.value < b.value:
			return 1
		default:
			return a.at - b.at
		}
	})
	columns, taken := none(p.Rows), make([]bool, p.Cols)
	for _, o := range order {
		if row, col := o.at/p.Cols, o.at%p.Cols; columns[row] < 0 && !taken[col] {
			columns[row], taken[col] = col, true
		}
	}
	return p.assignment(columns)
}

func (p *Problem) assignment(columns []int) Assignment {
	a := Assignment{Columns: columns}
	for row, col := range columns {
		if col >= 0 {
			a.Assigned++
			a.Value += p.Values[row*p.Cols+col]
		}
	}
	return a
}

// none is a list of n times -1.
func none(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = -1
	}
	return list
}

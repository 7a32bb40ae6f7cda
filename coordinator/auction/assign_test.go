package auction

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator/hash"
)

var no = math.NaN()

// stepsEnough is a budget that suffices for any problem of MaxSide × MaxSide: a row visits at most as many rows as came
// before it, and each visit looks at every column that was not reached yet.
const stepsEnough = MaxSide * (MaxSide + 1) / 2 * MaxSide

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		name          string
		p             Problem
		want, greedy  []int
		value, atOnce float64
	}{
		{"nothing", Problem{}, []int{}, []int{}, 0, 0},
		{"tasks, but no slot", Problem{Rows: 2}, []int{-1, -1}, []int{-1, -1}, 0, 0},
		{"slots, but no task", Problem{Cols: 2}, []int{}, []int{}, 0, 0},
		// Greedy: 9 first, then 1 is left: 10. Best: 8 + 7 = 15.
		{"the best pair is not part of the best whole", Problem{2, 2, []float64{9, 8, 7, 1}}, []int{1, 0}, []int{0, 1}, 15,
			10},
		// Greedy takes 9 for task 0, and task 1 has no other slot. Placing both gives 1 + 2.
		{"more tasks before more value", Problem{2, 2, []float64{9, 1, 2, no}}, []int{1, 0}, []int{0, -1}, 3, 9},
		{"that value may even be negative", Problem{2, 2, []float64{9, -9, -9, no}}, []int{1, 0}, []int{0, -1}, -18, 9},
		{"nobody may do task 0", Problem{2, 2, []float64{no, math.Inf(1), 1, 2}}, []int{-1, 1}, []int{-1, 1}, 2, 2},
		// One slot for three tasks: the one that is worth most.
		{"more tasks than slots", Problem{3, 1, []float64{1, 3, 2}}, []int{-1, 0, -1}, []int{-1, 0, -1}, 3, 3},
		{"more slots than tasks", Problem{1, 3, []float64{1, 3, 2}}, []int{1}, []int{1}, 3, 3},
		{"nothing is worth anything", Problem{1, 1, []float64{0}}, []int{0}, []int{0}, 0, 0},
		{"large values do not overflow", Problem{1, 2, []float64{-math.MaxFloat64, math.MaxFloat64}}, []int{1}, []int{1},
			math.MaxFloat64, math.MaxFloat64},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := Assign(c.p, stepsEnough); !slices.Equal(a.Columns, c.want) || a.Value != c.value || !a.Optimal {
				t.Errorf("Assign gives %+v, want %v worth %v", a, c.want, c.value)
			}
			if a := Greedy(c.p); !slices.Equal(a.Columns, c.greedy) || a.Value != c.atOnce || a.Optimal {
				t.Errorf("Greedy gives %+v, want %v worth %v", a, c.greedy, c.atOnce)
			}
		})
	}
}

func TestAssignGivesUp(t *testing.T) {
	p := Problem{2, 2, []float64{9, 8, 7, 1}}
	// Two pairs for the first row; then for the second two, and one more on its path
	// through row 0's column: 5.
	if a := Assign(p, 5); !a.Optimal || a.Value != 15 {
		t.Errorf("with 5 steps: %+v", a)
	}
	for steps := -1; steps < 5; steps++ {
		if a := Assign(p, steps); a.Optimal || a.Value != 10 {
			t.Errorf("with %d steps: %+v, want the greedy answer", steps, a)
		}
	}
	for _, broken := range []Problem{{2, 2, []float64{1}}, {1, -1, nil}, {-1, 1, nil}, {-1, -1, []float64{1}}} {
		if a := Assign(broken, stepsEnough); a.Assigned != 0 || a.Optimal || len(a.Columns) != max(broken.Rows, 0) {
			t.Errorf("%+v gives %+v", broken, a)
		}
	}
	wide := Problem{1, MaxSide + 1, make([]float64, MaxSide+1)}
	if a := Assign(wide, stepsEnough); a.Optimal || a.Assigned != 1 {
		t.Errorf("a side too long: %d assigned, optimal %v", a.Assigned, a.Optimal)
	}
}

// best tries everything: each row takes no column, or one that is still free.
func best(p Problem, row int, taken []bool) (assigned int, value float64) {
	if row == p.Rows {
		return 0, 0
	}
	assigned, value = best(p, row+1, taken)
	for col := range p.Cols {
		v := p.Values[row*p.Cols+col]
		if taken[col] || forbidden(v) {
			continue
		}
		taken[col] = true
		n, sum := best(p, row+1, taken)
		taken[col] = false
		if n++; n > assigned || n == assigned && sum+v > value {
			assigned, value = n, sum+v
		}
	}
	return assigned, value
}

// sound fails unless every row has a permitted column of its own, or none, and the
// sums are those of the pairs.
func sound(t interface{ Fatalf(string, ...any) }, p Problem, a Assignment) {
	taken, assigned, value := map[int]bool{}, 0, 0.0
	for row, col := range a.Columns {
		if col < 0 {
			continue
		}
		if col >= p.Cols || taken[col] || forbidden(p.Values[row*p.Cols+col]) {
			t.Fatalf("row %d has column %d in %v", row, col, a.Columns)
		}
		taken[col] = true
		assigned++
		value += p.Values[row*p.Cols+col]
	}
	if len(a.Columns) != p.Rows || assigned != a.Assigned || value != a.Value {
		t.Fatalf("%+v is %d worth %v", a, assigned, value)
	}
}

func drawProblem(t *rapid.T, side int) Problem {
	p := Problem{Rows: rapid.IntRange(0, side).Draw(t, "rows"), Cols: rapid.IntRange(0, side).Draw(t, "cols")}
	// Few different values make many equal ones; NaN forbids.
	value := rapid.OneOf(rapid.Just(no), rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }),
		rapid.Float64Range(-1e6, 1e6))
	p.Values = rapid.SliceOfN(value, p.Rows*p.Cols, p.Rows*p.Cols).Draw(t, "values")
	return p
}

// TestAssignIsBest: up to 7 × 7, nothing that can be tried is better.
func TestAssignIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 7)
		a := Assign(p, stepsEnough)
		sound(t, p, a)
		assigned, value := best(p, 0, make([]bool, p.Cols))
		if !a.Optimal || a.Assigned != assigned || math.Abs(a.Value-value) > 1e-6 {
			t.Fatalf("%+v, but %d worth %v can be had", a, assigned, value)
		}
	})
}

// TestGreedyIsNeverBetter, up to 40 × 40, whatever the budget.
func TestGreedyIsNeverBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 40)
		greedy := Greedy(p)
		sound(t, p, greedy)
		a := Assign(p, rapid.IntRange(0, 40*41/2*40).Draw(t, "steps"))
		sound(t, p, a)
		if greedy.Assigned > a.Assigned || greedy.Assigned == a.Assigned && greedy.Value > a.Value+1e-6 {
			t.Fatalf("greedy %d worth %v, assigned %d worth %v", greedy.Assigned, greedy.Value, a.Assigned, a.Value)
		}
	})
}

// square is a problem of n × n; kind "random": values 0 to 1; "contested": every task
// wants the same slots, value (i+1)·(j+1), which makes the longest paths; "sparse":
// nine of ten pairs are forbidden.
func square(kind string, n int) Problem {
	p := Problem{n, n, make([]float64, n*n)}
	for i := range p.Values {
		chance := hash.Unit(hash.Mix(uint64(i) + 1))
		switch kind {
		case "contested":
			p.Values[i] = float64((i/n + 1) * (i%n + 1))
		case "sparse":
			if p.Values[i] = chance; hash.Mix(uint64(i))%10 != 0 {
				p.Values[i] = no
			}
		default:
			p.Values[i] = chance
		}
	}
	return p
}

// TestStepsEnough: that budget suffices for the largest problems.
func TestStepsEnough(t *testing.T) {
	for _, kind := range []string{"random", "contested", "sparse"} {
		p := square(kind, MaxSide)
		a := Assign(p, stepsEnough)
		sound(t, p, a)
		if !a.Optimal {
			t.Errorf("%s: the steps were used up", kind)
		}
		// Contested: the best is the sum of i², 256·257·513/6 = 5,625,216.
		if kind == "contested" && a.Value != 5_625_216 {
			t.Errorf("contested: worth %v", a.Value)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, kind := range []string{"random", "contested", "sparse"} {
		for _, n := range []int{16, MaxSide} {
			p := square(kind, n)
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Assign(p, stepsEnough)
				}
			})
		}
	}
}

func BenchmarkGreedy(b *testing.B) {
	p := square("random", MaxSide)
	for b.Loop() {
		Greedy(p)
	}
}

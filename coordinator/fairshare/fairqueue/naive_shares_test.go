package fairqueue

import (
	"cmp"
	"math/big"
	"slices"
)

// naiveGroup is a group of the naive model: its tag is base + cost/weight, in integers of
// any size.
type naiveGroup struct {
	name       string
	own        bool
	parent     *naiveGroup
	children   []*naiveGroup
	weight     int64
	base, cost *big.Int
	floor      *big.Int // how far refunds go
	times      [2]*big.Int
	waiting    int // items below it
	open       int // charges of it and of those below it, not corrected
}

func (g *naiveGroup) share() *big.Int { return big.NewInt(max(g.weight, 1)) }

func (g *naiveGroup) kind() int {
	if g.weight == 0 {
		return 1
	}
	return 0
}

func (g *naiveGroup) span(cost int64) *big.Int {
	x := new(big.Int).Lsh(big.NewInt(cost), shareBits)
	return x.Div(x, g.share())
}

func (g *naiveGroup) tag() *big.Int {
	x := new(big.Int).Lsh(g.cost, shareBits)
	return x.Add(x.Div(x, g.share()), g.base) // Div rounds down, below 0 too
}

func (g *naiveGroup) at(tag *big.Int) { g.base, g.cost = new(big.Int).Set(tag), new(big.Int) }

func (g *naiveGroup) lift(to *big.Int) {
	if g.tag().Cmp(to) < 0 {
		g.at(to)
		g.floor = new(big.Int).Set(to)
	}
}

// wake brings a group that has nothing waiting and nothing open to the time of its parent, unless it is beyond that.
func (g *naiveGroup) wake() {
	if g.waiting == 0 && g.open == 0 && g.exact().Cmp(new(big.Rat).SetInt(g.time())) <= 0 {
		g.at(g.time())
		g.floor = new(big.Int).Set(g.time())
	}
}

// exact is the tag with what a division leaves over.
func (g *naiveGroup) exact() *big.Rat {
	x := new(big.Rat).SetFrac(new(big.Int).Lsh(g.cost, shareBits), g.share())
	return x.Add(x, new(big.Rat).SetInt(g.base))
}

func (g *naiveGroup) time() *big.Int { return g.parent.times[g.kind()] }

func (g *naiveGroup) move(cost int64) { g.cost = new(big.Int).Add(g.cost, big.NewInt(cost)) }

// due is less for the group that goes first, and comparable among siblings.
func (g *naiveGroup) due() *big.Int {
	if g.waiting > 0 || g.time().Cmp(g.tag()) < 0 {
		return g.tag()
	}
	return g.time()
}

func compareNaive(a, b *naiveGroup) int {
	return cmp.Or(cmp.Compare(a.kind(), b.kind()), a.due().Cmp(b.due()),
		cmp.Compare(slices.Index(a.parent.children, a), slices.Index(b.parent.children, b)))
}

// naiveShares is a tree of them, and naiveItem what waits, in no order at all.
type naiveShares struct {
	root   *naiveGroup
	groups []*naiveGroup // without the root
	began  map[[2]any]*big.Int
}

type naiveItem struct {
	*waiting
	backlog int
	group   *naiveGroup
}

func newNaiveShares(nodes []Node) *naiveShares {
	zero := func() *naiveGroup {
		return &naiveGroup{base: new(big.Int), cost: new(big.Int), floor: new(big.Int),
			times: [2]*big.Int{new(big.Int), new(big.Int)}}
	}
	s := &naiveShares{root: zero(), began: map[[2]any]*big.Int{}}
	add := func(name string, own bool, weight int64, parent *naiveGroup) {
		g := zero()
		g.name, g.own, g.weight, g.parent = name, own, weight, parent
		parent.children = append(parent.children, g)
		s.groups = append(s.groups, g)
	}
	for _, n := range nodes {
		parent := s.root
		if n.Parent >= 0 {
			parent = s.groups[n.Parent]
		}
		add(n.Name, false, n.Weight, parent)
	}
	for _, g := range slices.Clone(s.groups) {
		if len(g.children) > 0 {
			add(g.name, true, 1, g)
		}
	}
	add(OtherGroup, false, 1, s.root)
	return s
}

// wait counts an item in, from the top down: a group that begins to wait is lifted.
func (s *naiveShares) wait(g *naiveGroup) {
	if g == s.root {
		return
	}
	s.wait(g.parent)
	if g.waiting == 0 {
		g.wake()
		g.lift(g.time())
	}
	g.waiting++
}

func (s *naiveShares) charge(g *naiveGroup, cost, lagCap int64) {
	for ; g != s.root; g = g.parent {
		g.wake()
		g.lift(new(big.Int).Sub(g.time(), g.span(lagCap)))
		if g.waiting == 0 {
			g.lift(g.time())
		}
		if g.time().Cmp(g.tag()) < 0 {
			g.parent.times[g.kind()] = g.tag()
		}
		g.move(cost)
		g.open++
		s.beginAnew(g.parent, g.kind())
	}
}

// beginAnew is nothing but the cap of lags at it: these numbers do not end.
func (s *naiveShares) beginAnew(p *naiveGroup, kind int) {
	key := [2]any{p, kind}
	if s.began[key] == nil {
		s.began[key] = new(big.Int)
	}
	far := big.NewInt(timeBound)
	if new(big.Int).Sub(p.times[kind], s.began[key]).Cmp(far) < 0 {
		return
	}
	s.began[key] = p.times[kind]
	least := new(big.Int).Sub(p.times[kind], far)
	for _, g := range p.children {
		if g.kind() == kind {
			rest := new(big.Int).Sub(g.floor, least)
			if g.tag().Cmp(least) < 0 {
				g.at(least)
			}
			if rest.Sign() < 0 {
				g.floor = least
			}
		}
	}
}

func (s *naiveShares) correct(g *naiveGroup, estimated, actual, debtCap int64) {
	for ; g != s.root; g = g.parent {
		most := new(big.Int).Add(g.time(), g.span(debtCap))
		if most.Cmp(g.tag()) < 0 {
			most = g.tag()
		}
		g.open--
		g.move(actual - estimated)
		g.lift(g.floor)
		if g.tag().Cmp(most) > 0 {
			g.at(most)
		}
	}
}

// first looks at everything that waits: from the root on at the child that goes first of
// those in which something waits.
func (s *naiveShares) first(items []*naiveItem) *naiveItem {
	if len(items) == 0 {
		return nil
	}
	at := s.root
	for len(at.children) > 0 {
		var best *naiveGroup
		for _, x := range items {
			g := x.group
			for g != nil && g.parent != at {
				g = g.parent
			}
			if g != nil && (best == nil || compareNaive(g, best) < 0) {
				best = g
			}
		}
		at = best
	}
	var best *naiveItem
	for _, x := range items {
		if x.group == at && (best == nil || x.arrival < best.arrival) {
			best = x
		}
	}
	return best
}

func naiveBefore(x, y *naiveGroup) bool {
	for g := x; g.parent != nil; g = g.parent {
		for h := y; h.parent != nil; h = h.parent {
			if g.parent == h.parent {
				return g != h && compareNaive(g, h) < 0
			}
		}
	}
	return false
}

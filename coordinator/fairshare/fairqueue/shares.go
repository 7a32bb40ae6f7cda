package fairqueue

import "taskbus/coordinator"

// Shares counts what every group of the tree has been served, in virtual time, and from that says which
// group is next: hierarchical start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM
// 1996), at every inner group among its children.
//
// # Tags
//
// A group has a start tag: the virtual time of its parent at which what it has waiting is
// due. Among the children of a group that have something waiting the one with the smallest
// tag goes first; of equal ones the first in the tree. A dispatch at the cost c moves the
// tag of a group of weight w on by c/w, and the parent's virtual time V to where the tag
// was, never back. No cost need be known to order by: what is estimated at the dispatch is
// put right when the bill comes, and a server of varying speed changes nothing.
//
// A group in which something begins to wait after nothing did is due now: its tag becomes
// max(V, tag). An idle group saves nothing up, neither for what comes nor against a bill
// for what has ended; a group in debt stays in debt.
//
// # What is bounded
//
// Debt: a bill moves a tag no further beyond V than DebtCap/w, so that one huge bill does
// not shut a group out for ever; what is beyond that is forgiven. Lag: a group that waits but
// cannot be served (it is parked, or no agent may take its tasks) falls behind V. It goes
// first when it can, as it should, but its first dispatch brings its tag up to V − LagCap/w:
// it makes up for LagCap of cost and a task, and no more.
//
// # Weights of 0
//
// A child without weight goes when no sibling with weight waits. Those without share among
// themselves as if their weight were 1, in a virtual time of their own, which begins beyond
// every tag of those with weight: so one comparison of numbers is enough.
//
// # Numbers
//
// A unit of virtual time is 2^-20 units of cost at weight 1. What a division by the weight
// leaves over is carried on, so that tags do not drift however often they are moved. A cost
// counts as 2^40 (1.1·10^12) at most, so one dispatch moves a tag by at most 2^60. When the
// virtual time of a group has come to 2^60, which is 2^40 of cost for every unit of
// the weights that share it (127 days at 10^5 cost a second, 11 s at 10^11), it begins anew
// from 0 and all tags in it are brought down by as much; a lag of more than 2^60 then counts
// as 2^60. So every number stays between −2^60 and 7·2^60, and nothing overflows.
//
// Shares is for one goroutine. It allocates in NewShares, Install, Export and Import only.
type Shares struct {
	// DebtCap and LagCap in units of cost, 1 to 2^40: see above. They may be set before
	// anything is charged. For the bounds of [Shares.Ahead] DebtCap must be more than the
	// bills of all calls of a group that can be open at one time.
	DebtCap, LagCap int64

	groups []group // the root, its children, theirs, ...: children lie together
	leaves map[string]int32
	other  int32
	tree   int     // how often the tree has been replaced
	spares []*flow // of all backlogs
	moved  []int32 // see Moved

	turns levelTurns
}

// Default caps: what a few hundred calls cost in tokens, or one with a context of a
// million.
const (
	DefaultDebtCap = 1 << 20
	DefaultLagCap  = 1 << 20
)

const (
	shareBits = 20      // a unit of cost at weight 1 is 2^shareBits of virtual time
	costBound = 1 << 40 // as much as anything costs
	timeBound = 1 << 60 // where a virtual time begins anew; how far a tag may lag
	// weightlessTime is when the virtual time of children without weight begins: tags of
	// those with weight are at most 2·timeBound, of those without at least 3·timeBound.
	weightlessTime = 1 << 62
)

// group is a node of the tree, the root among them.
type group struct {
	tag int64 // the virtual time of the parent when it is due
	// base is how far a refund may bring the tag down: where V, or the cap of lags, has
	// lifted it to last. What was dispatched before that has been forgiven, so it is not
	// given back either.
	base  int64
	rest  int64 // of the last division, 0 to share-1: the tag is in truth rest/share later
	share int64 // the weight, or 1 where that is 0
	// time is V among children with weight, and among those without.
	time   [2]int64
	flows  []*flow // where it has something waiting
	parent int32   // index, -1 of the root
	depth  int32
	first  int32 // child; its children are first to end-1
	end    int32
	open   int32 // calls that were charged and not yet put right
	// resumes: it had something waiting when its tag was taken over, which is about to be
	// pushed again and is not new.
	resumes bool
	moved   bool // it is in Shares.moved
	own     bool // it stands for the tasks of an inner group itself
	weight  int64
	name    string
}

// kind is which virtual time of its parent the group lives in.
func (g *group) kind() int {
	if g.weight == 0 {
		return 1
	}
	return 0
}

// origin returns when that begins.
func (g *group) origin() int64 { return timeOrigin[g.kind()] }

var timeOrigin = [2]int64{0, weightlessTime}

func (g *group) waits() bool { return len(g.flows) > 0 || g.resumes }

// span returns how long a cost of 0 to costBound is in the group's virtual time.
func (g *group) span(cost int64) int64 { return cost << shareBits / g.share }

// move the tag by a cost of -costBound to costBound.
func (g *group) move(cost int64) {
	total := cost<<shareBits + g.rest
	by, rest := total/g.share, total%g.share
	if rest < 0 {
		by, rest = by-1, rest+g.share
	}
	g.tag, g.rest = g.tag+by, rest
}

// lift the tag to at least that.
func (g *group) lift(to int64) {
	if g.tag < to {
		g.tag, g.base, g.rest = to, to, 0
	}
}

// NewShares returns the shares of a tree without groups: all tasks are the same leaf's.
func NewShares() *Shares {
	s := &Shares{DebtCap: DefaultDebtCap, LagCap: DefaultLagCap}
	s.Order(coordinator.PriorityOrder{})
	if err := s.Install(nil); err != nil {
		panic(err) // there is nothing that could be wrong
	}
	return s
}

// time returns the virtual time that the group's tag is in.
func (s *Shares) time(g *group) *int64 { return &s.groups[g.parent].time[g.kind()] }

// idle reports whether nothing waits in the group, none of its calls is open, and it is in no debt.
func (s *Shares) idle(g *group) bool { return !g.waits() && s.clear(g) }

// clear reports whether none of the group's calls is open, and it is in no debt.
func (s *Shares) clear(g *group) bool {
	now := *s.time(g)
	return g.open == 0 && (g.tag < now || g.tag == now && g.rest == 0)
}

// lingers reports whether wake would have the group begin anew, if nothing waited in it.
func (s *Shares) lingers(g *group) bool {
	now := *s.time(g)
	return g.waits() && s.clear(g) && (g.tag != now || g.base != now)
}

// wake brings an idle group to the virtual time. Whatever it was served before makes no difference any more, so images
// leave it out.
func (s *Shares) wake(g *group) {
	if now := *s.time(g); s.idle(g) {
		g.tag, g.base, g.rest = now, now, 0
	}
}

// start returns the group's tag if something waits in it or began to now.
func (s *Shares) start(g *group) int64 {
	if g.waits() {
		return g.tag
	}
	return max(g.tag, *s.time(g))
}

// Charge notes that something of the leaf is dispatched, which will cost that by estimate;
// less than 1 counts as 1. For ordering the mean is the best estimate: a high quantile, as
// for reservations, makes every group pay for what is given back later (algorithms.md 1.3).
//
// It should be called before the item is removed from its Backlog: with the last one its
// leaf stops waiting, and loses what it lags behind.
func (s *Shares) Charge(leaf int, cost int64) {
	cost = min(max(cost, 1), costBound)
	for at := int32(leaf); at > 0; at = s.groups[at].parent {
		g := &s.groups[at]
		now := s.time(g)
		if g.waits() && g.tag < *now || s.lingers(g) {
			s.noteMoved(at)
		}
		s.wake(g)
		g.lift(*now - g.span(s.LagCap))
		if !g.waits() {
			g.lift(*now)
		}
		*now = max(*now, g.tag)
		g.move(cost)
		g.open++
		s.put(g)
		if *now-g.origin() >= timeBound {
			s.beginAnew(g.parent, g.kind())
		}
	}
}

// Correct puts right what [Shares.Charge] was given, when it is known; it is called once for
// every charge, also where there is nothing to put right. It is the same cost whatever has
// become of the weights.
//
// A refund brings a tag down to base at most, not to the start of the last dispatch: of
// three calls that were each charged 100 and cost 10, settled after the third was
// dispatched at S+200, the latter would keep 170 of 270 (TestRefundsOfSeveralCalls).
func (s *Shares) Correct(leaf int, estimated, actual int64) {
	s.correct(leaf, min(max(actual, 0), costBound)-min(max(estimated, 1), costBound), 1)
}

// Bill charges the usage of something that has ended: it was corrected to a cost of 0.
func (s *Shares) Bill(leaf int, actual int64) {
	s.correct(leaf, min(max(actual, 0), costBound), 0)
}

// correct moves the tags on by that cost, with which so many calls end.
func (s *Shares) correct(leaf int, by int64, ended int32) {
	for at := int32(leaf); at > 0; at = s.groups[at].parent {
		g := &s.groups[at]
		if s.lingers(g) {
			s.noteMoved(at)
		}
		s.wake(g)
		g.open = max(g.open-ended, 0)
		if by == 0 {
			continue
		}
		// A tag that is further already, by charges, is not brought down.
		most := max(g.tag, *s.time(g)+g.span(s.DebtCap))
		g.move(by)
		g.lift(g.base)
		if g.tag > most {
			g.tag, g.rest = most, 0
		}
		s.put(g)
	}
}

// noteMoved notes that a group moves otherwise than one in which nothing waits.
func (s *Shares) noteMoved(at int32) {
	if g := &s.groups[at]; !g.moved {
		g.moved = true
		s.moved = append(s.moved, at)
	}
}

// Before reports whether leaf a goes before leaf b: by the tags of the two groups in which
// their ways from the root part. A leaf in which nothing waits is taken to begin now.
func (s *Shares) Before(a, b int) bool {
	if a == b {
		return false
	}
	x, y := int32(a), int32(b)
	for s.groups[x].depth > s.groups[y].depth {
		x = s.groups[x].parent
	}
	for s.groups[y].depth > s.groups[x].depth {
		y = s.groups[y].parent
	}
	for s.groups[x].parent != s.groups[y].parent {
		x, y = s.groups[x].parent, s.groups[y].parent
	}
	if start, other := s.start(&s.groups[x]), s.start(&s.groups[y]); start != other {
		return start < other
	}
	return x < y
}

// put the group's flows where they belong after its tag has changed.
func (s *Shares) put(g *group) {
	for _, f := range g.flows {
		if f.index >= 0 {
			f.parent.next.Items[f.index].tag = g.tag
			f.parent.next.Fix(int(f.index))
		}
	}
}

// beginAnew brings the virtual time of the group's children of that kind back to where it
// began, and their tags by as much. The order stays as it is, but for lags of more than
// timeBound, which become equal.
func (s *Shares) beginAnew(parent int32, kind int) {
	p := &s.groups[parent]
	by := p.time[kind] - timeOrigin[kind]
	p.time[kind] -= by
	for i := p.first; i < p.end; i++ {
		if g := &s.groups[i]; g.kind() == kind {
			g.tag = max(g.tag-by, timeOrigin[kind]-timeBound)
			g.base = max(g.base-by, timeOrigin[kind]-timeBound)
		}
	}
	for _, f := range p.flows {
		if due := f.next.Items; len(due) > 0 {
			f.next.Items = due[:0]
			for _, e := range due {
				e.tag = s.groups[e.flow.group].tag
				f.next.Push(e)
			}
		}
	}
}

package fairqueue

import "taskbus/coordinator/fairshare/arith"

// Image is what a restart must restore.
type Image struct {
	// Tags of groups, in the order of the tree; the root has no name. Those without debt that
	// have nothing waiting and nothing open are left out: they begin at the virtual time
	// whatever their tags are.
	Tags []Tags
	// Credit of the priorities, in 2^-32 of a dispatch: see [Shares.Turn].
	Credit [Levels]int64
}

// Tags is where one group stands. All is relative to its parent's virtual time, in units of
// 2^-20 cost by weight, but Time.
type Tags struct {
	Name string
	// Own: of the child that stands for the group's own tasks.
	Own bool
	// Parent is the group that Lead, Base and Rest are relative to; "" is the root.
	Parent string
	// Weight that they were counted with.
	Weight int64
	// Lead of its tag over the virtual time; below 0 it lags. Base is how far a refund may
	// bring it down. Rest of the last division, 0 to Weight-1.
	Lead, Base, Rest int64
	// Time is the virtual time of its children with weight, and of those without, since it
	// began anew. It decides when it does so next, nothing else.
	Time [2]int64
	// Waiting: it has something in a Backlog.
	Waiting bool
	// Open is how many of its calls were charged and not yet put right.
	Open int32
}

// Export says how things stand.
func (s *Shares) Export() Image {
	image := Image{Credit: s.turns.credit}
	for i := range s.groups {
		t := s.tags(i)
		if t.Waiting || t.Open > 0 || t.Lead != 0 || t.Rest != 0 || t.Time != [2]int64{} {
			image.Tags = append(image.Tags, t)
		}
	}
	return image
}

// tags returns where a group stands.
func (s *Shares) tags(i int) Tags {
	g := &s.groups[i]
	t := Tags{Name: g.name, Own: g.own, Weight: g.weight}
	for k := range t.Time {
		t.Time[k] = g.time[k] - timeOrigin[k]
	}
	if i > 0 {
		t.Parent, t.Waiting, t.Open = s.groups[g.parent].name, g.waits(), g.open
		if now := *s.time(g); !s.idle(g) {
			t.Lead, t.Base, t.Rest = g.tag-now, g.base-now, g.rest
		}
	}
	return t
}

// Moved returns where groups stand that have moved since it was called last, and not only by charges and corrections:
// because something waits in them, or began to. Shares in which nothing waits follow by these (see Place).
func (s *Shares) Moved() (all []Tags) {
	for _, at := range s.moved {
		all = append(all, s.tags(int(at)))
		s.groups[at].moved = false
	}
	s.moved = s.moved[:0]
	return all
}

// Place has a group stand where Moved has said, if it is in the tree below the same parent.
func (s *Shares) Place(t *Tags) {
	at, known := s.leaves[t.Name]
	if known && s.groups[at].own && !t.Own {
		at = s.groups[at].parent
	}
	if g := &s.groups[at]; known && g.own == t.Own && s.groups[g.parent].name == t.Parent {
		g.takeOver(t, *s.time(g))
		g.open = max(t.Open, 0)
		s.put(g)
	}
}

// Import restores what Export has said, in the tree as it is now: see [Shares.Install] for
// groups that have another weight or parent since. What is out of range is brought into it.
// Afterwards every Backlog must be rebuilt; groups that were waiting are taken to wait
// on, so that what they lag behind outlasts a restart.
func (s *Shares) Import(image Image) {
	type key struct {
		name string
		own  bool
	}
	s.tree++
	s.moved = s.moved[:0]
	s.turns.takeCredit(image.Credit)
	tags := make(map[key]*Tags, len(image.Tags))
	for i := range image.Tags {
		t := &image.Tags[i]
		tags[key{t.Name, t.Own}] = t
	}
	for i := range s.groups { // parents come first
		g := &s.groups[i]
		g.flows, g.resumes, g.moved, g.open, g.rest, g.time = nil, false, false, 0, 0, timeOrigin
		t := tags[key{g.name, g.own}]
		if t != nil {
			for k := range g.time {
				g.time[k] += min(max(t.Time[k], 0), timeBound-1)
			}
		}
		if i == 0 {
			continue
		}
		now := *s.time(g)
		g.tag, g.base = now, now
		if t == nil {
			continue
		}
		g.resumes, g.open = t.Waiting, max(t.Open, 0)
		if t.Parent == s.groups[g.parent].name {
			g.takeOver(t, now)
		}
	}
}

// takeOver takes over the tags of the same group below the same parent; now is the parent's virtual time.
func (g *group) takeOver(t *Tags, now int64) {
	was, least := min(max(t.Weight, 1), MaxWeight), g.origin()-timeBound
	g.tag = max(now+rescale(t.Lead, was, g.share), least)
	g.base = min(max(now+rescale(t.Base, was, g.share), least), g.tag)
	if g.rest = 0; was == g.share && t.Rest >= 0 && t.Rest < was {
		g.rest = t.Rest
	}
}

// rescale converts a cost at one weight to the same cost at another. No tag leads by more than timeBound,
// or lags by more than twice that.
func rescale(span, was, is int64) int64 {
	if span < 0 {
		return -min(arith.MulDiv(-max(span, -2*timeBound), was, is), 2*timeBound)
	}
	return min(arith.MulDiv(span, was, is), timeBound)
}

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
		g := &s.groups[i]
		t := Tags{Name: g.name, Own: g.own, Weight: g.weight}
		for k := range t.Time {
			t.Time[k] = g.time[k] - timeOrigin[k]
		}
		if i > 0 {
			t.Parent, t.Waiting, t.Open = s.groups[g.parent].name, g.waits(), g.open
			now := *s.time(g)
			if !s.idle(g) {
				t.Lead, t.Base, t.Rest = g.tag-now, g.base-now, g.rest
			}
		}
		if t.Waiting || t.Open > 0 || t.Lead != 0 || t.Rest != 0 || t.Time != [2]int64{} {
			image.Tags = append(image.Tags, t)
		}
	}
	return image
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
	s.turns.takeCredit(image.Credit)
	tags := make(map[key]*Tags, len(image.Tags))
	for i := range image.Tags {
		t := &image.Tags[i]
		tags[key{t.Name, t.Own}] = t
	}
	for i := range s.groups { // parents come first
		g := &s.groups[i]
		g.flows, g.resumes, g.open, g.rest, g.time = nil, false, 0, 0, timeOrigin
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
	if was == g.share && t.Rest >= 0 && t.Rest < was {
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

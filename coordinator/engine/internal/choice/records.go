package choice

import (
	"taskbus/coordinator"
	"taskbus/coordinator/hash"
	"taskbus/coordinator/learning"
)

// TrackRecords are how well the agents do with tasks of one type, by their numbers.
type TrackRecords struct {
	learner *learning.Learner
	kind    *learning.Type
	views   []coordinator.AgentView
	stated  []float64 // see Fleet
	// explores: success rates are drawn, by the chance that the task's hash gives.
	explores bool
	chance   uint64
}

// Salts of the hashes that stand in for chance, so that one choice says nothing of
// another.
const (
	saltExplores = 0x5851f42d4c957f2d
	saltDraw     = 0x14057b7ef767814f
)

// TrackRecords looks up what is known for a task. One that is urgent is no occasion to try an agent, and neither is one
// that has failed to be done before.
func (f *Fleet) TrackRecords(task *coordinator.Task, attempt int, kind *learning.Type, s *coordinator.Strategy,
	seed uint64,
) TrackRecords {
	r := TrackRecords{learner: f.Learner, kind: kind, views: f.Views, stated: f.Stated}
	if s.Exploration <= 0 || attempt > 1 || task.Priority >= coordinator.PriorityHigh {
		return r
	}
	r.explores = hash.Unit(hash.Of(string(task.ID), seed^saltExplores)) < s.Exploration
	if r.explores {
		r.chance = hash.Of(string(task.ID), seed^saltDraw)
	}
	return r
}

// Of returns the track record of agent i.
func (r *TrackRecords) Of(i int) coordinator.Standing {
	known := r.learner.Standing(i, r.kind)
	switch {
	case r.stated != nil && r.stated[i] >= 0:
		known.Success = r.stated[i]
	case r.explores:
		known.Success = r.learner.Draw(i, r.kind, hash.Unit(hash.Mix(r.chance^r.views[i].Hash)))
	}
	return known
}

package simulator

import "math/bits"

// newKinds numbers the task types of a scenario and says what is true of them.
func newKinds(s *Scenario) kinds {
	var k kinds
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if k.number(w.Type) >= 0 {
			continue
		}
		k.names = append(k.names, w.Type)
		var can uint64
		for g := range s.Fleet {
			if s.Fleet[g].capable(w.Required) {
				can |= 1 << g
			}
		}
		k.capable = append(k.capable, can)
	}
	k.mean, k.success = make([][]float64, len(s.Fleet)), make([][]float64, len(s.Fleet))
	for i := range s.Fleet {
		g := &s.Fleet[i]
		for _, name := range k.names {
			k.mean[i] = append(k.mean[i], g.service(name).Mean/g.Speed)
			k.success[i] = append(k.success[i], g.success(name))
		}
		for _, step := range g.Drift {
			k.steps = append(k.steps, driftStep{step, i})
		}
	}
	k.useful = make([]uint64, len(k.names))
	k.seeUseful()
	return k
}

// seeUseful notes which groups may succeed now.
func (k *kinds) seeUseful() {
	for kind := range k.useful {
		k.useful[kind] = 0
		for g := range k.success {
			if k.success[g][kind] > 0 {
				k.useful[kind] |= 1 << g & k.capable[kind]
			}
		}
		k.ever |= k.useful[kind]
	}
}

// number of a task type; −1 when there is none of that name.
func (k *kinds) number(name string) int32 {
	for i, n := range k.names {
		if n == name {
			return int32(i)
		}
	}
	return -1
}

// drift takes one step of a success probability.
func (k *kinds) drift(step int) {
	s := k.steps[step]
	for i, name := range k.names {
		if s.Type == "" || s.Type == name {
			k.success[s.group][i] = s.Rate
		}
	}
	k.seeUseful()
}

// regret is what a decision gives away against the best agent with a free slot, in
// success probability and in the share of the best reward rate, each from 0 to 1.
// All agents of a group are alike, so that the best of any number of agents is
// found by a look at each group. ok is false when none has a free slot: then
// there was nothing to choose.
func (w *world) regret(t *task, a *agent) (success, reward float64, ok bool) {
	k, kind := &w.kinds, t.kind
	candidates := k.capable[kind] & w.tally.freeGroups
	if candidates == 0 {
		return 0, 0, false
	}
	mean := func(g int) float64 {
		if t.size > 0 {
			return t.size / w.scenario.Fleet[g].Speed
		}
		return k.mean[g][kind]
	}
	var bestSuccess, bestReward float64
	for set := candidates; set != 0; set &= set - 1 {
		g := bits.TrailingZeros64(set)
		p := k.success[g][kind]
		bestSuccess = max(bestSuccess, p)
		bestReward = max(bestReward, p/mean(g))
	}
	// Behind a full agent the task waits for as many ends as there are tasks in line
	// beyond the last slot, and with c slots at work one ends every mean/c seconds.
	g := int(a.group)
	slots := float64(w.scenario.Fleet[g].Slots)
	wait := max(0, float64(a.inLine())-slots+1) / slots * mean(g)
	p := k.success[g][kind]
	success = max(0, bestSuccess-p)
	if bestReward > 0 {
		reward = max(0, 1-p/(mean(g)+wait)/bestReward)
	}
	return success, reward, true
}

package config

import "taskbus/coordinator"

// priorityOrder reads how priorities take turns.
func (d *decoder) priorityOrder(o *coordinator.PriorityOrder) reader {
	return func(p place) {
		order := "weighted"
		oneOf(d, &order, "weighted", "strict")(p)
		o.Strict = order == "strict"
	}
}

// priorityWeights reads the weights of the priorities; one that is not named has its default.
func (d *decoder) priorityWeights(o *coordinator.PriorityOrder) reader {
	return func(p place) {
		all := readers{}
		for level := range o.Weights {
			all[coordinator.Priority(level).String()] = whole(d, &o.Weights[level], 1, coordinator.MaxPriorityWeight)
		}
		d.object(p, all)
	}
}

// agedPriorities is why priority_ageing_seconds and low_priority_percent count no more.
const agedPriorities = "priorities take turns by global_settings.priority_weights of agents.yaml; delete the key"

// ignored accepts a key of earlier versions, whatever it says, and notes that and why it counts no more.
func (d *decoder) ignored(notes *[]string, why string) reader {
	return func(p place) {
		if !isNull(p.node) {
			*notes = append(*notes, p.path+" is ignored: "+why)
		}
	}
}

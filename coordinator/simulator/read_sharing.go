package simulator

import "time"

// shareScenario reads the file of a scenario with a sharing section.
func (r *reader) shareScenario(p spot, s *Scenario) {
	s.Drain = 0
	s.Sharing = &Sharing{PerInput: 200 * time.Microsecond, PerOutput: 25 * time.Millisecond, MaxOutput: 4096}
	r.object(p, fields{
		"about":   r.text(&s.About),
		"seeds":   r.seeds(&s.Seeds),
		"sharing": r.sharing(s.Sharing),
	})
	if len(r.faults) == 0 {
		if text := s.Sharing.Excess(len(s.Seeds), s.Sharing.drawn()); text != "" {
			r.fault(p, "%s", text)
		}
	}
}

func (r *reader) sharing(into *Sharing) func(spot) {
	return func(p spot) {
		var weights spot
		r.object(p, fields{
			"slots":                    whole(r, &into.Slots, 1, MaxSlots),
			"seconds_per_input_token":  r.seconds(&into.PerInput, 0, true),
			"seconds_per_output_token": r.seconds(&into.PerOutput, 0, true),
			"max_output_tokens":        whole(r, &into.MaxOutput, 1, maxTokens),
			"tenants": func(p spot) {
				r.list(p, func(item spot) { into.Tenants = append(into.Tenants, r.tenant(item)) })
			},
			"weights": func(p spot) { weights = p },
		}, "slots", "tenants", "weights")
		if len(r.faults) > 0 {
			return
		}
		if n := len(into.Tenants); n < 2 || n > maxTenants {
			r.fault(spot{child(p.node, "tenants"), join(p.path, "tenants")}, "must be a list of 2 to %d, not of %d", maxTenants,
				n)
			return
		}
		r.distinct(p, "tenants", len(into.Tenants), func(i int) string { return into.Tenants[i].Name })
		// They come last, whatever the order of the file: they name tenants.
		r.list(weights, func(item spot) { into.Weights = append(into.Weights, r.tenantWeights(item, into.Tenants)) })
		if n := len(into.Weights); len(r.faults) == 0 && (n < 1 || n > maxVariants) {
			r.fault(weights, "must be a list of 1 to %d, not of %d", maxVariants, n)
		}
	}
}

// tenantWeights reads the weights of all tenants, by their names.
func (r *reader) tenantWeights(p spot, tenants []Tenant) []int64 {
	read, known := make([]uint64, len(tenants)), make(fields)
	var required []string
	for i := range tenants {
		known[tenants[i].Name] = whole(r, &read[i], 1, MaxTenantWeight)
		required = append(required, tenants[i].Name)
	}
	r.object(p, known, required...)
	weights := make([]int64, len(tenants))
	for i, w := range read {
		weights[i] = int64(w)
	}
	return weights
}

func (r *reader) tenant(p spot) Tenant {
	t := Tenant{SpeedUp: 1}
	before := len(r.faults)
	r.object(p, fields{
		"name": r.name(&t.Name),
		"trace": func(p spot) {
			r.object(p, fields{"name": r.text(&t.Trace), "speed_up": r.number(&t.SpeedUp, 0.001, 1e6)}, "name")
		},
		"calls": func(p spot) {
			r.object(p, fields{
				"count":         whole(r, &t.Calls.Count, 1, maxCalls),
				"rate":          r.number(&t.Calls.Rate, 0.001, 1e6),
				"input_tokens":  r.distribution(&t.Calls.Input),
				"output_tokens": r.distribution(&t.Calls.Output),
			}, "count", "rate", "input_tokens", "output_tokens")
		},
	}, "name")
	if len(r.faults) == before && (t.Trace == "") == (t.Calls.Count == 0) {
		r.fault(p, "must have either a trace or calls, which chance makes")
	}
	return t
}

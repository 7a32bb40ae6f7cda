package simulator

import (
	"time"

	"taskbus/config/yamlconf"
)

// shareScenario reads the file of a scenario with a sharing section.
func (r *reader) shareScenario(p spot, s *Scenario) {
	s.Drain = 0
	s.Sharing = &Sharing{PerInput: 200 * time.Microsecond, PerOutput: 25 * time.Millisecond, MaxOutput: 4096}
	r.Object(p, fields{
		"about":   r.text(&s.About),
		"seeds":   r.seeds(&s.Seeds),
		"sharing": r.sharing(s.Sharing),
	})
	if len(r.Faults) == 0 {
		if text := s.Sharing.Excess(len(s.Seeds), s.Sharing.drawn()); text != "" {
			r.Fault(p, "%s", text)
		}
	}
}

func (r *reader) sharing(into *Sharing) yamlconf.Reader {
	return func(p spot) {
		var weights spot
		r.object(p, fields{
			"slots":                    r.Whole(&into.Slots, 1, MaxSlots),
			"seconds_per_input_token":  r.above0(&into.PerInput),
			"seconds_per_output_token": r.above0(&into.PerOutput),
			"max_output_tokens":        r.Whole(&into.MaxOutput, 1, maxTokens),
			"tenants":                  listOf(r, &into.Tenants, "tenants", r.tenant),
			"weights":                  weights.Here,
		}, "slots", "tenants", "weights")
		if len(r.Faults) > 0 || !r.within(p, "tenants", len(into.Tenants), 2, maxTenants) {
			return
		}
		distinct(r, p, "tenants", into.Tenants, "name", func(t *Tenant) string { return t.Name })
		// They come last, whatever the order of the file: they name tenants.
		r.Items(weights, "weights of all tenants", func(item spot) {
			into.Weights = append(into.Weights, r.tenantWeights(item, into.Tenants))
		})
		if len(r.Faults) == 0 {
			r.within(p, "weights", len(into.Weights), 1, maxVariants)
		}
	}
}

// tenantWeights reads the weights of all tenants, by their names.
func (r *reader) tenantWeights(p spot, tenants []Tenant) []int64 {
	weights, known := make([]int64, len(tenants)), make(fields)
	var required []string
	for i := range tenants {
		known[tenants[i].Name] = r.Whole(&weights[i], 1, MaxTenantWeight)
		required = append(required, tenants[i].Name)
	}
	r.object(p, known, required...)
	return weights
}

func (r *reader) tenant(t *Tenant) yamlconf.Reader {
	return func(p spot) {
		t.SpeedUp = 1
		before := len(r.Faults)
		r.object(p, fields{
			"name": r.Text(&t.Name, aName),
			"trace": func(p spot) {
				r.object(p, fields{"name": r.text(&t.Trace), "speed_up": r.Number(&t.SpeedUp, 0.001, 1e6)}, "name")
			},
			"calls": func(p spot) {
				r.object(p, fields{
					"count":         r.Whole(&t.Calls.Count, 1, maxCalls),
					"rate":          r.Number(&t.Calls.Rate, 0.001, 1e6),
					"input_tokens":  r.distribution(&t.Calls.Input),
					"output_tokens": r.distribution(&t.Calls.Output),
				}, "count", "rate", "input_tokens", "output_tokens")
			},
		}, "name")
		if len(r.Faults) == before && (t.Trace == "") == (t.Calls.Count == 0) {
			r.Fault(p, "must have either a trace or calls, which chance makes")
		}
	}
}

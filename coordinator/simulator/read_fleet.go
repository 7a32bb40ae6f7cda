package simulator

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/coordinator"
)

// group reads one item of fleet.
func (r *reader) group(p spot) Group {
	g := Group{
		Count: 1, Slots: 1, Speed: 1, Success: 1, Rank: 3, Reports: ReportFull,
		Heartbeat: 10 * time.Second, AcceptTimeout: time.Minute, MTTR: time.Minute,
	}
	var stated float64
	r.object(p, fields{
		"name":             r.name(&g.Name),
		"count":            whole(r, &g.Count, 0, maxAgents),
		"slots":            whole(r, &g.Slots, 1, 1_000_000),
		"advertised_slots": whole(r, &g.Advertised, 1, math.MaxInt32),
		"capabilities":     r.names(&g.Capabilities),
		"service":          r.distribution(&g.Service),
		"service_by_type":  r.distributions(&g.ServiceByType),
		"speed":            r.number(&g.Speed, 0, 1e6, true),
		"success_rate":     r.number(&g.Success, 0, 1),
		"success_by_type":  r.rates(&g.SuccessByType),
		"stated_success_rate": func(p spot) {
			g.Stated = &stated
			r.number(g.Stated, 0, 1)(p)
		},
		"drift":                  r.drift(&g.Drift),
		"heartbeat_seconds":      r.seconds(&g.Heartbeat, leastSetting),
		"heartbeat_loss":         r.number(&g.Loss, 0, 1),
		"silent":                 r.windows(&g.Silent),
		"crash":                  r.crash(&g),
		"reports":                oneOf(r, &g.Reports, ReportFull, ReportResults, ReportHeartbeats),
		"busy_when_full":         r.boolean(&g.BusyWhenFull),
		"join_at_seconds":        r.seconds(&g.JoinAt, 0),
		"accept_timeout_seconds": r.seconds(&g.AcceptTimeout, 0, true),
		"rank":                   whole(r, &g.Rank, 1, 5),
		"cost":                   r.number(&g.Cost, 0, 1e9),
		"labels":                 r.labels(&g.Labels),
	}, "name", "capabilities", "service")
	g.Advertised = cmp.Or(g.Advertised, g.Slots)
	r.slowEnough(spot{child(p.node, "service"), join(p.path, "service")}, g.Service, g.Speed)
	byType := child(p.node, "service_by_type")
	for _, name := range slices.Sorted(maps.Keys(g.ServiceByType)) {
		r.slowEnough(spot{child(byType, name), join(join(p.path, "service_by_type"), name)}, g.ServiceByType[name], g.Speed)
	}
	return g
}

// slowEnough checks that work at that speed still takes time.
func (r *reader) slowEnough(p spot, d Distribution, speed float64) {
	if d.Mean > 0 && d.Mean/speed < leastService {
		r.fault(p, "its mean divided by speed must be at least %g seconds, not %.3g; give a lower speed", leastService,
			d.Mean/speed)
	}
}

// distribution reads a distribution: a number, which is a constant, or one shape
// with what it needs.
func (r *reader) distribution(into *Distribution) func(spot) {
	const least, most = leastService, maxSeconds
	return func(p spot) {
		if p.node.Kind == yaml.ScalarNode {
			into.Shape = Constant
			r.number(&into.Mean, least, most)(p)
			return
		}
		if len(p.node.Content) != 2 {
			r.fault(p, "must be a number of seconds or one of constant, exponential, lognormal, e.g. {exponential: {mean: 10}}")
			return
		}
		shape := func(shape Shape, known fields, required ...string) func(spot) {
			return func(p spot) {
				into.Shape = shape
				known["mean"] = r.number(&into.Mean, least, most)
				r.object(p, known, append(required, "mean")...)
			}
		}
		r.object(p, fields{
			"constant":    shape(Constant, fields{}),
			"exponential": shape(Exponential, fields{}),
			"lognormal":   shape(Lognormal, fields{"sigma": r.number(&into.Sigma, 0, 5)}, "sigma"),
		})
	}
}

func (r *reader) distributions(into *map[string]Distribution) func(spot) {
	return func(p spot) {
		*into = make(map[string]Distribution)
		r.entries(p, func(key string, _, value spot) {
			var d Distribution
			r.distribution(&d)(value)
			(*into)[key] = d
		})
	}
}

func (r *reader) rates(into *map[string]float64) func(spot) {
	return func(p spot) {
		*into = make(map[string]float64)
		r.entries(p, func(key string, _, value spot) {
			var rate float64
			r.number(&rate, 0, 1)(value)
			(*into)[key] = rate
		})
	}
}

func (r *reader) drift(into *[]Step) func(spot) {
	return func(p spot) {
		r.list(p, func(item spot) {
			var s Step
			r.object(item, fields{
				"at_seconds": r.seconds(&s.At, 0),
				"rate":       r.number(&s.Rate, 0, 1),
				"task_type":  r.name(&s.Type),
			}, "at_seconds", "rate")
			*into = append(*into, s)
		})
	}
}

func (r *reader) windows(into *[]Window) func(spot) {
	return func(p spot) {
		r.list(p, func(item spot) {
			var w Window
			r.object(item, fields{"from_seconds": r.seconds(&w.From, 0), "to_seconds": r.seconds(&w.To, 0)},
				"from_seconds", "to_seconds")
			*into = append(*into, w)
		})
	}
}

func (r *reader) crash(g *Group) func(spot) {
	return func(p spot) {
		r.object(p, fields{
			"mtbf_seconds": r.seconds(&g.MTBF, 0, true),
			"mttr_seconds": r.seconds(&g.MTTR, 0, true),
		}, "mtbf_seconds", "mttr_seconds")
	}
}

// workload reads one item of workloads.
func (r *reader) workload(p spot) Workload {
	w := Workload{Timeout: defaultTimeout}
	w.Priorities[coordinator.PriorityNormal] = 1
	r.object(p, fields{
		"task_type":             r.name(&w.Type),
		"required_capabilities": r.names(&w.Required),
		"arrivals":              r.arrivals(&w.Arrivals),
		"priorities":            r.priorities(&w.Priorities),
		"from_seconds":          r.seconds(&w.From, 0),
		"until_seconds":         r.seconds(&w.Until, 0, true),
		"count":                 whole(r, &w.Count, 1, 100_000_000),
		"timeout_seconds":       r.seconds(&w.Timeout, 0, true),
		"labels":                r.labels(&w.Labels),
	}, "task_type", "required_capabilities", "arrivals")
	return w
}

// arrivals reads one way in which tasks arrive.
func (r *reader) arrivals(into *Arrivals) func(spot) {
	return func(p spot) {
		if p.node.Kind == yaml.MappingNode && len(p.node.Content) != 2 {
			r.fault(p, "must be exactly one of poisson, constant, bursts, closed, trace, e.g. {poisson: {rate: 5}}")
			return
		}
		kind := func(kind ArrivalKind, known fields, required ...string) func(spot) {
			return func(p spot) {
				into.Kind = kind
				r.object(p, known, required...)
			}
		}
		into.Trace.SpeedUp = 1
		rate := fields{"rate": r.number(&into.Rate, 0, 1e6, true)}
		r.object(p, fields{
			"poisson":  kind(ArrivePoisson, rate, "rate"),
			"constant": kind(ArriveConstant, rate, "rate"),
			"bursts": kind(ArriveBursts, fields{
				"every_seconds": r.seconds(&into.Every, 0, true), "size": whole(r, &into.Size, 1, 1_000_000),
			}, "every_seconds", "size"),
			"closed": kind(ArriveClosed, fields{"tasks": whole(r, &into.Size, 1, 1_000_000)}, "tasks"),
			"trace": kind(ArriveTrace, fields{
				"name":                     r.text(&into.Trace.Name),
				"speed_up":                 r.number(&into.Trace.SpeedUp, 0, 1e6, true),
				"seconds_per_input_token":  r.number(&into.Trace.PerInput, 0, 1e3),
				"seconds_per_output_token": r.number(&into.Trace.PerOutput, 0, 1e3),
			}, "name", "seconds_per_input_token", "seconds_per_output_token"),
		})
	}
}

// priorities reads weights by the names of the priorities, and makes shares of them.
func (r *reader) priorities(into *[4]float64) func(spot) {
	return func(p spot) {
		var weights [4]float64
		known, sum := make(fields), 0.0
		for i := range weights {
			known[coordinator.Priority(i).String()] = r.number(&weights[i], 0, 1e6)
		}
		r.object(p, known)
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			r.fault(p, "must give at least one priority a weight above 0")
			return
		}
		for i := range weights {
			into[i] = weights[i] / sum
		}
	}
}

// child is the value of a key of a mapping, or the mapping where there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return n
}

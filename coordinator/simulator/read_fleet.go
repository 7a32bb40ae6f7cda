package simulator

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// group reads one item of fleet.
func (r *reader) group(g *Group) yamlconf.Reader {
	return func(p spot) {
		*g = Group{
			Count: 1, Slots: 1, Speed: 1, Success: 1, Rank: 3, Reports: ReportFull,
			Heartbeat: 10 * time.Second, AcceptTimeout: time.Minute, MTTR: time.Minute,
		}
		r.object(p, fields{
			"name":             r.Text(&g.Name, aName),
			"count":            r.Whole(&g.Count, 0, maxAgents),
			"slots":            r.Whole(&g.Slots, 1, 1_000_000),
			"advertised_slots": r.Whole(&g.Advertised, 1, math.MaxInt32),
			"capabilities":     r.Words(&g.Capabilities, "capabilities", aName),
			"service":          r.distribution(&g.Service),
			"service_by_type":  mapOf(r, &g.ServiceByType, "task types to times", r.distribution),
			"speed":            r.Above(&g.Speed, 0, 1e6),
			"success_rate":     r.Number(&g.Success, 0, 1),
			"success_by_type":  mapOf(r, &g.SuccessByType, "task types to rates", r.rate),
			"stated_success_rate": func(p spot) {
				g.Stated = new(float64)
				r.rate(g.Stated)(p)
			},
			"drift":                  listOf(r, &g.Drift, "steps", r.step),
			"heartbeat_seconds":      r.seconds(&g.Heartbeat, leastSetting),
			"heartbeat_loss":         r.Number(&g.Loss, 0, 1),
			"silent":                 listOf(r, &g.Silent, "spans of time", r.window),
			"crash":                  r.crash(g),
			"reports":                r.OneOf(&g.Reports, reports...),
			"busy_when_full":         r.Bool(&g.BusyWhenFull),
			"join_at_seconds":        r.seconds(&g.JoinAt, 0),
			"accept_timeout_seconds": r.above0(&g.AcceptTimeout),
			"rank":                   r.Whole(&g.Rank, 1, 5),
			"cost":                   r.Number(&g.Cost, 0, 1e9),
			"labels":                 mapOf(r, &g.Labels, "labels to texts", r.text),
		}, "name", "capabilities", "service")
		g.Advertised = cmp.Or(g.Advertised, g.Slots)
		r.slowEnough(p.Child("service", p), g.Service, g.Speed)
		byType := p.Child("service_by_type", p)
		for _, name := range slices.Sorted(maps.Keys(g.ServiceByType)) {
			r.slowEnough(byType.Child(name, byType), g.ServiceByType[name], g.Speed)
		}
	}
}

// reports are the words of Reports.
var reports = []string{string(ReportFull), string(ReportResults), string(ReportHeartbeats)}

// slowEnough checks that work at that speed still takes time.
func (r *reader) slowEnough(p spot, d Distribution, speed float64) {
	if d.Mean > 0 && d.Mean/speed < leastService {
		r.Fault(p, "its mean divided by speed must be at least %g seconds, not %.3g; give a lower speed", leastService,
			d.Mean/speed)
	}
}

func (r *reader) rate(into *float64) yamlconf.Reader { return r.Number(into, 0, 1) }

// distribution reads a distribution: a number, which is a constant, or one shape
// with what it needs.
func (r *reader) distribution(into *Distribution) yamlconf.Reader {
	mean := r.Number(&into.Mean, leastService, maxSeconds)
	shape := func(shape Shape, known fields, required ...string) yamlconf.Reader {
		return func(p spot) {
			into.Shape, known["mean"] = shape, mean
			r.object(p, known, append(required, "mean")...)
		}
	}
	return func(p spot) {
		switch {
		case p.Scalar():
			into.Shape = Constant
			mean(p)
		case len(p.Node.Content) != 2:
			r.Fault(p, "must be a number of seconds or one of constant, exponential, lognormal, e.g. {exponential: {mean: 10}}")
		default:
			r.Object(p, fields{
				"constant":    shape(Constant, fields{}),
				"exponential": shape(Exponential, fields{}),
				"lognormal":   shape(Lognormal, fields{"sigma": r.Number(&into.Sigma, 0, 5)}, "sigma"),
			})
		}
	}
}

// step reads one step of drift.
func (r *reader) step(s *Step) yamlconf.Reader {
	return func(p spot) {
		r.object(p, fields{"at_seconds": r.seconds(&s.At, 0), "rate": r.rate(&s.Rate), "task_type": r.Text(&s.Type, aName)},
			"at_seconds", "rate")
	}
}

func (r *reader) window(w *Window) yamlconf.Reader {
	return func(p spot) {
		r.object(p, fields{"from_seconds": r.seconds(&w.From, 0), "to_seconds": r.seconds(&w.To, 0)},
			"from_seconds", "to_seconds")
	}
}

func (r *reader) crash(g *Group) yamlconf.Reader {
	return func(p spot) {
		r.object(p, fields{"mtbf_seconds": r.above0(&g.MTBF), "mttr_seconds": r.above0(&g.MTTR)},
			"mtbf_seconds", "mttr_seconds")
	}
}

// workload reads one item of workloads.
func (r *reader) workload(w *Workload) yamlconf.Reader {
	return func(p spot) {
		w.Timeout = defaultTimeout
		w.Priorities[coordinator.PriorityNormal] = 1
		r.object(p, fields{
			"task_type":             r.Text(&w.Type, aName),
			"required_capabilities": r.Words(&w.Required, "capabilities", aName),
			"arrivals":              r.arrivals(&w.Arrivals),
			"priorities":            r.priorities(&w.Priorities),
			"from_seconds":          r.seconds(&w.From, 0),
			"until_seconds":         r.above0(&w.Until),
			"count":                 r.Whole(&w.Count, 1, 100_000_000),
			"timeout_seconds":       r.above0(&w.Timeout),
			"labels":                mapOf(r, &w.Labels, "labels to texts", r.text),
		}, "task_type", "required_capabilities", "arrivals")
	}
}

// arrivals reads one way in which tasks arrive.
func (r *reader) arrivals(into *Arrivals) yamlconf.Reader {
	return func(p spot) {
		if p.CanHaveKeys() && len(p.Node.Content) != 2 {
			r.Fault(p, "must be exactly one of poisson, constant, bursts, closed, trace, e.g. {poisson: {rate: 5}}")
			return
		}
		kind := func(kind ArrivalKind, known fields, required ...string) yamlconf.Reader {
			return func(p spot) {
				into.Kind = kind
				r.object(p, known, required...)
			}
		}
		into.Trace.SpeedUp = 1
		rate := fields{"rate": r.Above(&into.Rate, 0, 1e6)}
		r.Object(p, fields{
			"poisson":  kind(ArrivePoisson, rate, "rate"),
			"constant": kind(ArriveConstant, rate, "rate"),
			"bursts": kind(ArriveBursts, fields{
				"every_seconds": r.above0(&into.Every), "size": r.Whole(&into.Size, 1, 1_000_000),
			}, "every_seconds", "size"),
			"closed": kind(ArriveClosed, fields{"tasks": r.Whole(&into.Size, 1, 1_000_000)}, "tasks"),
			"trace": kind(ArriveTrace, fields{
				"name":                     r.text(&into.Trace.Name),
				"speed_up":                 r.Above(&into.Trace.SpeedUp, 0, 1e6),
				"seconds_per_input_token":  r.Number(&into.Trace.PerInput, 0, 1e3),
				"seconds_per_output_token": r.Number(&into.Trace.PerOutput, 0, 1e3),
			}, "name", "seconds_per_input_token", "seconds_per_output_token"),
		})
	}
}

// priorities reads weights by the names of the priorities, and makes shares of them.
func (r *reader) priorities(into *[4]float64) yamlconf.Reader {
	return func(p spot) {
		var weights [4]float64
		known, sum := make(fields), 0.0
		for i := range weights {
			known[coordinator.Priority(i).String()] = r.Number(&weights[i], 0, 1e6)
		}
		r.Object(p, known)
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			r.Fault(p, "must give at least one priority a weight above 0")
			return
		}
		for i := range weights {
			into[i] = weights[i] / sum
		}
	}
}

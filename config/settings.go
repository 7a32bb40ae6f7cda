package config

import (
	"net/netip"
	"net/url"
	"time"

	"taskbus/config/quotas"
	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// The limits of global_settings that have a reason beyond good sense.
const (
	// maxSeed is the largest whole number that every JSON reader keeps exact.
	maxSeed = 1<<53 - 1
	// mostMessageBytes is far below what RabbitMQ takes (128 MiB and more), and
	// what a coordinator can still hold thousands of.
	mostMessageBytes = 8 << 20
	// mostMetricsAgents is how many agents have series of their own at most: each has a dozen.
	mostMetricsAgents = 1000
)

// defaultLearning and defaultBreaker are the defaults of the packages learning and
// breaker, written out so that a file that repeats them has the same version.
func defaultLearning() coordinator.Learning {
	return coordinator.Learning{Prior: 0.9, PriorWeight: 10, HalfLife: 24 * time.Hour, HalfLifeOutcomes: 200}
}

func defaultBreaker() coordinator.Breaker {
	return coordinator.Breaker{Consecutive: 5, Base: 30 * time.Second, Longest: 300 * time.Second, MaxShare: 0.1}
}

// root reads the whole file into c.
func (d *decoder) root(p place, c *Config) {
	s := &c.policy.Settings
	l, b := &s.Learning, &s.Breaker
	hours, breaks := l.HalfLife.Hours(), !b.Off
	d.Object(p, readers{
		"agents":                d.agents(c),
		"task_routing":          d.routes(c),
		"assignment_strategies": d.strategies(c),
		"global_settings":       d.Section(d.settings(c)),
		"learning": d.Section(readers{
			"prior":              d.Number(&l.Prior, 0.001, 0.999),
			"prior_weight":       d.Number(&l.PriorWeight, 0.1, 10_000),
			"half_life_hours":    d.Number(&hours, 0.01, 8760),
			"half_life_outcomes": d.Number(&l.HalfLifeOutcomes, 1, 1e6),
		}),
		"circuit_breaker": d.Section(readers{
			"enabled":            d.Bool(&breaks),
			"consecutive_faults": d.Whole(&b.Consecutive, 1, 1000),
			"base_seconds":       d.Seconds(&b.Base, 1, yamlconf.Day),
			"longest_seconds":    d.Seconds(&b.Longest, 1, yamlconf.Day),
			"max_ejected_share":  d.Above(&b.MaxShare, 0, 1),
		}),
		"discovery": d.discovery(c),
		"dedupe": d.Section(readers{
			"window_seconds": d.Seconds(&s.DedupeWindow, 1, 7*yamlconf.Day),
			"max_ids":        d.Whole(&s.DedupeMaxIDs, 1, 10_000_000),
		}),
		"journal": d.Section(readers{
			"enabled":                 d.Bool(&c.Journal),
			"record_inputs":           d.Bool(&c.RecordInputs),
			"record_inputs_max_bytes": d.Whole(&c.RecordInputsBytes, 1<<20, 1<<40),
		}),
		"topology": d.OneOf(&c.Topology, string(TopologyDeclare), string(TopologyVerify), string(TopologyOff)),
		"queues":   d.OneOf(&c.Queues, string(QueuesQuorum), string(QueuesClassic)),
		"http": d.Section(readers{
			"bind":                     d.bind(&c.HTTPBind),
			"advertise_url":            d.advertiseURL(&c.AdvertiseURL),
			"legacy_ratelimit_headers": d.Bool(&c.LegacyRateLimitHeaders),
		}),
		"events": d.Section(readers{"task_dispatched": d.Bool(&c.TaskDispatchedEvents)}),
		"log": d.Section(readers{
			"tasks": d.OneOf(&c.LogTasks, string(LogTasksAll), string(LogTasksFailures), string(LogTasksNone)),
		}),
		"metrics": d.Section(readers{"agents": d.Whole(&c.MetricsAgents, 0, mostMetricsAgents)}),
	})
	l.HalfLife, b.Off = time.Duration(hours*float64(time.Hour)), !breaks
	d.Later(func() { d.checkSections(p, c) })
	d.Later(func() { d.checkServed(p, c) })
	d.Need(p, "agents", "; list the fleet under it, or write `agents: {}` if there is none yet")
}

// settings are the keys of the section `global_settings`.
func (d *decoder) settings(c *Config) readers {
	s := &c.policy.Settings
	weights := readers{}
	for level := range s.Priorities.Weights {
		weights[coordinator.Priority(level).String()] = d.Whole(&s.Priorities.Weights[level], 1,
			coordinator.MaxPriorityWeight)
	}
	return readers{
		"max_retry_attempts":            d.Whole(&s.MaxRetryAttempts, 0, 100),
		"poisoned_after_agents":         d.Whole(&s.PoisonedAfter, 1, 100),
		"stale_agent_threshold_seconds": d.Seconds(&s.StaleAfter, 2, yamlconf.Day),
		"max_queue_size":                d.Whole(&s.MaxQueueSize, 1, 10_000_000),
		"assignment_timeout_seconds":    d.Seconds(&s.AssignmentTimeout, 0, yamlconf.Day),
		"assignment_timeout_counts":     d.OneOf(&s.CountsWaiting, "stuck", "waiting"),
		"lanes":                         d.lanes(c),
		"max_load":                      d.Above(&s.MaxLoad, 0, 1),
		"eligible_statuses":             d.eligibleStatuses(&s.BusyIsEligible),
		"priority_order":                d.OneOf(&s.Priorities.Strict, "weighted", "strict"),
		"priority_weights":              d.Section(weights),
		"priority_ageing_seconds":       d.Ignored(&c.ignored, quotas.AgedPriorities),
		"broker_consumer_timeout_seconds": d.Seconds(&c.BrokerConsumerTimeout, 180, 31*yamlconf.Day,
			"(a task may take as long as this less 120)"),
		"max_message_bytes":       d.Whole(&c.MaxMessageBytes, 1024, mostMessageBytes),
		"max_output_bytes":        d.Whole(&c.MaxOutputBytes, 1024, mostMessageBytes),
		"window":                  d.Whole(&c.Window, 1, 100_000),
		"window_bytes":            d.Whole(&c.WindowBytes, 1<<20, 64<<30),
		"shutdown_grace_seconds":  d.Seconds(&c.ShutdownGrace, 1, 3600),
		"seed":                    d.Whole(&s.Seed, 0, maxSeed),
		"suspect_after_intervals": d.Whole(&s.SuspectIntervals, 0, 1000),
		"dead_after_intervals":    d.Whole(&s.DeadIntervals, 0, 1000),
		"refuse_backlogged":       d.Bool(&s.RefuseBacklogged),
		"slow_start_seconds":      d.Seconds(&s.SlowStart, 0, 3600),
		"explain_dispatches":      d.Bool(&c.ExplainDispatches),
		"refuse_unserved":         d.Bool(&c.RefuseUnserved),
		"strict_messages":         d.Bool(&c.StrictMessages),
	}
}

// checkSections holds settings of one section against each other. p is the whole file. A setting that is itself at
// fault is held against none.
func (d *decoder) checkSections(p place, c *Config) {
	s := &c.policy.Settings
	check := func(wrong bool, section, key, other, format string, args ...any) {
		in := p.Child(section, p)
		at := in.Child(key, in)
		if wrong && !d.Faulty(at.Path) && (other == "" || !d.Faulty(in.Child(other, in).Path)) {
			d.Fault(at, format, args...)
		}
	}
	check(s.DeadIntervals > 0 && s.DeadIntervals <= s.SuspectIntervals, "global_settings", "dead_after_intervals", "",
		"%d is not above suspect_after_intervals (%d): an agent would be dead before it is suspect; raise this or lower that",
		s.DeadIntervals, s.SuspectIntervals)
	check(c.WindowBytes < int64(c.MaxMessageBytes), "global_settings", "window_bytes", "max_message_bytes",
		"%d is less than max_message_bytes (%d): the largest task would never fit; raise this or lower that",
		c.WindowBytes, c.MaxMessageBytes)
	check(s.Breaker.Longest < s.Breaker.Base, "circuit_breaker", "longest_seconds", "base_seconds",
		"%d is less than base_seconds (%d): the first ejection would be longer than the longest; raise this or lower that",
		s.Breaker.Longest/time.Second, s.Breaker.Base/time.Second)
	check(c.RecordInputs && !c.Journal, "journal", "record_inputs", "",
		"inputs are recorded in the journal, which is switched off; set journal.enabled to true")
}

// eligibleStatuses reads which reported statuses may get work: always ready, and
// busy if listed.
func (d *decoder) eligibleStatuses(busy *bool) reader {
	return func(p place) {
		before, ready := len(d.Faults), p.Null()
		d.List(p, "statuses", func(item place) {
			var status string
			d.OneOf(&status, "ready", "busy")(item)
			ready = ready || status == "ready"
			*busy = *busy || status == "busy"
		})
		if !ready && len(d.Faults) == before {
			d.Fault(p, "must contain ready: without it an idle agent would get nothing; write [ready] or [ready, busy]")
		}
	}
}

// bind reads the address of the HTTP server.
func (d *decoder) bind(into *string) reader {
	return func(p place) {
		bind := p.Node.Value
		if _, err := netip.ParseAddr(bind); !p.Scalar() || err != nil && bind != "localhost" {
			d.Fault(p,
				"must be an IP address such as 127.0.0.1 or 0.0.0.0, or localhost, without a port (COORDINATOR_PORT gives "+
					"that), not %s", p.Found())
			return
		}
		*into = bind
	}
}

// aURL is what the URL of a coordinator looks like.
var aURL = yamlconf.NewForm(`^https?://[^/?#@]+$`, "the URL at which the other coordinators reach this one, such as "+
	"http://taskbus-1:8551: without user, query or path")

// advertiseURL reads where the other coordinators reach this one.
func (d *decoder) advertiseURL(into *string) reader {
	return func(p place) {
		text, ok := d.Take(p, aURL)
		switch {
		case !ok:
		case badURL(text) != "":
			d.Fault(p, "must be %s, not %s", aURL.Says, p.Found())
		default:
			*into = text
		}
	}
}

// badURL says what is wrong with the URL of a coordinator; empty: nothing.
func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case !aURL.Pattern.MatchString(text):
		return "it must be http:// or https://, a host and a port"
	case err != nil || u.Host == "":
		return "it is no URL"
	}
	return ""
}

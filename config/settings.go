package config

import (
	"net/netip"
	"net/url"
	"regexp"

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

// root reads the whole file into c.
func (d *decoder) root(p place, c *Config) {
	d.object(p, readers{
		"agents":                d.agents(c),
		"task_routing":          d.routes(c),
		"assignment_strategies": d.strategies(c),
		"global_settings":       d.settings(c),
		"learning":              d.learning(c),
		"circuit_breaker":       d.breaker(c),
		"discovery":             d.discovery(c),
		"dedupe":                d.dedupe(c),
		"journal":               d.journal(c),
		"topology":              oneOf(d, &c.Topology, TopologyDeclare, TopologyVerify, TopologyOff),
		"queues":                oneOf(d, &c.Queues, QueuesQuorum, QueuesClassic),
		"http":                  d.http(c),
		"events":                d.events(c),
		"log":                   d.log(c),
		"metrics":               d.metrics(c),
	})
	d.later(func() { d.checkServed(p, c) })
	if canHaveKeys(p.node) && !has(p.node, "agents") {
		d.fault(place{p.node, "agents"}, "is missing; list the fleet under it, or write `agents: {}` if there is none yet")
	}
}

// settings reads the section `global_settings`.
func (d *decoder) settings(c *Config) reader {
	s := &c.policy.Settings
	return func(p place) {
		d.object(p, readers{
			"max_retry_attempts":            whole(d, &s.MaxRetryAttempts, 0, 100),
			"poisoned_after_agents":         whole(d, &s.PoisonedAfter, 1, 100),
			"stale_agent_threshold_seconds": d.seconds(&s.StaleAfter, 2, day),
			"max_queue_size":                whole(d, &s.MaxQueueSize, 1, 10_000_000),
			"assignment_timeout_seconds":    d.seconds(&s.AssignmentTimeout, 0, day),
			"assignment_timeout_counts":     d.timeoutCounts(s),
			"lanes":                         d.lanes(c),
			"max_load":                      d.fraction(&s.MaxLoad),
			"eligible_statuses":             d.eligibleStatuses(&s.BusyIsEligible),
			"priority_order":                d.priorityOrder(&s.Priorities),
			"priority_weights":              d.priorityWeights(&s.Priorities),
			"priority_ageing_seconds":       d.ignored(&c.ignored, agedPriorities),
			"broker_consumer_timeout_seconds": d.seconds(&c.BrokerConsumerTimeout, 180, 31*day,
				"(a task may take as long as this less 120)"),
			"max_message_bytes":       whole(d, &c.MaxMessageBytes, 1024, mostMessageBytes),
			"window":                  whole(d, &c.Window, 1, 100_000),
			"window_bytes":            whole(d, &c.WindowBytes, 1<<20, 64<<30),
			"shutdown_grace_seconds":  d.seconds(&c.ShutdownGrace, 1, 3600),
			"seed":                    whole(d, &s.Seed, 0, maxSeed),
			"suspect_after_intervals": whole(d, &s.SuspectIntervals, 0, 1000),
			"dead_after_intervals":    whole(d, &s.DeadIntervals, 0, 1000),
			"refuse_backlogged":       d.boolean(&s.RefuseBacklogged),
			"slow_start_seconds":      d.seconds(&s.SlowStart, 0, 3600),
			"explain_dispatches":      d.boolean(&c.ExplainDispatches),
			"refuse_unserved":         d.boolean(&c.RefuseUnserved),
			"strict_messages":         d.boolean(&c.StrictMessages),
		})
		d.later(func() { d.checkIntervals(p, s) })
		d.later(func() {
			const name = "global_settings.window_bytes"
			if c.WindowBytes < int64(c.MaxMessageBytes) && !d.faulty(name) && !d.faulty("global_settings.max_message_bytes") {
				d.fault(child(p, "window_bytes", p),
					"%d is less than max_message_bytes (%d): the largest task would never fit; raise this or lower that",
					c.WindowBytes, c.MaxMessageBytes)
			}
		})
	}
}

// timeoutCounts reads for which time the assignment timeout is meant.
func (d *decoder) timeoutCounts(s *coordinator.Settings) reader {
	return func(p place) {
		const waiting = "waiting"
		counts := "stuck"
		oneOf(d, &counts, counts, waiting)(p)
		s.CountsWaiting = counts == waiting
	}
}

// eligibleStatuses reads which reported statuses may get work: always ready, and
// busy if listed.
func (d *decoder) eligibleStatuses(busy *bool) reader {
	return func(p place) {
		before, ready := len(d.faults), isNull(p.node)
		d.list(p, "statuses", func(item place) {
			var status string
			oneOf(d, &status, "ready", "busy")(item)
			ready = ready || status == "ready"
			*busy = *busy || status == "busy"
		})
		if !ready && len(d.faults) == before {
			d.fault(p, "must contain ready: without it an idle agent would get nothing; write [ready] or [ready, busy]")
		}
	}
}

// dedupe reads the section `dedupe`.
func (d *decoder) dedupe(c *Config) reader {
	s := &c.policy.Settings
	return func(p place) {
		d.object(p, readers{
			"window_seconds": d.seconds(&s.DedupeWindow, 1, 7*day),
			"max_ids":        whole(d, &s.DedupeMaxIDs, 1, 10_000_000),
		})
	}
}

// journal reads the section `journal`.
func (d *decoder) journal(c *Config) reader {
	return func(p place) {
		d.object(p, readers{
			"enabled":                 d.boolean(&c.Journal),
			"record_inputs":           d.boolean(&c.RecordInputs),
			"record_inputs_max_bytes": whole(d, &c.RecordInputsBytes, 1<<20, 1<<40),
		})
		const name = "journal.record_inputs"
		d.later(func() {
			if c.RecordInputs && !c.Journal && !d.faulty(name) {
				d.fault(child(p, "record_inputs", p),
					"inputs are recorded in the journal, which is switched off; set journal.enabled to true")
			}
		})
	}
}

// http reads the section `http`.
func (d *decoder) http(c *Config) reader {
	return func(p place) {
		d.object(p, readers{"bind": func(p place) {
			bind := p.node.Value
			if _, err := netip.ParseAddr(bind); !isScalar(p.node) || err != nil && bind != "localhost" {
				d.fault(p,
					"must be an IP address such as 127.0.0.1 or 0.0.0.0, or localhost, without a port (COORDINATOR_PORT gives that), not %s", found(p.node))
				return
			}
			c.HTTPBind = bind
		}, "advertise_url": func(p place) {
			if fault := badURL(p.node.Value); !isScalar(p.node) || fault != "" {
				d.fault(p,
					"must be the URL at which the other coordinators reach this one, such as http://taskbus-1:8551: without user, query or path, not %s", found(p.node))
				return
			}
			c.AdvertiseURL = p.node.Value
		}, "legacy_ratelimit_headers": d.boolean(&c.LegacyRateLimitHeaders)})
	}
}

// urlPattern is what the URL of a coordinator looks like. The JSON Schema holds the same pattern.
var urlPattern = regexp.MustCompile(`^https?://[^/?#@]+$`)

// badURL says what is wrong with the URL of a coordinator; empty: nothing.
func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case !urlPattern.MatchString(text):
		return "it must be http:// or https://, a host and a port"
	case err != nil || u.Host == "":
		return "it is no URL"
	}
	return ""
}

// events reads the section `events`.
func (d *decoder) events(c *Config) reader {
	return func(p place) {
		d.object(p, readers{"task_dispatched": d.boolean(&c.TaskDispatchedEvents)})
	}
}

// log reads the section `log`.
func (d *decoder) log(c *Config) reader {
	return func(p place) {
		d.object(p, readers{"tasks": oneOf(d, &c.LogTasks, LogTasksAll, LogTasksFailures, LogTasksNone)})
	}
}

// metrics reads the section `metrics`.
func (d *decoder) metrics(c *Config) reader {
	return func(p place) {
		d.object(p, readers{"agents": whole(d, &c.MetricsAgents, 0, mostMetricsAgents)})
	}
}

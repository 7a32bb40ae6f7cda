package config

import (
	"regexp"
	"slices"
	"time"
	_ "time/tzdata" // a time zone must not be known on one machine and unknown on the next

	"gopkg.in/yaml.v3"

	"taskbus/coordinator"
)

// What names in quotas.yaml may look like, beside idPattern. The JSON Schema holds the same
// patterns.
var (
	modelPattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
	zonePattern     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`)
)

const (
	modelRule    = "a model of 1 to 128 letters, digits and . _ : @ / + -, beginning with a letter or digit"
	currencyRule = "a currency of three capital letters such as EUR"
	zoneRule     = "a time zone such as Europe/Berlin, or UTC"
)

const maxWeight = 1_000_000

// The names that no group may have: the pool of no provider in particular, and what
// stands for the groups that quotas.yaml does not list.
const (
	poolName  = "pool"
	otherName = "other"
)

// quotaFile is quotas.yaml while it is being read.
type quotaFile struct {
	quotas     *coordinator.Quotas
	currencies currencies
	prices     []listedPrice
	unpriced   struct {
		rule, price place
		listed      listedPrice
	}
	pool      listedPool
	groups    []*listedGroup
	agents    []*listedAgent
	providers []*listedPool
	byName    map[string]*listedGroup
}

// listedGroup is one entry of `groups`.
type listedGroup struct {
	name            string
	at              place
	parent          place // a nil node: none
	weight          int64
	limits          limits
	terms           []change
	provider, model place
	// above is the group it belongs to, nil for none; below and agents what belongs to it,
	// sorted by name.
	above  *listedGroup
	below  []*listedGroup
	agents []*listedAgent
}

// listedAgent is one entry of `agents`.
type listedAgent struct {
	name   string
	at     place
	group  place
	weight int64
	limits limits
}

// defaultQuotas is a file that says nothing.
func defaultQuotas() *coordinator.Quotas {
	return &coordinator.Quotas{
		Location: time.UTC, RepayPercent: 20,
		ReservationTTL: 900 * time.Second, TombstoneTTL: 3600 * time.Second, DefaultOutput: 512,
		Routing:       coordinator.RouteTerms{Remaining: 1, Price: 1, Latency: 1, Success: 1},
		AlertPercents: coordinator.DefaultAlertPercents(),
	}
}

// quotaRoot reads the whole file.
func (d *decoder) quotaRoot(f *quotaFile) reader {
	q := f.quotas
	return func(p place) {
		d.object(p, readers{
			"timezone":                d.timezone(&q.Location),
			"currencies":              d.currencies(&f.currencies),
			"prices":                  d.prices(f),
			"unpriced":                f.unpriced.rule.here,
			"unpriced_price":          f.unpriced.price.here,
			"unknown_callers":         d.unknownCallers(&q.AnyCaller),
			"repay_percent":           whole(d, &q.RepayPercent, 0, 100),
			"low_priority_percent":    d.ignored(&q.Ignored, agedPriorities),
			"routing":                 d.routing(&q.Routing),
			"alert_percents":          d.alertPercents(&q.AlertPercents),
			"reservation_ttl_seconds": d.seconds(&q.ReservationTTL, 1, 7*day),
			"tombstone_ttl_seconds":   d.seconds(&q.TombstoneTTL, 1, 31*day),
			"default_output_tokens":   whole(d, &q.DefaultOutput, 1, 10_000_000),
			"adjustment":              d.adjustment(&q.Adjustment),
			"pool":                    d.pool(&f.pool),
			"providers":               d.providers(f),
			"groups":                  d.groups(f),
			"agents":                  d.quotaAgents(f),
		})
		d.unpriced(f)
	}
}

// mostAlerts bounds how often a budget is announced in one period, and the series of its metric.
const mostAlerts = 10

// alertPercents reads at which parts of a budget it is announced. An empty list says that it never is.
func (d *decoder) alertPercents(into *[]int64) reader {
	return func(p place) {
		if isNull(p.node) {
			return
		}
		all := []int64{}
		d.list(p, "percentages", func(item place) {
			percent := int64(0)
			if whole(d, &percent, 1, 100)(item); percent == 0 {
				return // reported
			}
			if slices.Contains(all, percent) {
				d.fault(item, "%d is given twice", percent)
				return
			}
			all = append(all, percent)
		})
		if len(all) > mostAlerts {
			d.fault(p, "must have no more than %d percentages, not %d", mostAlerts, len(all))
		}
		slices.Sort(all)
		*into = all
	}
}

// unknownCallers reads whether gateways may name groups and agents that are not listed.
func (d *decoder) unknownCallers(into *bool) reader {
	return func(p place) {
		word := ""
		oneOf(d, &word, "refuse", "allow")(p)
		*into = word == "allow"
	}
}

// routing reads by which weights calls choose among models.
func (d *decoder) routing(into *coordinator.RouteTerms) reader {
	return func(p place) {
		d.object(p, readers{
			"remaining": d.number(&into.Remaining, 0, 1000), "price": d.number(&into.Price, 0, 1000),
			"latency": d.number(&into.Latency, 0, 1000), "success": d.number(&into.Success, 0, 1000),
		})
	}
}

// timezone reads where calendar periods begin.
func (d *decoder) timezone(into **time.Location) reader {
	return func(p place) {
		name, ok := d.text(p, zonePattern, zoneRule)
		if !ok {
			return
		}
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" { // which would be another one on every machine
			d.fault(p, "no time zone is called %s; write its IANA name, such as Europe/Berlin, or UTC", echo(name))
			return
		}
		*into = zone
	}
}

// groups reads the section `groups`.
func (d *decoder) groups(f *quotaFile) reader {
	return func(p place) {
		named := make(names, len(p.node.Content))
		f.groups, f.byName = make([]*listedGroup, 0, len(p.node.Content)), make(map[string]*listedGroup, len(p.node.Content))
		d.items(p, "groups", func(item place) {
			g := d.group(item)
			if g.name == otherName {
				d.fault(g.at, "other stands for the groups that are not listed; choose another id")
			} else if d.named(named, item, "id", g.name, g.at) {
				f.groups, f.byName[g.name] = append(f.groups, g), g
			}
		})
	}
}

// group reads one of them.
func (d *decoder) group(item place) *listedGroup {
	if g := d.read.group(item.node); g != nil {
		return g
	}
	g, before := &listedGroup{weight: 1}, len(d.faults)
	var total fairShareTotal
	d.object(item, readers{
		"id":                         d.name(&g.name, &g.at, idPattern, idRule),
		"parent":                     g.parent.here,
		"weight":                     whole(d, &g.weight, 0, maxWeight),
		"limits":                     d.limits(&g.limits, bearsMember),
		"borrowing":                  d.borrowing(&g.terms),
		"lending":                    d.lending(&g.terms),
		"provider":                   g.provider.here,
		"model":                      g.model.here,
		"total_quota_monthly_tokens": total.amount.here,
		"reset_interval":             total.interval.here,
		"reset_interval_seconds":     total.seconds.here,
	})
	d.fairShareTotal(&g.limits, &total)
	if len(d.faults) > before {
		return g
	}
	return d.read.keepGroup(item.node, g)
}

// quotaAgents reads the section `agents`.
func (d *decoder) quotaAgents(f *quotaFile) reader {
	return func(p place) {
		if p.node.Kind == yaml.MappingNode {
			d.fault(p, "must be a list of agents with id and group_id; a mapping of agents belongs into agents.yaml")
			return
		}
		named := make(names, len(p.node.Content))
		d.items(p, "agents", func(item place) {
			a := d.quotaAgent(item)
			if d.named(named, item, "id", a.name, a.at) {
				f.agents = append(f.agents, a)
			}
			if canHaveKeys(item.node) && a.group.node == nil {
				d.fault(place{item.node, join(item.path, "group_id")}, "is missing; say to which group the agent belongs")
			}
		})
	}
}

// quotaAgent reads one of them.
func (d *decoder) quotaAgent(item place) *listedAgent {
	if a := d.read.agent(item.node); a != nil {
		return a
	}
	a, before := &listedAgent{weight: 1}, len(d.faults)
	var own fairShareAgent
	d.object(item, readers{
		"id":             d.name(&a.name, &a.at, idPattern, idRule),
		"group_id":       a.group.here,
		"weight":         whole(d, &a.weight, 0, maxWeight),
		"limits":         d.limits(&a.limits, bearsMember),
		"initial_quota":  own.quota.here,
		"rate_limit_rps": own.rps.here,
		"burst_capacity": own.burst.here,
	})
	d.fairShareAgent(&a.limits, &own)
	if len(d.faults) == before {
		d.read.keepAgent(item.node, a)
	}
	return a
}

// names are those of one list, with the lines they stand in.
type names map[string]int

// name reads what an entry is called, and where that stands.
func (d *decoder) name(into *string, at *place, pattern *regexp.Regexp, rule string) reader {
	return func(p place) {
		*at = p
		*into, _ = d.text(p, pattern, rule)
	}
}

// named sees that an entry of a list has a name that no other has; key is what gives it.
func (d *decoder) named(all names, item place, key, name string, at place) bool {
	switch line, twice := all[name]; {
	case at.node == nil:
		if canHaveKeys(item.node) {
			d.fault(place{item.node, join(item.path, key)}, "is missing")
		}
	case name == "": // what stands there has been faulted
	case twice:
		d.fault(at, "%s is listed already in line %d; remove one of the two", clip(name), line)
	default:
		all[name] = at.node.Line
		return true
	}
	return false
}

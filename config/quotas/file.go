package quotas

import (
	"slices"
	"time"
	_ "time/tzdata"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
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

// AgedPriorities is why priority_ageing_seconds and low_priority_percent count no more.
const AgedPriorities = "priorities take turns by global_settings.priority_weights of agents.yaml; delete the key"

// defaultQuotas is a file that says nothing.
func defaultQuotas() *coordinator.Quotas {
	return &coordinator.Quotas{
		Location: time.UTC, RepayPercent: 20,
		ReservationTTL: 900 * time.Second, TombstoneTTL: 3600 * time.Second, DefaultOutput: 512,
		Routing:       coordinator.RouteTerms{Remaining: 1, Price: 1, Latency: 1, Success: 1},
		AlertPercents: coordinator.DefaultAlertPercents(),
	}
}

func newQuotaFile() *quotaFile {
	return &quotaFile{quotas: defaultQuotas(), byName: make(map[string]*listedGroup)}
}

// quotaRoot reads the whole file.
func (d *decoder) quotaRoot(f *quotaFile) reader {
	q := f.quotas
	return func(p place) {
		d.Object(p, readers{
			"timezone":                d.timezone(&q.Location),
			"currencies":              d.currencies(&f.currencies),
			"prices":                  d.prices(f),
			"unpriced":                f.unpriced.rule.Here,
			"unpriced_price":          f.unpriced.price.Here,
			"unknown_callers":         d.OneOf(&q.AnyCaller, "refuse", "allow"),
			"repay_percent":           d.Whole(&q.RepayPercent, 0, 100),
			"low_priority_percent":    d.Ignored(&q.Ignored, AgedPriorities),
			"routing":                 d.routing(&q.Routing),
			"alert_percents":          d.alertPercents(&q.AlertPercents),
			"reservation_ttl_seconds": d.Seconds(&q.ReservationTTL, 1, 7*yamlconf.Day),
			"tombstone_ttl_seconds":   d.Seconds(&q.TombstoneTTL, 1, 31*yamlconf.Day),
			"default_output_tokens":   d.Whole(&q.DefaultOutput, 1, 10_000_000),
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
		if p.Null() {
			return
		}
		all := []int64{}
		d.List(p, "percentages", func(item place) {
			percent := int64(0)
			if d.Whole(&percent, 1, 100)(item); percent == 0 {
				return // reported
			}
			if slices.Contains(all, percent) {
				d.Fault(item, "%d is given twice", percent)
				return
			}
			all = append(all, percent)
		})
		if len(all) > mostAlerts {
			d.Fault(p, "must have no more than %d percentages, not %d", mostAlerts, len(all))
		}
		slices.Sort(all)
		*into = all
	}
}

// routing reads by which weights calls choose among models.
func (d *decoder) routing(into *coordinator.RouteTerms) reader {
	return func(p place) {
		d.Object(p, readers{
			"remaining": d.Number(&into.Remaining, 0, 1000), "price": d.Number(&into.Price, 0, 1000),
			"latency": d.Number(&into.Latency, 0, 1000), "success": d.Number(&into.Success, 0, 1000),
		})
	}
}

// timezone reads where calendar periods begin.
func (d *decoder) timezone(into **time.Location) reader {
	return func(p place) {
		name, ok := d.Take(p, aZone)
		if !ok {
			return
		}
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" { // which would be another one on every machine
			d.Fault(p, "no time zone is called %s; write its IANA name, such as Europe/Berlin, or UTC", yamlconf.Echo(name))
			return
		}
		*into = zone
	}
}

// groups reads the section `groups`.
func (d *decoder) groups(f *quotaFile) reader {
	return func(p place) {
		named := make(names, len(p.Node.Content))
		f.groups, f.byName = make([]*listedGroup, 0, len(p.Node.Content)), make(map[string]*listedGroup, len(p.Node.Content))
		d.Items(p, "groups", func(item place) {
			g := d.group(item)
			if g.name == otherName {
				d.Fault(g.at, "other stands for the groups that are not listed; choose another id")
			} else if d.named(named, item, "id", g.name, g.at) {
				f.groups, f.byName[g.name] = append(f.groups, g), g
			}
		})
	}
}

// group reads one of them.
func (d *decoder) group(item place) *listedGroup {
	if g := d.read.group(item.Node); g != nil {
		return g
	}
	g, before := &listedGroup{weight: 1}, len(d.Faults)
	var total fairShareTotal
	d.Object(item, readers{
		"id":                         d.name(&g.name, &g.at, yamlconf.ID),
		"parent":                     d.Noted(&g.parent, d.Text(new(string), yamlconf.ID)),
		"weight":                     d.Whole(&g.weight, 0, maxWeight),
		"limits":                     d.limits(&g.limits, bearsMember),
		"borrowing":                  d.borrowing(&g.terms),
		"lending":                    d.lending(&g.terms),
		"provider":                   d.Noted(&g.provider, d.Text(new(string), yamlconf.ID)),
		"model":                      d.Noted(&g.model, d.Text(new(string), aModel)),
		"total_quota_monthly_tokens": total.amount.Here,
		"reset_interval":             total.interval.Here,
		"reset_interval_seconds":     total.seconds.Here,
	})
	d.fairShareTotal(&g.limits, &total)
	if len(d.Faults) > before {
		return g
	}
	return d.read.keepGroup(item.Node, g)
}

// quotaAgents reads the section `agents`.
func (d *decoder) quotaAgents(f *quotaFile) reader {
	return func(p place) {
		if p.Node.Kind == yaml.MappingNode {
			d.Fault(p, "must be a list of agents with id and group_id; a mapping of agents belongs into agents.yaml")
			return
		}
		named := make(names, len(p.Node.Content))
		d.Items(p, "agents", func(item place) {
			a := d.quotaAgent(item)
			if d.named(named, item, "id", a.name, a.at) {
				f.agents = append(f.agents, a)
			}
			d.Need(item, "group_id", "; say to which group the agent belongs")
		})
	}
}

// quotaAgent reads one of them.
func (d *decoder) quotaAgent(item place) *listedAgent {
	if a := d.read.agent(item.Node); a != nil {
		return a
	}
	a, before := &listedAgent{weight: 1}, len(d.Faults)
	var own fairShareAgent
	d.Object(item, readers{
		"id":             d.name(&a.name, &a.at, yamlconf.ID),
		"group_id":       d.Noted(&a.group, d.Text(new(string), yamlconf.ID)),
		"weight":         d.Whole(&a.weight, 0, maxWeight),
		"limits":         d.limits(&a.limits, bearsMember),
		"initial_quota":  own.quota.Here,
		"rate_limit_rps": own.rps.Here,
		"burst_capacity": own.burst.Here,
	})
	d.fairShareAgent(&a.limits, &own)
	if len(d.Faults) == before {
		d.read.keepAgent(item.Node, a)
	}
	return a
}

// names are those of one list, with the lines they stand in.
type names map[string]int

// name reads what an entry is called, and where that stands.
func (d *decoder) name(into *string, at *place, form yamlconf.Form) reader {
	return func(p place) {
		*at = p
		*into, _ = d.Take(p, form)
	}
}

// named sees that an entry of a list has a name that no other has; key is what gives it.
func (d *decoder) named(all names, item place, key, name string, at place) bool {
	d.Need(item, key, "")
	switch line, twice := all[name]; {
	case at.Node == nil:
	case name == "": // what stands there has been faulted
	case twice:
		d.Fault(at, "%s is listed already in line %d; remove one of the two", yamlconf.Clip(name), line)
	default:
		all[name] = at.Node.Line
		return true
	}
	return false
}

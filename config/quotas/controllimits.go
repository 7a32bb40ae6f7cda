package quotas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// The settings of a node that a control can change, and where they stand.

const (
	keyWeight = "weight"
	// keyLimits stands for all limits of a node's own.
	keyLimits = "limits"
	wordNone  = "none"
)

// limitAttributes are the keys of a limit, as in quotas.yaml.
var limitAttributes = []string{"amount", "rate", "per", "interval_seconds", "burst", "borrow", "lend"}

// fairShareKeys are FAIR-SHARE's keys of groups and agents, and how what they stand for is named here:
// a key of its own for the same limit would be a second setting of it.
var fairShareKeys = map[string]string{
	"total_quota_monthly_tokens": "total_tokens.amount",
	"reset_interval":             "total_tokens.per, with day, week, month or year",
	"reset_interval_seconds":     "total_tokens.interval_seconds",
	"initial_quota":              "total_tokens.amount, with by_weight for 0",
	"rate_limit_rps":             "requests.rate",
	"burst_capacity":             "requests.burst",
}

// limitKey parts a key such as total_tokens.amount; the attribute may be missing.
func limitKey(key string) (dim coordinator.Dimension, attribute string, err error) {
	word, attribute, _ := strings.Cut(key, ".")
	for d := range coordinator.Dimension(coordinator.NumDimensions) {
		if d.String() == word && (attribute == "" || slices.Contains(limitAttributes, attribute)) {
			return d, attribute, nil
		}
	}
	if ours := fairShareKeys[key]; ours != "" {
		return 0, "", fmt.Errorf("%s is not changed by that name: write %s", key, ours)
	}
	known := []string{keyWeight}
	for d := range coordinator.Dimension(coordinator.NumDimensions) {
		if known = append(known, d.String()); attribute != "" {
			known[len(known)-1] += "." + limitAttributes[0]
		}
	}
	return 0, "", fmt.Errorf("%s is no setting of a node%s; a limit is named as total_tokens.amount, with one of %s",
		yamlconf.Echo(key), yamlconf.DidYouMean(key, known), strings.Join(limitAttributes, ", "))
}

// set puts one setting of a node to a value.
func (e *controlEdit) set(c *coordinator.QuotaControl) error {
	i, entry, err := e.target(c)
	if err != nil {
		return err
	}
	if c.Key == keyWeight {
		putKey(entry, keyWeight, scalar(c.Value))
		return nil
	}
	dim, attribute, err := limitKey(c.Key)
	if err == nil && attribute == "" {
		err = fmt.Errorf("%s does not say what of the limit; write %s.amount, or one of %s", c.Key, c.Key,
			strings.Join(limitAttributes, ", "))
	}
	if err != nil {
		return err
	}
	l := &entryLimit{entry: entry, node: &e.quotas.Nodes[i], dim: dim}
	return l.set(attribute, c.Value)
}

// entryLimit is the limit of one dimension in the entry of a node.
type entryLimit struct {
	entry *yaml.Node
	node  *coordinator.QuotaNode
	dim   coordinator.Dimension
}

// set gives a key of the limit a value.
func (l *entryLimit) set(attribute, value string) error {
	if short := l.rps(attribute); short != "" && value != wordNone {
		putKey(l.entry, short, scalar(value))
		return nil
	}
	l.plain()
	if (attribute == "amount" || attribute == "rate") && value == wordNone {
		l.drop(attribute)
		return nil
	}
	limit, err := l.find(attribute)
	if err != nil {
		return err
	}
	switch {
	case attribute == "per":
		dropKey(limit, "interval_seconds")
	case attribute == "interval_seconds":
		dropKey(limit, "per")
	case value == wordByWeight:
		dropKey(limit, "per")
		dropKey(limit, "interval_seconds")
	default:
		l.keepPeriod(limit, attribute)
	}
	putKey(limit, attribute, scalar(value))
	return nil
}

// rps is FAIR-SHARE's own key for it, where the entry has written the limit so.
func (l *entryLimit) rps(attribute string) string {
	if l.dim != coordinator.DimRequests || yamlconf.Lookup(l.entry, "rate_limit_rps") == nil {
		return ""
	}
	return map[string]string{"rate": "rate_limit_rps", "burst": "burst_capacity"}[attribute]
}

// plain writes FAIR-SHARE's keys for the limit as what they stand for, so that the rest of it can
// be said.
func (l *entryLimit) plain() {
	if l.dim == coordinator.DimTotalTokens {
		l.plainTotal()
		l.plainInitial()
	}
	if rate := yamlconf.Lookup(l.entry, "rate_limit_rps"); l.dim == coordinator.DimRequests && rate != nil {
		limit := newLimit("rate", rate, "per", yamlconf.TextNode("second"), "borrow", scalar("0"))
		if burst := yamlconf.Lookup(l.entry, "burst_capacity"); burst != nil {
			putKey(limit, "burst", burst)
		}
		l.add(limit)
	}
	if l.dim == coordinator.DimRequests {
		dropKey(l.entry, "rate_limit_rps")
		dropKey(l.entry, "burst_capacity")
	}
}

// plainTotal is plain for the budget of a group.
func (l *entryLimit) plainTotal() {
	total := yamlconf.Lookup(l.entry, "total_quota_monthly_tokens")
	if total == nil {
		return
	}
	limit := newLimit("amount", total)
	switch interval, seconds := yamlconf.Lookup(l.entry, "reset_interval"),
		yamlconf.Lookup(l.entry, "reset_interval_seconds"); {
	case seconds != nil:
		putKey(limit, "interval_seconds", seconds)
	case interval != nil:
		putKey(limit, "per", yamlconf.TextNode(budgetPeriods[resetIntervals[interval.Value]]))
	default:
		putKey(limit, "per", yamlconf.TextNode("month"))
	}
	for _, key := range []string{"total_quota_monthly_tokens", "reset_interval", "reset_interval_seconds"} {
		dropKey(l.entry, key)
	}
	l.add(limit)
}

// plainInitial is plain for the budget of an agent: for the period of the group's.
func (l *entryLimit) plainInitial() {
	initial := yamlconf.Lookup(l.entry, "initial_quota")
	if initial == nil {
		return
	}
	dropKey(l.entry, "initial_quota")
	if initial.Value == "0" { // its part by weight
		return
	}
	limit := newLimit("amount", initial)
	putPeriod(limit, l.node.Budgets[l.dim])
	l.add(limit)
}

func newLimit(key string, value *yaml.Node, more ...any) *yaml.Node {
	limit := &yaml.Node{Kind: yaml.MappingNode}
	putKey(limit, key, value)
	for i := 0; i+1 < len(more); i += 2 {
		putKey(limit, more[i].(string), more[i+1].(*yaml.Node))
	}
	return limit
}

// putPeriod writes the period of a budget, if there is one.
func putPeriod(limit *yaml.Node, of *coordinator.QuotaLimit) {
	switch {
	case of == nil:
	case of.Period.Unit == coordinator.PerInterval:
		putKey(limit, "interval_seconds", wholeSeconds(of.Period.Interval))
	default:
		putKey(limit, "per", yamlconf.TextNode(budgetPeriods[of.Period.Unit]))
	}
}

func wholeSeconds(d time.Duration) *yaml.Node {
	return scalar(strconv.FormatInt(int64(d/time.Second), 10))
}

// all are the limits of the dimension as they are written: a budget, a rate, or both.
func (l *entryLimit) all() []*yaml.Node {
	limits := yamlconf.Lookup(l.entry, keyLimits)
	if limits == nil {
		return nil
	}
	switch is := yamlconf.Lookup(limits, l.dim.String()); {
	case is == nil || yamlconf.IsNull(is):
		return nil
	case is.Kind == yaml.SequenceNode:
		return is.Content
	default:
		return []*yaml.Node{is}
	}
}

// write puts limits in the place of those that are written.
func (l *entryLimit) write(limits []*yaml.Node) {
	under := section(l.entry, keyLimits, yaml.MappingNode)
	switch len(limits) {
	case 0:
		dropKey(under, l.dim.String())
	case 1:
		putKey(under, l.dim.String(), limits[0])
	default:
		putKey(under, l.dim.String(), &yaml.Node{Kind: yaml.SequenceNode, Content: slices.Clone(limits)})
	}
}

func (l *entryLimit) add(limit *yaml.Node) { l.write(append(slices.Clone(l.all()), limit)) }

// drop takes the budget or the rate out.
func (l *entryLimit) drop(attribute string) {
	l.write(slices.DeleteFunc(slices.Clone(l.all()),
		func(n *yaml.Node) bool { return yamlconf.Lookup(n, attribute) != nil }))
}

// find is the one of the limits that an attribute belongs to; it is made where there is none.
func (l *entryLimit) find(attribute string) (*yaml.Node, error) {
	all := l.all()
	kind := map[string]string{"amount": "amount", "rate": "rate", "burst": "rate"}[attribute]
	if kind == "" {
		switch len(all) {
		case 1:
			return all[0], nil
		case 0:
			kind = "amount"
		default:
			return nil, fmt.Errorf("%s of %s could be that of the budget or of the rate; this can only be said in quotas.yaml",
				attribute, l.dim)
		}
	}
	for _, limit := range all {
		if yamlconf.Lookup(limit, kind) != nil || yamlconf.Lookup(limit, "amount") == nil &&
			yamlconf.Lookup(limit, "rate") == nil {
			return limit, nil
		}
	}
	limit := &yaml.Node{Kind: yaml.MappingNode}
	l.add(limit)
	return limit, nil
}

// keepPeriod has what was a part by weight until now keep its period, unless it has one.
func (l *entryLimit) keepPeriod(limit *yaml.Node, attribute string) {
	if l.dim == coordinator.DimConcurrency || yamlconf.Lookup(limit, "per") != nil ||
		yamlconf.Lookup(limit, "interval_seconds") != nil {
		return
	}
	switch rate := l.node.Rates[l.dim]; {
	case attribute == "amount":
		putPeriod(limit, l.node.Budgets[l.dim])
	case attribute == "rate" && rate != nil:
		putKey(limit, "interval_seconds", wholeSeconds(rate.Per))
	}
}

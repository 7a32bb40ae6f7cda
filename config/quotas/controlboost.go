package quotas

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/pattern"
)

// boostPattern is how much more, or less: +50%, +200000, -1, +0.5.
var boostPattern = pattern.New(`^[+-](0|[1-9][0-9]{0,15})(\.[0-9]{1,6})?%?$`)

const boostRule = "an amount or percentage with its sign, such as +50% or +200000"

// mostBoostPercent bounds what a percentage may add: tenfold is a new limit, not a boost.
const mostBoostPercent = 1000

// boost is a change of a number by an amount, or by a share of itself.
type boost struct {
	by      *big.Rat
	percent bool
}

func parseBoost(text string) (b boost, err error) {
	if !boostPattern.MatchString(text) {
		return b, fmt.Errorf("must be %s, not %s", boostRule, yamlconf.Echo(text))
	}
	number, percent := strings.CutSuffix(text, "%")
	by, ok := new(big.Rat).SetString(strings.TrimPrefix(number, "+"))
	if !ok {
		return b, fmt.Errorf("must be %s, not %s", boostRule, yamlconf.Echo(text))
	}
	if percent && by.Cmp(big.NewRat(mostBoostPercent, 1)) > 0 {
		return b, fmt.Errorf("must be at most +%d%%, not %s; set the limit instead", mostBoostPercent, yamlconf.Echo(text))
	}
	return boost{by, percent}, nil
}

// of is the number after the boost, with at most so many decimal places, rounded down.
func (b boost) of(text string, places int) (string, error) {
	n, ok := new(big.Rat).SetString(text)
	if !ok || !yamlconf.PlainDecimal.MatchString(text) || len(text) > yamlconf.MaxDigits {
		return "", fmt.Errorf("%s is no number", yamlconf.Echo(text))
	}
	if b.percent {
		share := new(big.Rat).Mul(n, b.by)
		n.Add(n, share.Quo(share, big.NewRat(100, 1)))
	} else {
		n.Add(n, b.by)
	}
	if n.Sign() < 0 {
		return "", fmt.Errorf("that would leave less than nothing of %s", text)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	n.Mul(n, new(big.Rat).SetInt(unit))
	scaled := new(big.Int).Quo(n.Num(), n.Denom())
	if !scaled.IsInt64() {
		return "", errors.New("that is more than can be counted")
	}
	return yamlconf.InFull(scaled.Int64(), places), nil
}

// boost raises or lowers a setting of a node by what it otherwise is.
func (e *controlEdit) boost(c *coordinator.QuotaControl) error {
	b, err := parseBoost(c.Value)
	if err != nil {
		return err
	}
	i, entry, err := e.target(c)
	if err != nil {
		return err
	}
	switch c.Key {
	case keyWeight:
		weight := e.quotas.Nodes[i].Weight
		if own := yamlconf.Lookup(entry, keyWeight); own != nil { // another boost may have changed it
			weight, _ = strconv.ParseInt(own.Value, 10, 64) // as it was read
		}
		return e.boostWeight(entry, c, weight, b)
	case keyLimits:
		return e.boostAll(entry, i, b)
	}
	dim, attribute, err := limitKey(c.Key)
	if err == nil && attribute != "" && attribute != "amount" && attribute != "rate" {
		err = fmt.Errorf("%s is no amount; boost %s.amount or %s.rate", c.Key, dim, dim)
	}
	if err != nil {
		return err
	}
	l := &entryLimit{entry: entry, node: &e.quotas.Nodes[i], dim: dim}
	if attribute == "" {
		if attribute, err = l.only(); err != nil {
			return err
		}
	}
	return e.boostLimit(l, i, attribute, b)
}

// boostWeight changes a weight: to the nearest whole number. A rule takes no more than leaves the
// least weight, also if the weight has been lowered since it took that.
func (e *controlEdit) boostWeight(entry *yaml.Node, c *coordinator.QuotaControl, weight int64, b boost) error {
	if r := e.quotas.Adjustment.Idle; c.Rule != "" && r != nil && !b.percent {
		if least := big.NewRat(min(weight, r.MinWeight)-weight, 1); b.by.Cmp(least) < 0 {
			b.by = least
		}
	}
	text, err := b.of(strconv.FormatInt(weight, 10), ratePlaces)
	if err != nil {
		return err
	}
	exact, _ := new(big.Rat).SetString(text)
	putKey(entry, keyWeight, scalar(exact.FloatString(0)))
	return nil
}

// boostAll changes every limit that a node has of its own; one without any is left alone.
func (e *controlEdit) boostAll(entry *yaml.Node, i int, b boost) error {
	for dim := range coordinator.Dimension(coordinator.NumDimensions) {
		l := &entryLimit{entry: entry, node: &e.quotas.Nodes[i], dim: dim}
		if rate := yamlconf.Lookup(entry, "rate_limit_rps"); dim == coordinator.DimRequests && rate != nil {
			if err := e.boostLimit(l, i, "rate", b); err != nil {
				return err
			}
			continue
		}
		l.plain()
		for _, limit := range l.all() {
			for _, attribute := range []string{"amount", "rate"} {
				if own := yamlconf.Lookup(limit, attribute); own == nil || own.Value == wordByWeight {
					continue
				}
				if err := e.boostHeld(l, limit, attribute, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// boostHeld changes a budget, a rate, or seats that are written.
func (e *controlEdit) boostHeld(l *entryLimit, limit *yaml.Node, attribute string, b boost) error {
	text, err := b.of(yamlconf.Lookup(limit, attribute).Value, l.places(attribute))
	if err == nil {
		putKey(limit, attribute, scalar(text))
	}
	return err
}

// places is how many decimals an amount or a rate may have.
func (l *entryLimit) places(attribute string) int {
	switch {
	case l.dim == coordinator.DimCost:
		return dollarPlaces
	case attribute == "rate":
		return ratePlaces
	}
	return 0
}

// only says which of its two limits a node has in the dimension.
func (l *entryLimit) only() (attribute string, err error) {
	budget, rate := l.node.Budgets[l.dim], l.node.Rates[l.dim]
	if l.dim == coordinator.DimConcurrency {
		budget = l.node.Seats
	}
	switch {
	case budget != nil && rate != nil:
		return "", fmt.Errorf("%s has a budget and a rate of %s; say %s.amount or %s.rate", short(l.node.ID), l.dim, l.dim,
			l.dim)
	case budget != nil:
		return "amount", nil
	case rate != nil:
		return "rate", nil
	default:
		return "", fmt.Errorf("%s has no limit of %s to boost", short(l.node.ID), l.dim)
	}
}

// boostLimit changes a budget, a rate, or seats. A part by weight becomes an amount of the node's
// own by it, which the others leave.
func (e *controlEdit) boostLimit(l *entryLimit, i int, attribute string, b boost) error {
	places := l.places(attribute)
	key, holder := l.rps(attribute), l.entry
	if key != "" {
		places = rpsPlaces
	} else {
		l.plain()
		if key, holder = attribute, l.having(attribute); holder == nil || yamlconf.Lookup(holder, key).Value == wordByWeight {
			var err error
			if holder, err = e.ownPart(l, i, attribute); err != nil {
				return err
			}
		}
	}
	text, err := b.of(yamlconf.Lookup(holder, key).Value, places)
	if err != nil {
		return err
	}
	putKey(holder, key, scalar(text))
	return nil
}

// having is the limit that has the attribute; nil: there is none.
func (l *entryLimit) having(attribute string) *yaml.Node {
	for _, limit := range l.all() {
		if yamlconf.Lookup(limit, attribute) != nil {
			return limit
		}
	}
	return nil
}

// ownPart writes a part by weight down as the amount that it is.
func (e *controlEdit) ownPart(l *entryLimit, i int, attribute string) (*yaml.Node, error) {
	if e.grown == nil {
		if err := e.readAgain(); err != nil {
			return nil, err
		}
		l.node = &e.quotas.Nodes[i]
	}
	kind := kindBudget
	switch {
	case attribute == "rate":
		return nil, fmt.Errorf("%s has no rate of %s of its own: set one (%s.rate), or change its weight", short(l.node.ID),
			l.dim, l.dim)
	case l.dim == coordinator.DimConcurrency:
		kind = kindSeats
	}
	if kind.of(l.node, l.dim) == nil {
		return nil, fmt.Errorf("%s has no %s of %s to boost", short(l.node.ID), kind, l.dim)
	}
	part := e.grown.checkSumsOf(kind, l.dim)[i]
	limit, err := l.find(attribute)
	if err != nil {
		return nil, err
	}
	l.keepPeriod(limit, attribute)
	putKey(limit, attribute, scalar(unitText(l.dim, part.whole)))
	return limit, nil
}

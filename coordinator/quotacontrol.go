package coordinator

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"taskbus/coordinator/hash"
)

// QuotaControlKind is what a control changes. The numbers are part of the journal and never
// change.
type QuotaControlKind uint8

// The kinds of controls.
const (
	// ControlSet puts one setting of a node to a value.
	ControlSet QuotaControlKind = 0
	// ControlBoost raises, or lowers, one setting by an amount or a percentage of what it
	// otherwise is.
	ControlBoost QuotaControlKind = 1
	// ControlGroup and ControlAgent register what quotas.yaml does not list.
	ControlGroup QuotaControlKind = 2
	ControlAgent QuotaControlKind = 3
	// ControlCorrect moves what counts as used of a node, once: it does not stand, and is journalled as the
	// others are, with the operator and the reason.
	ControlCorrect QuotaControlKind = 4
)

// NumQuotaControlKinds is how many kinds there are.
const NumQuotaControlKinds = 5

// String is the word used in answers and logs.
func (k QuotaControlKind) String() string {
	return [...]string{"set", "boost", "group", "agent", "correct"}[k]
}

// QuotaControl is one standing change to quotas.yaml: what an operator has said over the API, or
// a rule has decided. Package config merges it with the file. Whatever it may say is bounded in
// length there.
type QuotaControl struct {
	// ID follows from what it changes: there is one control for each thing that can be
	// changed, and one of the same ID takes the place of the one before. A correction takes the place of none:
	// its ID follows from when it was asked for and its Value, too.
	ID   string           `rec:"1"`
	Kind QuotaControlKind `rec:"2"`
	// Target is the id of a node of the quota trees; of a group or agent that is registered its
	// own id.
	Target string `rec:"3,name"`
	// Key names the setting of the node, as weight or total_tokens.amount, and of ControlCorrect the
	// dimension; of ControlGroup and ControlAgent it is empty.
	Key string `rec:"4,name"`
	// Value of the setting; of ControlBoost with its sign, as +50% or -1; of a group or agent
	// its entry in quotas.yaml, as JSON without the id; of ControlCorrect by how much, as -1900, dollars
	// of cost_usd.
	Value string `rec:"5"`
	// Until is when it ends by itself; zero: never.
	Until time.Time `rec:"6"`
	// At is when it was made, By is the operator who made it, and why, for people. Of those that a rule has
	// made Rule is its name in quotas.yaml.
	At     time.Time `rec:"7"`
	By     string    `rec:"8,name"`
	Reason string    `rec:"9"`
	Rule   string    `rec:"10,name"`
}

// MaxQuotaControls is how many may stand at one time: a file's worth of exceptions belongs into the
// file.
const MaxQuotaControls = 1000

// Named is the control with its ID.
func (c QuotaControl) Named() QuotaControl {
	what := c.Target + "\n" + c.Key + "\n" + c.Rule
	if c.Kind == ControlCorrect {
		what += c.Value + "\n" + strconv.FormatInt(c.At.UnixNano(), 10)
	}
	c.ID = fmt.Sprintf("%s-%010x", c.Kind, hash.Of(what, 0)>>24)
	return c
}

// Correction is what ControlCorrect corrects: the dimension, and by how much in its units (see Amounts), at
// most 10^15 of them.
func (c *QuotaControl) Correction() (d Dimension, by int64, err error) {
	for d < DimConcurrency && d.String() != c.Key {
		d++
	}
	if d == DimConcurrency {
		return 0, 0, fmt.Errorf("%q is no dimension of a budget, such as %s", c.Key, DimTotalTokens)
	}
	x, err := strconv.ParseFloat(c.Value, 64)
	if d == DimCost {
		x = math.Round(x * 1e6)
	}
	if err != nil || x == 0 || x != math.Trunc(x) || math.Abs(x) > 1e15 {
		return 0, 0, fmt.Errorf(
			"%q is not by how much %s is to be corrected: a whole number with its sign, of cost_usd of dollars, such as -1900",
			c.Value, c.Key)
	}
	return d, int64(x), nil
}

// Corrected is the control with by how much it has corrected.
func (c QuotaControl) Corrected(d Dimension, by int64) QuotaControl {
	if c.Value = strconv.FormatInt(by, 10); d == DimCost {
		c.Value = strconv.FormatFloat(float64(by)/1e6, 'f', -1, 64)
	}
	return c
}

// Expired reports whether it has ended by itself.
func (c *QuotaControl) Expired(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// Same reports whether two controls change the same to the same, whatever their authors and reasons.
func (c *QuotaControl) Same(o *QuotaControl) bool {
	return c.ID == o.ID && c.Kind == o.Kind && c.Target == o.Target && c.Key == o.Key && c.Value == o.Value &&
		c.Until.Equal(o.Until)
}

// QuotaControlsRequested changes the standing controls: those of Set stand from now on, in the
// place of those of the same ID, those of Remove do not. The shell has made sure that the quotas
// with them are in order, and says what these are with PolicyChanged, which comes next.
// QuotaControlsStand follows, with the same token, unless that is 0.
type QuotaControlsRequested struct {
	Set    []QuotaControl `rec:"1"`
	Remove []string       `rec:"2"` // ids; one that does not stand is passed over
	Token  uint64         `rec:"3"`
}

// QuotaControlsStand reports that the standing controls have changed, once the journal has that:
// by a request (Token is not 0), or by the engine itself, because some have ended or a rule has
// decided so. In that case the shell answers with PolicyChanged.
type QuotaControlsStand struct {
	Token   uint64
	Set     []QuotaControl
	Removed []QuotaControl
}

// QuotaControlled says how the standing controls have changed.
type QuotaControlled struct {
	// First: those before are forgotten. It is part of snapshots.
	First   bool           `rec:"1"`
	Set     []QuotaControl `rec:"2"`
	Removed []string       `rec:"3"`
	// Day is the beginning of the day that is counted for the rules of quotas.yaml, Uses what has
	// been used on it, by node. Another Day than before begins anew; zero: nothing is said of it.
	Day  time.Time  `rec:"4"`
	Uses []QuotaUse `rec:"5"`
}

// QuotaUse is what a node of the pool has used on one day.
type QuotaUse struct {
	Node string  `rec:"1,name"`
	Used Amounts `rec:"2"`
	// Answers that say how long they took, and Took in all.
	Answers int64         `rec:"3"`
	Took    time.Duration `rec:"4"`
	// Run is on how many days in a row before it has used less than the rule about that wants.
	Run int `rec:"5"`
}

package view

import "time"

// QuotaControl is a standing change to quotas.yaml.
type QuotaControl struct {
	ID string `json:"id"`
	// Kind is set, boost, group, agent or correct. Target is the id of a node; of a group or agent that
	// is registered its own id.
	Kind   string `json:"kind"`
	Target string `json:"target"`
	// Key and Value of set, boost and correct; of a group or agent Value is its entry, as JSON.
	Key   string `json:"key,omitempty"`
	Value string `json:"value"`
	// Asked is by how much a correction was to be; Value is by how much it has moved what counts as used.
	Asked string    `json:"asked,omitempty"`
	Until time.Time `json:"until,omitzero"`
	At    time.Time `json:"at"`
	By    string    `json:"by,omitempty"`
	// Reason for people. Rule is the name of the rule that has made it; empty: a person has.
	Reason string `json:"reason,omitempty"`
	Rule   string `json:"rule,omitempty"`
	// Suspended says why it does not count at the moment; empty: it does.
	Suspended string `json:"suspended,omitempty"`
}

// QuotaControls is the answer of /v1/quota/controls, in the order in which they were made.
type QuotaControls struct {
	Configured bool           `json:"configured"`
	Controls   []QuotaControl `json:"controls"`
}

// QuotaChange sets settings of a node, or boosts them, or corrects what counts as used of it.
type QuotaChange struct {
	Node string
	// Values by their keys, sorted; Boost: they are relative. Correct: they are by how much what was used in
	// these dimensions is wrong.
	Values  []QuotaValue
	Boost   bool
	Correct bool
	// Preview: nothing is changed; the answer is what would be.
	Preview bool
	// Until it ends, or For how long it stands; both zero: until it is ended.
	Until      time.Time
	For        time.Duration
	By, Reason string
}

// QuotaValue is one setting of a node, as quotas.yaml would say it.
type QuotaValue struct{ Key, Value string }

// QuotaEntry registers a group, or an Agent. Entry is a JSON object with the keys of groups[] or
// agents[] in quotas.yaml, without id.
type QuotaEntry struct {
	Agent      bool
	ID         string
	Entry      string
	By, Reason string
}

// QuotaChanged answers a change.
type QuotaChanged struct {
	// Controls that were asked for, as they stand; Removed do not any more.
	Controls []QuotaControl `json:"controls"`
	Removed  []QuotaControl `json:"removed"`
	// Nodes concerned, as they are now.
	Nodes []QuotaNode `json:"nodes"`
	// Moves of a preview: what budgets would be, and what nodes above them would have given to none.
	Moves []QuotaMove `json:"moves,omitempty"`
}

// QuotaMove is what a budget is of its own, and what it would be. Spare: it is what the node has given to none of those
// below it.
type QuotaMove struct {
	Node      string  `json:"node"`
	Spare     bool    `json:"spare,omitempty"`
	Dimension string  `json:"dimension"`
	Period    string  `json:"period"`
	Before    float64 `json:"before"`
	After     float64 `json:"after"`
}

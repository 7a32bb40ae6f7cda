package view

// Reconciled is the answer of /v1/quota/reconcile.
type Reconciled struct {
	// From, To are the days that were compared, By which time: day, month, total.
	From string `json:"from"`
	To   string `json:"to"`
	By   string `json:"by"`
	// Columns of the bill that are understood, Ignored the others, Lines how many it has.
	Columns []string `json:"columns"`
	Ignored []string `json:"ignored_columns"`
	Lines   int      `json:"lines"`
	// Agrees: there are no differences beyond the tolerance. Compared is how many days (by
	// provider, model, …) were compared, Differ how many of these do not agree.
	Agrees   bool `json:"agrees"`
	Compared int  `json:"compared"`
	Differ   int  `json:"differ"`
	// Totals of all days; Differences at most 1,000, More if there are more.
	Totals      []BillTotal      `json:"totals"`
	Differences []BillDifference `json:"differences"`
	More        bool             `json:"more"`
	// Lost is what was used by reservations that the journal did not know any more: it may be part of what
	// the bill has more.
	Lost       HistoryCounts `json:"lost"`
	Projection Projection    `json:"projection"`
}

// BillTotal is one measure in all. Amounts of cost_usd are US dollars.
type BillTotal struct {
	Measure    string   `json:"measure"`
	History    float64  `json:"history"`
	Bill       float64  `json:"bill"`
	Difference float64  `json:"difference"` // history - bill
	Relative   *float64 `json:"relative"`   // of the bill; null where that is 0
}

// BillDifference is one measure in which a day (by provider, model, …) differs.
type BillDifference struct {
	Day      string `json:"day,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Group    string `json:"group,omitempty"`
	Agent    string `json:"agent,omitempty"`
	// Only is history or bill where the other has nothing of it; else empty.
	Only string `json:"only,omitempty"`
	BillTotal
}

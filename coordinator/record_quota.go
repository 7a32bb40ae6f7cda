package coordinator

import "time"

// Records about quotas.

// QuotaReserved says that quota is set aside for a call or task.
type QuotaReserved struct {
	Key      TaskKey `rec:"1"` // of the reservation's id
	Group    string  `rec:"2,name"`
	Agent    AgentID `rec:"3"`
	Provider string  `rec:"4,name"`
	Model    string  `rec:"5,name"`
	Amounts  Amounts `rec:"6"`
	// Expect is what was charged to the group's turn for it (see fairqueue.Shares).
	Expect      int64     `rec:"7"`
	NoBorrowing bool      `rec:"8"`
	At          time.Time `rec:"9"`
	Until       time.Time `rec:"10"` // Until zero: it does not end by itself
	// Before: it is part of a snapshot, and what follows is as it stood then.
	Before bool        `rec:"16"`
	State  uint8       `rec:"17"` // 0 open, 1 expired, 2 ended and remembered, 3 likewise: charged in one step
	Loans  []QuotaLoan `rec:"18"`
	// Served are the nodes whose rates served it, in the order of its rates.
	Served []string `rec:"11,name"`
	// Level is the priority of the task that was served by it, and Waiting has a bit for each priority of
	// which a task could have been served instead, its own among them: the next turn among priorities
	// depends on that (see fairqueue.Shares.Served). 0: on nothing.
	Level   Priority `rec:"12"`
	Waiting uint8    `rec:"13"`
	// Call: it is not for a task. Operation is then what sort of call it is, and Untold says that it is
	// charged, and not given back, if its end is never reported.
	Call      bool     `rec:"14"`
	Operation string   `rec:"15,name"`
	Untold    bool     `rec:"19"`
	Known     NameKept `rec:"20"`
	// Asked is a hash of what was asked for (see Call); 0: not known.
	Asked uint64 `rec:"21,hash"`
	// Payer is the group that a task is charged to that names none: its agent's.
	Payer string `rec:"22,name"`
}

// QuotaLoan is what one node's budget has borrowed of another's for a reservation; of no node in particular
// if From is empty.
type QuotaLoan struct {
	From      string    `rec:"1,name"`
	To        string    `rec:"2,name"`
	Dimension Dimension `rec:"3"`
	Amount    int64     `rec:"4"`
}

// QuotaExtended says that more is set aside, or for longer.
type QuotaExtended struct {
	Key   TaskKey   `rec:"1"`
	More  Amounts   `rec:"2"`
	At    time.Time `rec:"3"`
	Until time.Time `rec:"4"` // Until zero: as before
}

// QuotaEnd is how a reservation ended.
type QuotaEnd uint8

// The ends. The numbers are part of the journal and never change.
const (
	QuotaSettled  QuotaEnd = 0 // at what was used
	QuotaReleased QuotaEnd = 1 // nothing was used
	QuotaExpired  QuotaEnd = 2 // its end was not reported in time
	NumQuotaEnds           = 3
)

// QuotaEnded says that a reservation has ended.
type QuotaEnded struct {
	Key  TaskKey   `rec:"1"`
	How  QuotaEnd  `rec:"2"`
	Used Amounts   `rec:"3"`
	At   time.Time `rec:"4"`
	// Keep: it is remembered, because the report may be repeated.
	Keep bool `rec:"5"`
	// Heard: the provider's answer to the call was reported with it; Failed: it was none that helps.
	Heard  bool `rec:"6"`
	Failed bool `rec:"7"`
	// Type of the task from whose usage the estimator has learnt; empty: it has not.
	Type string `rec:"8,name"`
	// Took is how long its agent says that it worked, or the provider took to answer the call; 0:
	// not given.
	Took time.Duration `rec:"9"`
	// Late is the owner of a reservation that had expired before it was settled, nil of all others: readers
	// that add up the journal need not remember what has expired.
	Late *QuotaOwner `rec:"10"`
	// Word says whose report ended it.
	Word QuotaWord `rec:"11"`
	// Told is what it was said to have used, if that was more than is accepted: Used is less then. Else it
	// is zero.
	Told Amounts `rec:"12"`
}

// QuotaWord is whose report ended a reservation. The numbers are part of the journal and never change.
type QuotaWord uint8

// The values of QuotaWord.
const (
	// WordBelieved: it cannot be doubted. A gateway says so, or the coordinator itself.
	WordBelieved QuotaWord = 0
	// WordOwn: the agent's own report, about a call or in the result of a task. What it reports beyond the
	// reservation is uncorroborated.
	WordOwn QuotaWord = 1
	// WordUnasked: likewise, of calls that were not reserved before: all of the report is uncorroborated.
	WordUnasked QuotaWord = 2

	NumQuotaWords = 3
)

// QuotaOwner says for which task and tenant quota was set aside, and when.
type QuotaOwner struct {
	Group    string    `rec:"1,name"`
	Agent    AgentID   `rec:"2"`
	Provider string    `rec:"3,name"`
	Model    string    `rec:"4,name"`
	Call     bool      `rec:"5"` // and not a task
	At       time.Time `rec:"6"`
	Known    NameKept  `rec:"7"`
}

// NameKept is the names under which the usage history counts a call: an agent may send any name, and
// each name is a row for good. The numbers are part of the journal and never change.
type NameKept uint8

// What is kept.
const (
	NamesKept    NameKept = 0 // provider and model
	ProviderKept NameKept = 1 // the model is one of the others of its provider
	NoNameKept   NameKept = 2 // it is one of the others

	NumNamesKept = 3
)

// QuotaBefore is what snapshots say of one node's budget or rate in one dimension. The first
// of them has no Node, and says as of when.
type QuotaBefore struct {
	Node      string    `rec:"1,name"`
	Dimension Dimension `rec:"2"`
	Rate      bool      `rec:"3"`
	Start     int64     `rec:"4"` // of a budget's period, in ns since 1970
	Values    []int64   `rec:"5"` // in the order of the ledger's own
}

// QuotaTold says that it was published that so many percent of a node's budget are used or set aside (see
// [QuotaReached]): it is not published again in that period, nor for less.
type QuotaTold struct {
	Node      string    `rec:"1,name"`
	Dimension Dimension `rec:"2"`
	Percent   int64     `rec:"3"`
	At        time.Time `rec:"4"`
}

// EstimateBefore is what snapshots say of what calls have taken: one row of the estimator's
// (see estimates.Row). The First of them is without a row of its own.
type EstimateBefore struct {
	First  bool     `rec:"1"`
	Tenant string   `rec:"2,name"`
	Model  string   `rec:"3,name"`
	Level  uint8    `rec:"4"`
	Input  bool     `rec:"5"`
	Bucket int      `rec:"6"`
	Sum    int64    `rec:"7"`
	Counts []uint32 `rec:"8"`
}

// ShareBefore is where the turn of one group stands (see fairqueue.Tags): in snapshots, and where something that waits
// in it has moved it.
type ShareBefore struct {
	// First: forget what was said of shares before.
	First  bool   `rec:"1"`
	Group  string `rec:"2,name"`
	Parent string `rec:"3,name"`
	// Own: of what stands for the tasks of an inner group itself.
	Own    bool    `rec:"4"`
	Values []int64 `rec:"5"` // in the order of the shares' own
}

package coordinator

// Key is what a strategy makes of an agent: smaller is better, First counts before
// Second. NaN in either says that the agent gets no score: it is refused as Unscored.
// (It is no array, because those are not handed over in registers, and a choice
// makes one for each agent.)
type Key struct{ First, Second float64 }

// Unscored reports whether the strategy could not score the agent.
func (k Key) Unscored() bool { return k.First != k.First || k.Second != k.Second }

// MaxTerms is how many named terms an explanation shows of one candidate.
const MaxTerms = 8

// TermValues are the values of a strategy's terms for one agent, in the order of
// Strategy.Terms.
type TermValues [MaxTerms]float64

// Case is one task as strategies see it. It is made once for each decision.
type Case struct {
	Task *Task
	// Required is how many capabilities the task requires, with those of its route.
	Required int
	// Reference is how many seconds a task of this type takes on average over the
	// fleet; 0 when that is not known yet.
	Reference float64
	// MaxCost is the largest Cost of any agent of the fleet; 0 when none has one.
	MaxCost float64
	// AffinityLabel, Affinity and Session are the strategy's own, set by its Prepare:
	// the label in which task and agent should agree with the task's value of it, and
	// a hash of the session that the task belongs to. Empty and 0 mean none.
	AffinityLabel, Affinity string
	Session                 uint64
}

// Standing is what is known of how well one agent does with tasks of one type.
type Standing struct {
	// Success is the probability, 0 to 1, that it succeeds: the mean of the
	// posterior, a draw from it when the decision explores, or the rate that
	// agents.yaml states.
	Success float64
	// Duration is how many seconds it is expected to take; 0 when not known.
	Duration float64
}

// Strategy is a way to choose among the eligible agents. It is immutable, without
// state, and safe for concurrent use; package strategy makes them.
type Strategy struct {
	Name string
	// About is one sentence for people.
	About string
	// Parameters is its configuration as canonical text: two strategies of the
	// same name and parameters choose alike. Empty when it has none.
	Parameters string
	// Terms name what Explain fills in, in that order; at most MaxTerms.
	Terms []string
	// Learned says that Key or Explain reads the Standing; else it gets a zero one.
	Learned bool
	// Scored says that Key.First is minus a score: the larger the score, the better.
	Scored bool
	// Exploration is the share of tasks, 0 to 1, for which Standing.Success is a
	// draw from the posterior instead of its mean.
	Exploration float64
	// Sample is how many eligible agents are looked at, at most; 0 leaves it to the
	// engine.
	Sample int
	// Prepare completes the Case, once before the agents are ranked; may be nil.
	Prepare func(*Case)
	// Key ranks one eligible agent. It is called once per agent and decision, must
	// not block and should not allocate.
	Key func(*Case, *AgentView, *Standing) Key
	// Why says for people why an agent got no score (see Unscored); nil: no more is
	// known.
	Why func(*Case, *AgentView, *Standing) string
	// Explain fills in the terms of one agent; nil: they are the elements of its key.
	Explain func(*Case, *AgentView, *Standing, *TermValues)
	// Market asks the agents for bids first; nil: none are asked. The strategy's own rules then choose
	// which agents to ask, and decide when no agent bids.
	Market *Market
}

// Score is the number that the strategy shows people for a key; false when it
// does not score.
func (s *Strategy) Score(k Key) (float64, bool) { return -k.First, s.Scored }

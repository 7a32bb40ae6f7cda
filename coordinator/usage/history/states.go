package history

// The states of a History.
const (
	Waiting    = "waiting"    // there are no quotas, or no journal yet
	Following  = "following"  // what the journal says is written within seconds
	Beside     = "beside"     // another coordinator writes to the same database
	Rebuilding = "rebuilding" // the rows are being made anew
	Failing    = "failing"    // it tries again; the detail says why, and what to do
	Stopped    = "stopped"    // it does without; the detail says why
)

// States are all of them: metrics and documents name them, too.
func States() []string {
	return []string{Waiting, Following, Beside, Rebuilding, Failing, Stopped}
}

package metrics

import "github.com/prometheus/client_golang/prometheus"

// historyStates are those of usage/history, which knows databases and is therefore not imported here; a test binds
// them.
var historyStates = []string{"waiting", "following", "beside", "rebuilding", "failing", "stopped"}

// The metrics of the history of usage. There are none where none is kept.
var (
	descHistoryState = desc("history_state",
		"1 for what the history of usage does: waiting, following, beside (another coordinator writes it), "+
			"rebuilding, failing, stopped.", "state")
	descHistoryLag = desc("history_lag_records",
		"Journal records not yet in the history of usage; absent while not known.")

	// HistoryDescs describe what [CollectHistory] gives.
	HistoryDescs = []*prometheus.Desc{descHistoryState, descHistoryLag}
)

// CollectHistory gives the state of the history of usage to a scrape, and by how many records it is behind: read is
// the number of the first record of the journal that is not in it, written of the next that the journal gets; 0:
// not known.
func CollectHistory(ch chan<- prometheus.Metric, state string, read, written uint64) {
	emit := emitTo(ch, nil)
	for _, s := range historyStates {
		emit(descHistoryState, Bool(s == state), s)
	}
	if read > 0 && written > 0 {
		emit(descHistoryLag, float64(max(written, read)-read))
	}
}

package service

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// How far the history is behind is the journal's next record less its own next one; what is not
// known is not told. Every state has its series, so that an alert finds it.
func TestMetricsOfTheHistory(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		seen := func() (states []string, lag float64, known bool) {
			t.Helper()
			samples := scraped(t, r.service.options.Registry)
			for name, v := range samples {
				if state, ok := strings.CutPrefix(name, "taskbus_history_state{"); ok && v == 1 {
					states = append(states, strings.TrimSuffix(state, "}"))
				} else if ok && v != 0 {
					t.Errorf("%s is %v", name, v)
				}
			}
			lag, known = samples["taskbus_history_lag_records"]
			return states, lag, known
		}
		if states, _, known := seen(); states != nil || known {
			t.Errorf("no history is kept: %v, lag known %v", states, known)
		}

		r.task("t-1", "build", usage(70, 21, "poor"))
		next := r.service.journalNext()
		if next < 3 { // an agent's report, a reservation and a decision are in it
			t.Fatalf("the journal's next record is number %d", next)
		}
		var standing HistoryStanding
		var fault error
		r.service.ReportHistory(func(context.Context) (HistoryStanding, error) { return standing, fault })
		for _, tc := range []struct {
			name     string
			standing HistoryStanding
			err      error
			lag      float64 // below 0: not known
		}{
			{"it is there", HistoryStanding{"following", next}, nil, 0},
			{"two are missing", HistoryStanding{"following", next - 2}, nil, 2},
			{"all are missing", HistoryStanding{"rebuilding", 1}, nil, float64(next - 1)},
			{"it is of another journal", HistoryStanding{"failing", next + 100}, nil, 0},
			{"no database is open", HistoryStanding{"failing", 0}, nil, -1},
			{"the database is away", HistoryStanding{"failing", 0}, errors.New("connection refused"), -1},
			{"half of an answer", HistoryStanding{"beside", next - 1}, errors.New("connection reset"), -1},
		} {
			standing, fault = tc.standing, tc.err
			states, lag, known := seen()
			if len(states) != 1 || states[0] != `state="`+tc.standing.State+`"` || known != (tc.lag >= 0) || known &&
				lag != tc.lag {
				t.Errorf("%s: %v, lag %v (known: %v), want %v", tc.name, states, lag, known, tc.lag)
			}
		}
		standing, fault = HistoryStanding{"following", next}, nil
		r.task("t-2", "build", usage(70, 21, "poor"))
		if _, lag, known := seen(); !known || lag <= 0 || lag != float64(r.service.journalNext()-next) {
			t.Errorf("after another task: lag %v, known %v", lag, known)
		}
	})
}

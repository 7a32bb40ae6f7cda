package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/history"
	"taskbus/coordinator/usage/store"
	"taskbus/coordinator/view"
)

// keepHistory makes the history of usage that the environment asks for.
func (i *instance) keepHistory(a *cli.App) error {
	place, byDefault := i.env.History.Reveal(), false
	switch {
	case place == config.HistoryOff:
		return nil
	case place == "":
		if place = cli.HistoryFile(a.Getenv, i.env); place == "" {
			if i.cfg.Policy().Quotas != nil {
				i.logger.Warn().
					Msg(
						"no history of usage is kept: neither STATE_DIRECTORY nor HOME says where; name a file or a " +
							"PostgreSQL database in TASKBUS_HISTORY, or set it to off")
			}
			return nil
		}
		byDefault = true
	case store.Postgres(place):
		if err := store.CheckURL(place); err != nil {
			return cli.ConfigError(errors.New("environment: TASKBUS_HISTORY: " + err.Error()))
		}
	}
	i.history = history.New(history.Options{
		Bus: a.OpenBus(i.env.RabbitMQURL.Reveal(), i.logger), Session: cli.SessionName("history"),
		Place: place, ByDefault: byDefault, Zone: i.reload.zone, Logger: i.logger,
	})
	return nil
}

// zone is the time zone of the quotas in force, nil for UTC; false while there are none.
func (r *reloader) zone() (*time.Location, bool) {
	q := r.current.Load().Policy().Quotas
	if q == nil {
		return nil, false
	}
	return q.Location, true
}

// historySource is the history in the words of the HTTP interface.
type historySource struct {
	history *history.History
	reload  *reloader
}

func (h historySource) Usage(ctx context.Context, q usage.Query) ([]usage.Row, bool, error) {
	rows, more, err := h.history.Usage(ctx, q)
	if _, quotas := h.reload.zone(); err != nil && !quotas {
		err = fmt.Errorf("%w: %w", httpapi.ErrNoQuotas, err)
	}
	return rows, more, err
}

func (h historySource) Zone() *time.Location {
	zone, _ := h.reload.zone()
	return zone
}

func (h historySource) Projection(ctx context.Context) (view.Projection, error) {
	s, err := h.history.Status(ctx)
	p := view.Projection{
		State: s.State, Detail: s.Detail, Place: s.Place,
		Since: s.Mark.Since, UpTo: s.Mark.At, Offset: s.Mark.Offset, Rebuilds: s.Mark.Generation,
		Gaps: s.Gaps,
	}
	return p, err
}

// standing is how it stands, for metrics.
func (h historySource) standing(ctx context.Context) (service.HistoryStanding, error) {
	s, err := h.history.Status(ctx)
	standing := service.HistoryStanding{State: s.State}
	if s.Follows {
		standing.Next = s.Mark.Next
	}
	return standing, err
}

func (h historySource) Rebuild(ctx context.Context) (view.Rebuilt, error) {
	made, err := h.history.Rebuild(ctx)
	if errors.Is(err, history.ErrGoesOn) {
		return view.Rebuilt{}, httpapi.ErrRebuilding
	}
	r := view.Rebuilt{Since: made.Since, FromDay: made.From, Kept: made.Kept, Rows: made.Rows, Offset: made.Offset}
	reaches := "The journal reaches back to " + made.Since.UTC().Format(time.RFC3339)
	switch {
	case made.From != "":
		r.Detail = reaches + "; the days before " + made.From + " stay as they were."
	case made.Kept:
		r.Detail = reaches + "; what the history had from before stays."
	default:
		r.Detail = reaches + ", and all of the history was made anew from it."
	}
	return r, err
}

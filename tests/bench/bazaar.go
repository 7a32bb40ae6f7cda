package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The service with those who bid.

// choosersFile is the agents.yaml of a fleet of which a part chooses. Bids count as
// they are claimed and everybody is asked, as in ADR-004, between a window of
// marketWindow and the ceiling.
func choosersFile(slots int, ceiling time.Duration, claimers string) []byte {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range fleetSize {
		can, mode := strings.Join(skills(i), ", "), "push"
		switch {
		case i < bidderCount:
			can = "bid"
		case i >= firstClaimer:
			can, mode = "fetch", claimers
		}
		fmt.Fprintf(&b, "  %s: {capabilities: [%s], max_concurrent_tasks: %d, mode: %s, health_check_interval: 5, accept_timeout_seconds: 3600}\n",
			agentID(i), can, slots, mode)
	}
	b.WriteString("task_routing:\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s: {required_capabilities: [%s]}\n", k.name, strings.Join(k.requires, ", "))
	}
	fmt.Fprintf(&b, "  %s: {required_capabilities: [bid], strategy: market}\n  %s: {required_capabilities: [fetch]}\n", auctioned, claimed)
	fmt.Fprintf(&b, "assignment_strategies:\n  load_balanced: {default: true}\n  market: {bid_window_ms: %d, min_bid_window_ms: %d, invite: all, fitness: reported}\n",
		ceiling.Milliseconds(), marketWindow.Milliseconds())
	b.WriteString("global_settings: {stale_agent_threshold_seconds: 600, assignment_timeout_seconds: 60}\n")
	return []byte(b.String())
}

// bazaar is the service with bidders, and us as all that comes of it.
type bazaar struct {
	b        *bench
	s        *subject
	arrivals <-chan placed
	close    func() error
	next     int // number of a task
}

// startBazaar starts the service and its bidders, and begins to take all dispatches.
func (b *bench) startBazaar(ctx context.Context, fleet []byte, late int) (z *bazaar, err error) {
	if err := b.broker.clean(); err != nil {
		return nil, err
	}
	s, err := startTaskbus(ctx, b, fleet, unlimited(standbyStatuses))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if _, err := s.with(ctx, b, "bidders", strconv.Itoa(late)); err != nil {
		return nil, err
	}
	conn, channel, err := dial(b.url, "agents")
	if err != nil {
		return nil, err
	}
	arrivals, err := consumePlaced(channel, queues(taskbusQueue))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &bazaar{b: b, s: s, arrivals: arrivals, close: conn.Close}, nil
}

// end stops everything, and sees that nothing is left; after a fault it only stops.
func (z *bazaar) end(fault error) error {
	err := errors.Join(z.s.stop(), z.close())
	if fault != nil {
		return fault
	}
	_, c := contenders()
	return errors.Join(err, z.b.verifyEmpty(c))
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// Who of the fleet does what, where some of it chooses: the first bid, the last claim,
// and tasks are pushed to those between them.
const (
	bidderCount  = 50
	claimerCount = 10
	firstClaimer = fleetSize - claimerCount
)

const (
	// biddersLate is how many do not bid in time where a window is to run out: so many
	// that the others are fewer than the half which would be enough (auction.Patience).
	biddersLate = bidderCount/2 + 1
	// lateBid is after how long they bid: after the window.
	lateBid = marketWindow * 3 / 2
	// claimItems is what a claim asks for, and claimWait how long it waits for work.
	claimItems = 50
	claimWait  = time.Second
	// claimLost is after how long without an answer an agent claims again.
	claimLost = 5 * time.Second
)

// choosers speak for the agents that choose, with as little work as they can have. They
// share one connection for what they hear and one for what they say: agents of the SDK
// have two each, which for 50 of them on the machine of the service would be most of
// what is measured.
type choosers struct {
	hearing, saying *amqp.Connection
	hear, say       *amqp.Channel
	ended           chan error
}

func newChoosers(url string) (*choosers, error) {
	hearing, hear, err := dial(url, "choosers-hearing")
	if err != nil {
		return nil, err
	}
	saying, say, err := dial(url, "choosers-saying")
	if err != nil {
		return nil, errors.Join(err, hearing.Close())
	}
	return &choosers{hearing, saying, hear, say, make(chan error, fleetSize)}, nil
}

// serveChoosers says "ready" once all of them listen, and runs until ctx ends.
func serveChoosers(ctx context.Context, url string, out io.Writer, begin func(context.Context, *choosers) error) error {
	c, err := newChoosers(url)
	if err != nil {
		return err
	}
	if err := begin(ctx, c); err != nil {
		return errors.Join(err, c.close())
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return errors.Join(fmt.Errorf("say that the agents are ready: %w", err), c.close())
	}
	select {
	case <-ctx.Done():
	case err = <-c.ended:
	}
	return errors.Join(err, c.close())
}

func (c *choosers) close() error { return errors.Join(c.hearing.Close(), c.saying.Close()) }

// bidders has the agents that bid do so; the last `late` of them when it is too late.
func (c *choosers) bidders(_ context.Context, late int) error {
	for i := range bidderCount {
		id, delay := agentID(i), time.Duration(0)
		if i >= bidderCount-late {
			delay = lateBid
		}
		deliveries, err := c.control(id)
		if err != nil {
			return err
		}
		go func() { c.ended <- c.bid(id, i, delay, deliveries) }()
	}
	return nil
}

// control declares and consumes the agent's control queue.
func (c *choosers) control(id string) (<-chan amqp.Delivery, error) {
	queue := "agent." + id + ".control"
	if _, err := c.hear.QueueDeclare(queue, false, true, true, false, nil); err != nil {
		return nil, fmt.Errorf("declare the queue %s: %w", queue, err)
	}
	if err := c.hear.QueueBind(queue, id, bus.ExchangeControl, false, nil); err != nil {
		return nil, fmt.Errorf("bind the queue %s: %w", queue, err)
	}
	deliveries, err := c.hear.Consume(queue, "", true, true, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	return deliveries, nil
}

var errNoDeliveries = errors.New("the broker stopped delivering")

// bid is one bidder, the i-th.
func (c *choosers) bid(id string, i int, delay time.Duration, deliveries <-chan amqp.Delivery) error {
	for d := range deliveries {
		if d.Type != schemas.TaskAvailable {
			continue
		}
		messageType, bids, err := bidsOf(id, i, d.Body)
		if err != nil {
			return err
		}
		if delay > 0 {
			time.AfterFunc(delay, func() {
				if err := c.request(id, messageType, bids); err != nil {
					c.ended <- err
				}
			})
		} else if err := c.request(id, messageType, bids); err != nil {
			return err
		}
	}
	return errNoDeliveries
}

// bidsOf is the message with the bids for all that was offered. None is so good that a
// better one could not come.
func bidsOf(id string, i int, available []byte) (messageType string, body []byte, err error) {
	var m struct {
		Offers []struct {
			TaskID    coordinator.TaskID `json:"task_id"`
			AuctionID string             `json:"auction_id"`
		} `json:"offers"`
	}
	if err := json.Unmarshal(available, &m); err != nil {
		return "", nil, fmt.Errorf("read an offer: %w", err)
	}
	bids := make([]messages.TaskBid, len(m.Offers))
	for n, o := range m.Offers {
		number, _ := taskNumber(string(o.TaskID))
		bids[n] = messages.TaskBid{
			TaskID: o.TaskID, AuctionID: o.AuctionID, AgentID: coordinator.AgentID(id),
			Fitness: 0.5 + float64((number+i)%bidderCount)/100, EstimatedDurationSeconds: 0.25,
		}
	}
	if len(bids) == 1 {
		return schemas.TaskBid, messages.AppendTaskBid(nil, &bids[0]), nil
	}
	body, _ = messages.AppendTaskBids(nil, coordinator.AgentID(id), bids) // no more than were offered
	return schemas.TaskBids, body, nil
}

// request publishes to task.request as the SDK does, but for confirms.
func (c *choosers) request(id, messageType string, body []byte) error {
	err := c.say.PublishWithContext(context.Background(), bus.ExchangeAgents, bus.QueueRequest+"."+id, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: messageType, Body: body,
	})
	if err != nil {
		return fmt.Errorf("publish a %s: %w", messageType, err)
	}
	return nil
}

// claimers has the agents that pull claim, again as soon as they are answered.
func (c *choosers) claimers(ctx context.Context) error {
	for i := firstClaimer; i < fleetSize; i++ {
		deliveries, err := c.control(agentID(i))
		if err != nil {
			return err
		}
		go func() { c.ended <- c.claim(ctx, agentID(i), deliveries) }()
	}
	return nil
}

// claim is one agent that pulls.
func (c *choosers) claim(ctx context.Context, id string, deliveries <-chan amqp.Delivery) error {
	lost := time.NewTimer(claimLost)
	defer lost.Stop()
	for n := 0; ; n++ {
		body := messages.AppendTaskClaim(nil, &messages.TaskClaim{
			AgentID: coordinator.AgentID(id), ClaimID: fmt.Sprintf("%s-%d", id, n), MaxItems: claimItems,
			CapacityItemsPerSecond: 10_000, WaitSeconds: claimWait.Seconds(),
		})
		if err := c.request(id, schemas.TaskClaim, body); err != nil {
			return err
		}
		lost.Reset(claimLost)
		for answered := false; !answered; {
			select {
			case d, more := <-deliveries:
				if !more {
					return errNoDeliveries
				}
				answered = d.Type == schemas.TaskGranted
			case <-lost.C:
				answered = true
			case <-ctx.Done():
				return nil
			}
		}
	}
}

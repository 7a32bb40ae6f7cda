// Package market answers "which auctions are open, what do their bids hold, and when are they over?"
//
// A task that has a strategy with a market is a Lot: it is offered to some agents for a while, and its bids are
// entered in a book (package auction says what a bid is worth). It says
//
//   - for how long an auction takes bids, and of which agents (Length, Invite);
//   - which bids count, and which of them hold a slot of their agent (Bid, Bidder.Held);
//   - when a lot need not wait any longer (Look), and which lots are decided together (Conclude);
//   - what a closed lot leaves: its bids in their order, and the slots that are free again (Close);
//   - which lot goes to which agent where agents bid for more than they have slots (Match), which of its bids
//     wins a lot, what is announced of it (Award), and which would be next (Lot.Next).
//
// A bid holds a slot of its agent while the lot is open, so that nothing else is given to that slot.
// An agent that was asked more often than it has slots may bid for all: such a bid counts and holds
// nothing, and the lots contend. Auctions are no records: a coordinator that takes over offers the
// tasks anew.
//
// The package never dispatches, emits, records or schedules anything, changes nothing of the kernel, and
// knows neither quota nor the state of a task or an agent. What it needs of these are arguments, or asked
// of a View, or of what compares agents (Invite); what follows from its answers, and in which order, the kernel
// decides.
//
// # Handles
//
// T stands for the kernel's task and A for its agent. The package stores both and hands them back. It
// never looks into them, and tests use strings. With ids or numbers in their place the kernel would
// look up every agent of a closed lot, in maps that a new fleet replaces while lots are open.
// A lot is known by its pointer, and so is a Bidder, which the kernel keeps in its agent.
package market

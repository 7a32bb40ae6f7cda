// Package fleet answers "which agents are there, and how much can each take?"
//
// An agent is known by what it reports, by what was dispatched to it, and by what is seen of its queue. The package
// says
//
//   - how many slots of an agent are free (Agent.Free): a report speaks for the dispatches that it covers, and those
//     since, and the ends reported since, are counted on top (Account);
//   - why an agent may not have work, whatever the task (Fleet.Eligibility): the first row of causes that holds;
//   - which agents may have some: Fleet.Ready, Vacant and Present, and the agents of each cause;
//   - what strategies see of each (Fleet.Views);
//   - whether a report is news, and from when it is (Fleet.Accept);
//   - which queues are to be looked at (Fleet.Watched);
//   - which agents that announce themselves become part of the fleet (Fleet.Announced, Join);
//   - what is kept of an agent when the configuration changes (Fleet.Adopt).
//
// The package never dispatches, emits, records or schedules anything, never calls the kernel, and knows neither
// breakers, quota, auctions nor claims. What it needs of these are arguments, or read from a Member: the kernel's
// agent, which embeds an Account, as its task embeds a Dispatch.
package fleet

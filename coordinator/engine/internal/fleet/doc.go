// Package fleet answers "which agents are there, and how much can each take?"
//
// An agent is known by what it reports, by what was dispatched to it, and by what is seen of its queue. The package
// says
//
//   - how many slots of an agent are free (Agent.Free): a report speaks for the dispatches that it covers, and those
//     since, and the ends reported since, are counted on top (Account);
//   - why an agent may not have work, whatever the task (Fleet.Eligibility): the first cause that holds;
//   - which agents may be given a task now (Fleet.Ready), or one that must be alone (Vacant), which may when they have
//     free slots (Present), and the agents of each cause;
//   - what strategies see of each (Fleet.Views);
//   - whether a report is news, and from when it is (Fleet.Accept), and what follows from it (Reported), from silence
//     (Due), and from what the broker says of queues (QueueSeen, QueueChecked, Undelivered);
//   - when agents can be heard at all, and what is awaited after they could not (Fleet.SessionOpened, PublishingHeld);
//   - which queues are to be looked at (Fleet.Watched);
//   - which agents that announce themselves become part of the fleet (Fleet.Announced, Join);
//   - how much each capability is asked for, and offered (Fleet.Weigh, Capabilities);
//   - what is kept of an agent when the configuration changes (Fleet.Adopt).
//
// What the kernel has to do for the state of an agent is an answer: a list of Changes in the order in
// which they count, valid until the next call. The state of the fleet is already that after all of them.
//
// The package never dispatches, emits, records or schedules anything, and knows neither breakers, quota, auctions nor
// claims. What it needs of these are arguments, or read from a Member: the kernel's agent, which embeds an Account, as
// its task embeds a Dispatch. Of the kernel it calls nothing else but what makes a Member (Adopt).
package fleet

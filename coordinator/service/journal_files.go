package service

import (
	"fmt"

	"taskbus/coordinator/journal"
)

// Which files the leader has, and which those have that stand by: a take-over by one with other files
// would change the fleet or its budgets.

// leader returns the leader, as the journal says; false unless this coordinator stands by.
func (s *Service) leader() (leader journal.Epoch, standby bool) {
	r := s.current.Load()
	if r == nil || r.ledger == nil || s.state.read().state != stateStandby {
		return leader, false
	}
	return r.ledger.Position().Leader, true
}

// otherFiles says that a coordinator that stands by has other files than the leader; empty: it has the
// same, or does not know. Files of another version of the program have other versions, and are not
// compared.
func (s *Service) otherFiles(leader journal.Epoch) string {
	if leader.Agents == "" || leader.Version != s.options.Version {
		return ""
	}
	agents, quotas := s.config.Load().FileVersions()
	name := func(version string) string {
		if version == "" {
			return "none"
		}
		return version
	}
	what, here, there := "", "", ""
	switch {
	case agents != leader.Agents:
		what, here, there = "agents.yaml", agents, leader.Agents
		if quotas != leader.Quotas {
			what, here, there = "agents.yaml and quotas.yaml", agents+" and "+name(quotas), leader.Agents+" and "+
				name(leader.Quotas)
		}
	case quotas != leader.Quotas:
		what, here, there = "quotas.yaml", name(quotas), name(leader.Quotas)
	default:
		return ""
	}
	return fmt.Sprintf(
		"%s of this standby differs from that of the leader %s (here %s, there %s): a take-over would put it in force; "+
			"give both the same files",
		what, leader.Instance, here, there)
}

// compareFiles writes down once that this coordinator, which stands by, has other files than the leader.
func (s *Service) compareFiles(leader journal.Epoch) {
	text := s.otherFiles(leader)
	if last := s.saidOther.Swap(&text); text != "" && (last == nil || *last != text) {
		s.log.Warn().Msg("configuration: " + text)
	}
}

// filesOf hears that the leader has other files than before.
func (s *Service) filesOf(leader journal.Epoch) {
	if s.state.read().state == stateStandby {
		s.compareFiles(leader)
	}
}

// filesChanged has the journal say which files are in force here, if this coordinator leads; one that
// stands by compares its own.
func (s *Service) filesChanged() {
	if leader, standby := s.leader(); standby {
		s.compareFiles(leader)
	}
	if r := s.current.Load(); r != nil && r.ledger != nil {
		r.ledger.Files(s.config.Load().FileVersions())
	}
}

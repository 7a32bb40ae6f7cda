package market

import (
	"fmt"
	"iter"

	"taskbus/coordinator"
)

// Check recounts from the open lots what the market, these bidders and these classes have counted, which must
// be all there are. It returns the first difference. It is for tests, and costs a pass over all offers.
func (m *Market[T, A]) Check(bidders iter.Seq[*Bidder[A]], classes iter.Seq[*Class]) error {
	type counts struct{ offers, held, contending int }
	byBidder, byClass, all := make(map[*Bidder[A]]*counts), make(map[*Class]*Class), counts{}
	for b := range bidders {
		byBidder[b] = &counts{}
	}
	for c := range classes {
		byClass[c] = &Class{Of: c.Of}
	}
	for _, l := range m.open {
		c, byID := byClass[l.class], make(map[coordinator.AgentID]*counts, len(l.asked))
		if c == nil {
			return fmt.Errorf("lot %s is of an unknown class", l.ID)
		}
		if c.open++; !l.holds() {
			c.seeking++
		}
		for _, b := range l.asked {
			if byID[b.ID] = byBidder[b]; byID[b.ID] == nil {
				return fmt.Errorf("lot %s is offered to %s, an unknown agent", l.ID, b.ID)
			}
		}
		l.book.Silent(func(id coordinator.AgentID) {
			byID[id].offers++
			all.offers++
		})
		for _, b := range l.bids {
			if b.held {
				byID[b.bidder.ID].held++
			} else {
				byID[b.bidder.ID].contending++
				all.contending++
			}
		}
	}
	if m.offers != all.offers || m.contending != all.contending {
		return fmt.Errorf("%d offers and %d contending bids, recounted %+v", m.offers, m.contending, all)
	}
	for b, is := range byBidder {
		if said := (counts{b.offers, b.held, b.contending}); said != *is {
			return fmt.Errorf("agent %s: counted %+v, recounted %+v", b.ID, said, *is)
		}
	}
	for c, is := range byClass {
		if *c != *is {
			return fmt.Errorf("a class: counted %+v, recounted %+v", *c, *is)
		}
	}
	return nil
}

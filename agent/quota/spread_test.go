package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"taskbus/agent/quota"
)

// Calls that are refused until the same moment are told to wait a little longer than that, each for a
// time of its own, by the client and by its transport as by the coordinator.
func TestRefusedCallsWaitApart(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		c := r.client("x")
		defer r.close(c)
		admit(t, c, 1000).Settle(nil, nil)
		time.Sleep(time.Second)
		seen := make(map[time.Duration]bool)
		for i := range 20 {
			call := taking(500, 1)
			call.ID = fmt.Sprint("call-", i)
			var refused *quota.Refused
			if _, err := c.Reserve(context.Background(), call); !errors.As(err, &refused) {
				t.Fatalf("%s: %v", call.ID, err)
			}
			// The day is over in hours, so that it is less than a minute longer; and headers have whole seconds.
			longer := refused.RetryAfter - time.Until(refused.RetryAt)
			if longer < 0 || longer > time.Minute+time.Second {
				t.Errorf("%s: after %v, that is %v later than %v", call.ID, refused.RetryAfter, longer, refused.RetryAt)
			}
			seen[refused.RetryAfter] = true
		}
		if len(seen) < 10 {
			t.Errorf("20 calls come back at %d moments", len(seen))
		}
		resp, _ := post(t, &quota.Transport{Client: c, Base: provider(nil)}, chat, chatBody)
		midnight := time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
		if wait, err := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64); err != nil || wait < midnight.Seconds() ||
			wait > midnight.Seconds()+61 {
			t.Errorf("the transport says %q, and it is %v until midnight", resp.Header.Get("Retry-After"), midnight)
		}
	})
}

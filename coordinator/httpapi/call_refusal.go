package httpapi

import (
	"encoding/json"
	"net/http"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// quotaExceeded answers what a limit refuses: with 429, and what none ever has room for with 422.
func quotaExceeded(w http.ResponseWriter, id string, key coordinator.TaskKey, x *coordinator.CallAnswer) {
	status := http.StatusTooManyRequests
	if x.State == coordinator.CallNever {
		status = http.StatusUnprocessableEntity
	} else {
		gateway.RetryAfter(w.Header(), x, key)
	}
	p := gateway.QuotaRefusal(status, id, x)
	body, err := json.Marshal(p)
	if err != nil { // plain fields: cannot happen, and must not be silent if it does
		http.Error(w, p.Title, status)
		return
	}
	send(w, status, "application/problem+json", body)
}

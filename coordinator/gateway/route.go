package gateway

import (
	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// CallRoutes are the alternatives of an answer as they were judged, for programs.
func CallRoutes(x *coordinator.CallAnswer) (all []view.CallRoute) {
	for i := range x.Routes {
		all = append(all, view.RouteOf(&x.Routes[i]))
	}
	return all
}

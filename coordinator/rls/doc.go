// Package rls is Envoy's rate-limit service (envoy.service.ratelimit.v3).
//
// Gateways ask here over gRPC whether a request may pass, and report what it has used.
//
// It answers "is there quota for what these descriptors say?" from a [Source], the small interface
// it asks the coordinator through, all descriptors of a request together: of none is anything
// charged if one is refused. What descriptors may say is in descriptor.go.
//
// It must never answer a caller that has not shown that it is a gateway. It must never answer with
// an error what a client of the gateway can bring about, such as an agent id that is none, because
// gateways let through what fails: that is refused as over the limit. An error says that the gateway
// itself is at fault, or that no coordinator can be asked. It holds nothing about calls: what is charged, and
// to which group, the engine decides.
package rls

package rls

import (
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// unreadable stands in a request in place of what could not be read: a gateway's client can bring that about, by
// bytes that are no text in a header or by a very long one, and gateways let pass what is answered with an error.
var unreadable = &common.RateLimitDescriptor{}

// codec is gRPC's own, but that a request which cannot be read is one that is over the limit.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	q, ok := v.(*pb.RateLimitRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if data.Len() <= maxRequest && c.CodecV2.Unmarshal(data, q) == nil {
		return nil
	}
	q.Reset()
	q.Descriptors = []*common.RateLimitDescriptor{unreadable}
	return nil
}

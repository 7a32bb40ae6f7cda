//go:build !linux

package wire

import (
	"net"
	"time"
)

// limitStalls does nothing where TCP_USER_TIMEOUT does not exist; the write
// deadline holds everywhere.
func limitStalls(net.Conn, time.Duration) {}

package wire

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of Linux; package syscall does not name it.
const tcpUserTimeout = 18

// limitStalls bounds how long sent data may stay unacknowledged before the
// kernel gives the connection up (its own default is about 15 minutes). 0
// restores the default. A socket that does not know the option keeps its default:
// the write deadline still holds.
func limitStalls(socket net.Conn, d time.Duration) {
	tcp, ok := socket.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}

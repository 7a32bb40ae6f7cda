package brokertest

import (
	"flag"
	"fmt"
	"strconv"
)

// SideBySide parses the flags of a TestMain and has so many tests run at a time, unless
// -parallel says how many. Go's own number is that of the processors; tests that wait for
// a broker, a process or a time-out most of the time leave those idle.
func SideBySide(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(fmt.Sprint("brokertest: have tests run side by side: ", err))
	}
}

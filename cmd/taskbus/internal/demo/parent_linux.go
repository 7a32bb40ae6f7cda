package demo

import "syscall"

// endWithParent has the child stopped in order when the demo dies, however that
// happens: it holds the leader's lock and would spoil the next demo.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }

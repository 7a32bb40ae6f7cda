//go:build !linux

package demo

import "syscall"

// endWithParent needs Linux; elsewhere a killed demo leaves its coordinator.
func endWithParent(*syscall.SysProcAttr) {}

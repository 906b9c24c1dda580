//go:build commands

// Package testbed names the etcd server that tests start, so that
// `go mod tidy` keeps everything it is built from. It is never compiled
// into anything: main packages cannot be imported.
package testbed

import _ "go.etcd.io/etcd/server/v3"

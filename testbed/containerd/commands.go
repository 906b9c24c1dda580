//go:build commands

// Package testbed names the containerd commands that tests start, so that
// `go mod tidy` keeps everything they are built from. It is never compiled
// into anything: main packages cannot be imported.
package testbed

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)

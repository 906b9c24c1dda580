//go:build commands

// Package testbed names the helm that tests install charts with, so that
// `go mod tidy` keeps everything it is built from. It is never compiled
// into anything: main packages cannot be imported.
package testbed

import _ "helm.sh/helm/v3/cmd/helm"

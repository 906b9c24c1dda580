//go:build commands

// Package testbed names the Kubernetes commands that tests start, so that
// `go mod tidy` keeps everything they are built from. It is never compiled
// into anything: main packages cannot be imported.
package testbed

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)

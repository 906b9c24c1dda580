"""The operator on a real kube-apiserver that a proxy makes unreliable."""

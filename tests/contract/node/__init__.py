"""What a node does with a pod: behaviours of our process runtime and of the kubelet alike."""

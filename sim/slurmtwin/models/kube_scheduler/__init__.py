"""kube-scheduler: queues with back-off, the filters and scores that matter here, volumes, binding (kubernetes.md 5)."""

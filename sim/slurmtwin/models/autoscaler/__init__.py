"""What changes the number of workers and of machines: HorizontalPodAutoscaler, KEDA, Cluster Autoscaler."""

"""kube-controller-manager: the loops that make the cluster what its objects say (kubernetes.md 4 to 6).

controller_manager  the process: shared informers, one client per controller
controller          what all controllers have in common: a queue, requests in order or in growing batches
defaults            their timers, by Kubernetes version
node_lifecycle, taint_eviction, pod_gc                  lost nodes
expectations        what a controller has asked for and not seen
stateful_set, replica_set, deployment, job, owners      workloads
disruption, endpoints, claims, attach_detach            budgets, services, volumes
"""

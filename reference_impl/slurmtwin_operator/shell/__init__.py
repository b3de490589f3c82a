"""The operator on a cluster: kopf watches, the core decides, this package observes, acts, remembers and tells.

kube_api, slurm_rest  clients            objects, slurm_view  what they answer, as the core's observations
cache                 what kopf's watches brought            perform     what each action does
reconcile             one pass           work_queue, lease   when, and whether it is ours to do
logs, telemetry       what it says       process             kopf's wiring (`python -m slurmtwin_operator.shell`)
"""

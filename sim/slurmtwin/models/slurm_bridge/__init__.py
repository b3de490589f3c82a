"""slurm-bridge: a kube-scheduler that lets Slurm choose the nodes of pods, and the controllers that clean up behind it.

Source: SlinkyProject/slurm-bridge 6f700ba (after v1.2.1), file by file. It is nobody's here, as kube-scheduler is: a
model. The reference operator has decisions of its own for groups of pods (slurmtwin_operator/core/pod_group.py).
"""

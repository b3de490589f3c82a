#!/bin/bash
# The body of every job: note the simulated time, sleep, note it again. Arguments: seconds, exit code.
# Lines this short are appended whole. The first line also says what was allocated, which no log of Slurm does.
note() { echo "$1 $SLURM_JOB_ID ${SLURM_ARRAY_JOB_ID:-0} ${SLURM_ARRAY_TASK_ID:--1} ${SLURM_RESTART_COUNT:-0} $EPOCHREALTIME $2 ${SLURMD_NODENAME:--}" >>/out/scripts.log; }
note start "0 $SLURM_JOB_NODELIST $SLURM_JOB_CPUS_PER_NODE ${SLURM_JOB_GPUS:--}"
sleep "$1"
code=$?
[ "$code" = 0 ] && code=$2
note end "$code - - -"
exit "$code"

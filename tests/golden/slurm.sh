#!/bin/bash
# 10 blocks of the study allocators-20261123T120000Z: one task for each, alone on its node.
# Submit with: sbatch /shared/studies/allocators-20261123T120000Z/slurm.sh      When all tasks have ended: mydyno collect /shared/studies/allocators-20261123T120000Z
#SBATCH --job-name=mydyno-allocators-20261123t120000z
#SBATCH --array=1-10%4
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --time=00:19:00
#SBATCH --signal=B:TERM@90
#SBATCH --output=/shared/studies/allocators-20261123T120000Z/slurm-%a.log
# On a disk of the node: it is measured, and must not be shared with other nodes.
export MYDYNO_DATA="${MYDYNO_DATA:-${SLURM_TMPDIR:-/tmp}/mydyno-data-$(id -un)}"
exec mydyno block /shared/studies/allocators-20261123T120000Z --block "$SLURM_ARRAY_TASK_ID" --group "$SLURMD_NODENAME"

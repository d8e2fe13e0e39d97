#!/bin/bash
#SBATCH --job-name=mydyno-allocators-20261123t120000z-5a1e
#SBATCH --array=1-10%4
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --time=00:19:00
#SBATCH --signal=B:TERM@90
#SBATCH --output="/shared/studies/allocators-20261123T120000Z/slurm-%A_%a.log"
#SBATCH --partition=bench
# On a disk of the node: it is measured, and must not be shared with other nodes.
export MYDYNO_DATA="${MYDYNO_DATA:-${SLURM_TMPDIR:-/tmp}/mydyno-data-$(id -un)}"
exec /shared/mydyno/mydyno block /shared/studies/allocators-20261123T120000Z --block "$SLURM_ARRAY_TASK_ID" --group "$SLURMD_NODENAME"

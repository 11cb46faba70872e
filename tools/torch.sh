#!/bin/sh
# Install the build of PyTorch that pip would choose by itself, if its hash is in the lock: sh tools/torch.sh PYTHON LOCK [pip's options]
#
# Builds for CPUs and for CUDA have the same version. With hashes, pip prefers files whose index states a hash, and so a CUDA
# build of several GB to a file in a folder. If the hash is not in the lock, nothing is installed, and pip chooses again
# among the files of the lock.
set -eu
python=$1 lock=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '/^torch==/,/[^\\]$/p' "$lock" > "$folder/torch.lock"
release=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' "$lock")
"$python" -m pip download --quiet --disable-pip-version-check "$@" --no-deps --dest "$folder" "$release" &&
  "$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$folder" --no-deps --require-hashes -r "$folder/torch.lock" ||
  echo "The build of PyTorch that pip found is not in $lock; pip now chooses one that is."

#!/bin/sh
# Run named steps in order and end with one line that says how it went.
#
#   sh tools/steps.sh TITLE NAME COMMAND [NAME COMMAND ...]
#
# Each COMMAND is a line for the shell. The first that fails ends it all, and its exit code is this script's.
title=$1
shift
total=$(($# / 2)) step=0 began=$(date +%s)
while [ $# -gt 0 ]; do
  step=$((step + 1))
  echo "== $title, step $step of $total: $1"
  sh -c "$2"
  code=$?
  if [ $code -ne 0 ]; then
    echo "$title: FAILED after $(($(date +%s) - began)) s, at step $step of $total: $1 (exit code $code)"
    exit $code
  fi
  shift 2
done
echo "$title: all went well, $(($(date +%s) - began)) s ($total of $total steps)"

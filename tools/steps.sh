#!/bin/sh
# Run named steps in order, and end with one line that summarises the result.
#
#   sh tools/steps.sh TITLE NAME COMMAND [NAME COMMAND ...]
#
# Each COMMAND is a line for the shell. The first failure ends the script with the exit code of that command. Ctrl-C ends it,
# too, after the current command, which also receives the signal, has ended.
title=$1
shift
total=$(($# / 2)) step=0 began=$(date +%s)

ended() { # STATE CODE
  echo "$title: $1 after $(($(date +%s) - began)) s, at step $step of $total: $name (exit code $2)"
  exit "$2"
}
trap 'ended interrupted 130' INT
trap 'ended terminated 143' TERM

while [ $# -gt 0 ]; do
  step=$((step + 1)) name=$1
  echo "== $title, step $step of $total: $name"
  sh -c "$2" || ended FAILED $?
  shift 2
done
echo "$title: all went well, $(($(date +%s) - began)) s ($total of $total steps)"

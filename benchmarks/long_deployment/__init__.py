"""A long deployment: clients come and go by a calendar, programs are restarted, and all are watched for leaks."""

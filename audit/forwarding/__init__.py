"""Forwards sealed rows of the audit log to syslog, an HTTPS collector or a file, from where each forwarder stopped."""

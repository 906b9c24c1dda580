"""HTTPS in front of the embedded API server: what kubectl and client libraries speak to."""

"""Who a client is (SCRAM, user names and passwords), and which topics are denied."""

"""Who a client is (SCRAM), and which topics are denied."""

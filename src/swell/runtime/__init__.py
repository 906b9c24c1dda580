"""What every controller needs: the cluster port, informers, queues, leadership, events, time."""

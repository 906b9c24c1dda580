"""The operator as a subject of the simulator."""

"""Those who act in the simulated world beside the components under test."""

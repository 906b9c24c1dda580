"""All parts of Swell in one process on one machine, and what starts and stops that process."""

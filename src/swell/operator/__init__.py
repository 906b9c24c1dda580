"""The job controllers. `lifecycle` decides, purely; the modules beside it act."""

"""The gang scheduler: snapshot, session, actions, plugins."""

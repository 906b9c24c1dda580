"""The three kinds of patches: from a body and a patch to the body that is then checked as usual."""

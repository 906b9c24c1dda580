"""What to do about one AITrainingJob: pure functions from what is seen to what is to be done."""

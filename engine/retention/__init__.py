"""What happens to what is finished: history by day, and removal by age."""

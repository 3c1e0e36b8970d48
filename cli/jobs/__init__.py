"""Commands about jobs, what they are made of and what they leave."""

"""Routes for what left Atlas: effects on other systems and mail."""

"""`holdall lab compare`: all protocols side by side, on the same claims, in virtual time."""

"""What every package stands on: exits, commands, schemas, files, processes, git."""

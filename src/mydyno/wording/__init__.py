"""Every sentence about results, and the numbers in them: what results/ found, for the terminal, pages and files."""

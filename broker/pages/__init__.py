"""FC-26 `page`: the messages of full addresses, held on disk in order."""

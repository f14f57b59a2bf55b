"""The run director: what is done with each run, and whether somebody is asked at its ends."""

"""Fleet time: weeks of windows and hourly operator figures for thousands of devices, without simulating each event.

Read `settings` (what may be asked for), `profile` (what one step costs, from the machine's limits), `plan` (what
changes when, where), then `generate` (the rows). `sinks` put them into a store or into Parquet files; `truth` says what
was planted.
"""

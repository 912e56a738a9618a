"""The exact EMBER oracle: plain Python, standard library only.

One module a noun of the contract. Start at `ember_ref.scenario`, then `ember_ref.simulator`.
"""

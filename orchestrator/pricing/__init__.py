"""What the counts of a job come to in money, and what a deployment costs that idles.

prices.yaml   the prices, each with where it was seen and when
table         reads them, and those that somebody gives instead
bill          counts -> lines -> a total; pure
idle          settings -> what nobody asked for in a month; pure
"""
